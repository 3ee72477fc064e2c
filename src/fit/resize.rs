//! Grows and shrinks blocks in place, upwards and downwards (Hasan & Chang 2006, §3.12).
//!
//! ```text
//!  before  │ free       │ block     │ free   │
//!  up      │ free       │ block ───────▶│   │        the contents stay
//!  down    │ block ───────────▶│       free │        the contents move
//! ```

use super::area::Area;
use super::heap::TagHeap;
use super::index::{Index, fit};
use super::reclaim::Reclaim;
use crate::meter::Meter;
use crate::source::Source;
use crate::tags::Block;

impl<P: Index, R: Reclaim, A: Area> TagHeap<P, R, A> {
    /// Makes a block in use `len` cells long without moving it, if the block itself, the free
    /// memory above it, or memory from the source suffices. Returns whether it did. Takes the time
    /// of a change of the index.
    pub(crate) fn resize_block<S: Source, M: Meter>(
        &mut self,
        block: Block,
        len: u32,
        source: &mut S,
        meter: &M,
    ) -> bool {
        self.resize_known(block, len, meter) || self.resize_growing(block, len, source, meter)
    }

    /// Like [`resize_block`](Self::resize_block), but takes no memory from the source.
    #[inline(always)]
    pub(crate) fn resize_known<M: Meter>(&mut self, block: Block, len: u32, meter: &M) -> bool {
        if len == block.len || (A::LAZY && self.resize_beside_area(block, len, meter)) {
            return true;
        }
        meter.touch(self.cells.header(block.end()));
        let above = self.free_above(block.end());
        let reach = above.map_or(block.end(), Block::end);
        if reach - block.start < len {
            return false;
        }
        let mut old = above.filter(|above| above.end() != self.cells.end());
        if P::BY_SIZE {
            self.exchange(old.take(), None, meter);
        }
        let prev_in_use = self.cells.prev_is_in_use(block.start);
        let (whole, used) = (Block::between(block.start, reach), Block { start: block.start, len });
        let (_, rest) = self.cells.carve(whole, used, prev_in_use);
        self.exchange(old, self.indexed(rest), meter);
        true
    }

    /// Like [`resize_block`](Self::resize_block), with memory from the source, if that would lie
    /// right above the block.
    #[inline(always)]
    pub(crate) fn resize_growing<S: Source, M: Meter>(
        &mut self,
        block: Block,
        len: u32,
        source: &mut S,
        meter: &M,
    ) -> bool {
        let reach = self.free_above(block.end()).map_or(block.end(), Block::end);
        reach == self.cells.end() && self.resize_last(block, len, source, meter)
    }

    /// Like [`resize_block`](Self::resize_block), for the uppermost block.
    #[cold]
    #[inline(never)]
    fn resize_last<S: Source, M: Meter>(
        &mut self,
        block: Block,
        len: u32,
        source: &mut S,
        meter: &M,
    ) -> bool {
        let Some(wanted) = block.start.checked_add(len) else { return false };
        self.extend(wanted, source).is_ok() && self.resize_known(block, len, meter)
    }

    /// Lengthens a block in use to `len` cells by moving the first `bytes` bytes of its contents
    /// down into the free block below it, if that and the free block above suffice. Returns the new
    /// start, at a multiple of `align` bytes. Takes the time of the move and of changes of the
    /// index.
    pub(crate) fn grow_down<M: Meter>(
        &mut self,
        block: Block,
        (len, align): (u32, usize),
        bytes: usize,
        meter: &M,
    ) -> Option<u32> {
        meter.touch(self.cells.header(block.start));
        let below = self.cells.free_below(block.start)?;
        let whole = block.joined_with(Some(below), self.free_above(block.end()));
        let start = fit(whole, len, align, &self.cells)?;
        debug_assert!(start <= block.start && len > block.len && bytes <= Self::bytes(block.len));
        self.take_neighbours(block, meter);
        // SAFETY: both ranges are in the cells of `whole`, that is, of this block and of free ones
        // that are no longer in the index. The tags that the copy overwrites are written again
        // below.
        unsafe { self.contents(start).copy_from(self.contents(block.start), bytes) };
        let prev_in_use = self.cells.prev_is_in_use(whole.start);
        self.cells.put_in_use(whole, prev_in_use);
        let gap = Block::between(whole.start, start);
        let rest = Block::between(start + len, whole.end());
        if rest.len > 0 {
            self.cells.divide(whole, whole.len - rest.len);
            self.make_free(rest, meter);
        }
        if gap.len > 0 {
            self.cells.divide(Block { start: whole.start, len: gap.len + len }, gap.len);
            self.make_free(gap, meter);
        }
        Some(start)
    }
}
