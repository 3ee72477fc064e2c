//! The index of a heap's free blocks, which distinguishes one fit from another: it determines the
//! order in which free blocks are kept, and which of them is taken.

use crate::error::Fault;
use crate::meter::Meter;
use crate::tags::{Block, Cells};

/// Which free block serves a request: [`Best`](super::Best), [`Good`](super::Good),
/// [`Worst`](super::Worst), [`Segregated`](super::Segregated), [`First`](super::First),
/// [`Next`](super::Next), [`Lifo`](super::Lifo), [`Fifo`](super::Fifo),
/// [`HalfFit`](super::HalfFit), [`Decrement`](super::Decrement),
/// [`Traverse`](crate::head_first::Traverse) or another of those listed here.
pub trait Index: IndexPolicy {}

/// The methods of an [`Index`] that a heap uses.
///
/// The links of free blocks belong to the index, their tags to the heap. When a block is inserted
/// or removed, the tags of all other blocks in the index are right; its own may be gone.
pub trait IndexPolicy {
    /// The index of no blocks.
    const EMPTY: Self;

    /// Whether the index depends on sizes alone. A block is then replaced by removing it and
    /// inserting the new one, and is best removed as soon as it is found.
    const BY_SIZE: bool = false;

    /// The start of the first block, in cells; the cells below are the index's own.
    const FIRST: u32 = 1;

    /// Prepares the cells below the first block, which have just become the heap's.
    fn open(&mut self, _cells: &mut Cells) {}

    /// Inserts a free block.
    fn insert<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M);

    /// Removes a block.
    fn remove<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M);

    /// Replaces `old` by `new`, which is in the same place or has grown around it: no other block
    /// of the index is in between.
    fn replace<M: Meter>(&mut self, old: Block, new: Block, cells: &mut Cells, meter: &M) {
        self.remove(old, cells, meter);
        self.insert(new, cells, meter);
    }

    /// Replaces `old` by `new` in the index; either may be none.
    #[inline(always)]
    fn exchange<M: Meter>(
        &mut self,
        old: Option<Block>,
        new: Option<Block>,
        cells: &mut Cells,
        meter: &M,
    ) {
        match (old, new) {
            (Some(old), Some(new)) => self.replace(old, new, cells, meter),
            (Some(old), None) => self.remove(old, cells, meter),
            (None, Some(new)) => self.insert(new, cells, meter),
            (None, None) => {}
        }
    }

    /// Removes the neighbours that a block is joined with, except the one to be
    /// [exchanged](Self::exchange) for the joined block. Returns that one, if there is one.
    #[inline(always)]
    fn remove_but_one<M: Meter>(
        &mut self,
        (below, above): (Option<Block>, Option<Block>),
        cells: &mut Cells,
        meter: &M,
    ) -> Option<Block> {
        if !Self::BY_SIZE && (below.is_none() || above.is_none()) {
            return below.or(above);
        }
        if let Some(above) = above {
            self.remove(above, cells, meter);
        }
        if Self::BY_SIZE
            && let Some(below) = below
        {
            self.remove(below, cells, meter);
            return None;
        }
        below
    }

    /// Finds the block from which to serve `len` cells at a multiple of `align` bytes. Returns the
    /// block, and where in it the cells start.
    fn find<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &Cells,
        meter: &M,
    ) -> Option<(Block, u32)>;

    /// Like [`find`](Self::find), and removes the block.
    fn take<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &mut Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        let found = self.find(len, align, cells, meter)?;
        self.remove(found.0, cells, meter);
        Some(found)
    }

    /// Like [`take`](Self::take), for when there is no other memory: searches more blocks, and
    /// takes more time.
    fn take_last<M: Meter>(
        &mut self,
        _len: u32,
        _align: usize,
        _cells: &mut Cells,
        _meter: &M,
    ) -> Option<(Block, u32)> {
        None
    }

    /// Checks the index and calls `visit` for every block in it.
    fn audit(&self, cells: &Cells, visit: &mut dyn FnMut(Block)) -> Result<(), Fault>;
}

/// Returns the lowest start in a free block of `len` cells at a multiple of `align` bytes, if they
/// fit.
#[inline]
pub(crate) fn fit(block: Block, len: u32, align: usize, cells: &Cells) -> Option<u32> {
    let start = cells.aligned(block.start, align)?;
    (start.checked_add(len)? <= block.end()).then_some(start)
}

/// Returns the number of cells that are sure to contain `len` cells at a multiple of `align` bytes,
/// wherever they start.
pub(super) fn certain(len: u32, align: usize) -> Option<u32> {
    len.checked_add(u32::try_from(align / crate::tags::CELL).ok()?)?.checked_sub(1)
}
