//! The engine: `Create` with `ChunkUp` and `SpaceFit`, `Stitch`, and the merging of `Free`.
//!
//! ```text
//! origin                                                                          end
//!  | gap [H]| in use [O][H]| region      [F][H]| in use [O][H]| free  [F][H]| … [O][H']|
//!            1              ▲ allocated from its high end ◀
//! ```
//! The module `tags` describes the tags. O is the owner of a block in use, in the place of a free
//! block's footer. A block of n cells holds 16n − 8 bytes. H' is the header of an empty block in
//! use.
//!
//! Invariants:
//! - blocks tile the cells from the first, 1 unless the index has cells of its own, to `end`; the
//!   last header is at `end`;
//! - no two neighbouring blocks are both free, unless `seamed`;
//! - PREV_IN_USE equals the IN_USE of the block below; a free block's footer is its size;
//! - `region` is the start of a block, or `end`; without an unallocated region it is [`NONE`];
//! - the index has every free block but the one at `region`.
//!
//! The tags and the index are shared with the fits, but the heap is not. To turn the fits' heap
//! into this one, a policy would be needed wherever that heap carves, joins, resizes, grows or
//! audits. It would contain nearly all of this directory, since the two heaps represent different
//! things:
//! - The block missing from the index is the region, wherever it is. In a fit it is the uppermost
//!   block, which no change of a block below can move.
//! - The owner takes the place of the footer. A block holds 4 bytes less, and a resize must move
//!   the owner.
//! - Fresh memory is two free blocks side by side. A free block may have a free neighbour until
//!   `Stitch`, though later frees join theirs at once.

mod grow;
mod inspect;

use core::marker::PhantomData;

use super::policy::{Halving, Order};
use crate::error::AllocError;
use crate::fit::index::{Index, fit};
use crate::meter::Meter;
use crate::source::Source;
use crate::tags::{Block, CELL, Cells, MAX_CELLS, NONE, TAG};

/// Bytes that a block has in addition to its contents: header and owner.
pub(super) const OVERHEAD: usize = 2 * TAG;

/// The heap of a [`SpaceFit`](super::SpaceFit) engine.
#[derive(Debug)]
pub(super) struct FittedHeap<O, H, P> {
    cells: Cells,
    /// Cells the heap grows by.
    growth: u32,
    /// Where the unallocated region starts, or starts again once the block there is freed.
    region: u32,
    /// Whether two neighbours may both be free: the halves of fresh memory.
    seamed: bool,
    index: P,
    policies: PhantomData<(O, H)>,
}

impl<O: Order, H: Halving, P: Index> FittedHeap<O, H, P> {
    /// Makes an empty heap that grows by multiples of `growth` bytes.
    pub(super) const fn new(growth: usize) -> Self {
        assert!(growth > 0 && growth.is_multiple_of(CELL) && growth / CELL < MAX_CELLS as usize);
        Self {
            cells: Cells::starting_at(P::FIRST),
            growth: (growth / CELL) as u32,
            region: NONE,
            seamed: false,
            index: P::EMPTY,
            policies: PhantomData,
        }
    }

    /// Returns where a block's contents start.
    #[inline(always)]
    pub(super) fn contents(&self, start: u32) -> *mut u8 {
        self.cells.contents(start)
    }

    /// Returns the owner of a block in use.
    pub(super) fn owner(&self, block: Block) -> u32 {
        self.cells.owner(block)
    }

    /// Returns the block whose contents start at this address; the caller vouches that it is in
    /// use.
    #[inline(always)]
    pub(super) fn block_at(&self, address: usize) -> Block {
        self.cells.block_at(address)
    }

    /// Returns the block in use whose contents start at this address, if there is one. Traverses
    /// the chain: O(n).
    pub(super) fn find_in_use<M: Meter>(&self, address: usize, meter: &M) -> Option<Block> {
        self.cells.find_in_use(address, self.cells.end(), meter)
    }

    /// `Create`: puts `len` cells at a multiple of `align` bytes to use.
    #[inline]
    pub(super) fn allocate<S: Source, M: Meter>(
        &mut self,
        (len, align): (u32, usize),
        owner: u32,
        source: &mut S,
        meter: &M,
    ) -> Result<u32, AllocError> {
        let found = match self.find(len, align, meter) {
            None if self.stitch(meter) => self.find(len, align, meter),
            found => found,
        };
        let block = match found {
            Some(block) => block,
            None => match self.grow(len, align, source, meter) {
                Ok(block) => block,
                Err(exhausted) => self.find_last(len, align, meter).ok_or(exhausted)?,
            },
        };
        let used = self.space_fit(block, len, align, meter).ok_or(AllocError::Exhausted)?;
        self.cells.set_owner(used, owner);
        Ok(used.start)
    }

    /// Finds a free block that holds the request: the unallocated region in O(1), if the order
    /// tries it first, else by the index.
    #[inline]
    fn find<M: Meter>(&mut self, len: u32, align: usize, meter: &M) -> Option<Block> {
        if let Some(region) = self.region() {
            meter.touch(self.cells.header(region.start));
            if fit(region, len, align, &self.cells).is_some() {
                return Some(region);
            }
        }
        self.index.find(len, align, &self.cells, meter).map(|(block, _)| block)
    }

    /// Returns a free block that holds the request and that the index has overlooked.
    #[cold]
    fn find_last<M: Meter>(&mut self, len: u32, align: usize, meter: &M) -> Option<Block> {
        let (block, _) = self.index.take_last(len, align, &mut self.cells, meter)?;
        self.index.insert(block, &mut self.cells, meter);
        Some(block)
    }

    /// `ChunkUp` and `SpaceFit`: uses `len` cells of a free block, and leaves the extra cells free.
    ///
    /// If the block was halved, its upper half takes the extra cells. Otherwise the block above
    /// takes them if it is free, else the block below. If neither is free, the block is divided,
    /// and its high end is used (Table 2).
    fn space_fit<M: Meter>(
        &mut self,
        block: Block,
        len: u32,
        align: usize,
        meter: &M,
    ) -> Option<Block> {
        let lower_half = Block { start: block.start, len: block.len / 2 };
        let halved = H::CHUNKS_UP && fit(lower_half, len, align, &self.cells).is_some();
        let seamed = self.seamed && !halved;
        let above = if seamed { self.cells.free_above(block.end()) } else { None };
        let below =
            if seamed && above.is_none() { self.cells.free_below(block.start) } else { None };
        let start = if halved || above.is_some() {
            fit(block, len, align, &self.cells)?
        } else {
            self.cells.aligned_down(block.end().checked_sub(len)?, align)?
        };
        if start < block.start {
            return None;
        }
        let used = Block { start, len };
        let below = below.filter(|_| block.start < used.start);
        let above = above.filter(|_| used.end() < block.end());
        self.put_to_use(block, used, below.or(above), meter);
        Some(used)
    }

    /// Makes `used` a block in use. The rest of `block` on either side goes to the free
    /// `neighbour`, if there is one on that side; else it becomes a free block.
    fn put_to_use<M: Meter>(
        &mut self,
        block: Block,
        used: Block,
        neighbour: Option<Block>,
        meter: &M,
    ) {
        let whole = neighbour.map_or(block, |neighbour| {
            let start = neighbour.start.min(block.start);
            Block::between(start, neighbour.end().max(block.end()))
        });
        let mut old = self.indexed(block);
        if let Some(neighbour) = neighbour.and_then(|neighbour| self.indexed(neighbour)) {
            if old.is_some() {
                // Removed while the tags of both are still right.
                self.index.remove(neighbour, &mut self.cells, meter);
            } else {
                old = Some(neighbour);
            }
        }
        let prev_in_use = self.cells.prev_is_in_use(whole.start);
        let (below, above) = self.cells.carve(whole, used, prev_in_use);
        if whole.has(self.region) {
            self.region = if above.len > below.len { above.start } else { below.start };
        }
        match (self.indexed(below), self.indexed(above)) {
            (Some(below), above) => {
                self.exchange(old, Some(below), meter);
                self.exchange(None, above, meter);
            }
            (None, above) => self.exchange(old, above, meter),
        }
    }

    /// `Free`, after its checks: joins a block in use with its free neighbours.
    #[inline]
    pub(super) fn release<M: Meter>(&mut self, block: Block, meter: &M) {
        meter.touch(self.cells.header(block.start));
        meter.touch(self.cells.header(block.end()));
        let below = self.cells.free_below(block.start);
        let above = self.cells.free_above(block.end());
        self.join(below, block, above, meter);
    }

    /// Makes one free block of a block, or of cells just gained, and the free ones below and above.
    #[inline]
    fn join<M: Meter>(
        &mut self,
        below: Option<Block>,
        block: Block,
        above: Option<Block>,
        meter: &M,
    ) {
        let joined = block.joined_with(below, above);
        let known = (
            below.and_then(|below| self.indexed(below)),
            above.and_then(|above| self.indexed(above)),
        );
        if joined.has(self.region) {
            self.region = joined.start;
        }
        let old = self.index.remove_but_one(known, &mut self.cells, meter);
        let prev_in_use = self.cells.prev_is_in_use(joined.start);
        self.cells.put_free(joined, prev_in_use);
        self.exchange(old, self.indexed(joined), meter);
    }

    /// `Stitch`: joins all free neighbours. Returns whether there were any. Only the halves of
    /// fresh memory are ever free neighbours; once they are joined there is nothing to traverse.
    #[cold]
    fn stitch<M: Meter>(&mut self, meter: &M) -> bool {
        let mut stitched = false;
        let mut below: Option<Block> = None;
        let mut start =
            if core::mem::take(&mut self.seamed) { self.cells.first() } else { self.cells.end() };
        while start < self.cells.end() {
            meter.visit(self.cells.header(start));
            let block = self.cells.block(start);
            let free = !self.cells.is_in_use(start);
            start = block.end();
            if free && let Some(below) = below {
                stitched = true;
                let none = Block { start: below.end(), len: 0 };
                self.join(Some(below), none, Some(block), meter);
            }
            let from = below.map_or(block.start, |below| below.start);
            below = free.then_some(Block { start: from, len: block.end() - from });
        }
        stitched
    }

    /// Makes a block in use `len` cells long without moving it, if the block itself, the free
    /// memory above it, or memory from the source suffices. Returns whether it did. Takes the time
    /// of a change of the index.
    pub(super) fn resize<S: Source, M: Meter>(
        &mut self,
        block: Block,
        len: u32,
        source: &mut S,
        meter: &M,
    ) -> bool {
        if len == block.len {
            return true;
        }
        let Some(wanted) = block.start.checked_add(len) else { return false };
        meter.touch(self.cells.header(block.end()));
        if wanted > self.reach(block) {
            self.stitch(meter);
        }
        let reach = self.reach(block);
        if wanted > reach {
            let grows = reach == self.cells.end();
            if !grows || self.extend(wanted, source, meter).is_err() {
                return false;
            }
        }
        let owner = self.cells.owner(block);
        let above = self.cells.free_above(block.end());
        let end = above.map_or(block.end(), Block::end);
        let (whole, resized) =
            (Block::between(block.start, end), Block { start: block.start, len });
        let old = above.and_then(|above| self.indexed(above));
        if above.is_some_and(|above| above.start == self.region) {
            // If the region is used up, the block above it is not the region: it may be the other
            // half of fresh memory, which is in the index.
            let stays = wanted < end || wanted == self.cells.end();
            self.region = if stays { wanted } else { block.start };
        }
        let prev_in_use = self.cells.prev_is_in_use(block.start);
        let (_, rest) = self.cells.carve(whole, resized, prev_in_use);
        self.cells.set_owner(resized, owner);
        self.exchange(old, self.indexed(rest), meter);
        true
    }

    /// Returns where a block ends, or where the free block above it ends if there is one.
    fn reach(&self, block: Block) -> u32 {
        self.cells.free_above(block.end()).map_or(block.end(), Block::end)
    }

    /// Returns the unallocated region, if the order tries it first and there is one.
    #[inline(always)]
    fn region(&self) -> Option<Block> {
        if !O::REGION_FIRST || self.region == NONE {
            return None;
        }
        self.cells.free_above(self.region)
    }

    /// Returns the block if it belongs in the index, that is, if it has cells and is not the
    /// unallocated region.
    #[inline(always)]
    fn indexed(&self, block: Block) -> Option<Block> {
        (block.len > 0 && block.start != self.region).then_some(block)
    }

    /// Replaces `old` by `new` in the index.
    #[inline(always)]
    fn exchange<M: Meter>(&mut self, old: Option<Block>, new: Option<Block>, meter: &M) {
        self.index.exchange(old, new, &mut self.cells, meter);
    }
}
