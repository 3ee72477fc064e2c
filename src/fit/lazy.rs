//! The heap's operations on its free-space area: serving requests, renewing the area and giving it
//! back, and joining it with other blocks.

use super::area::{Area, Beside};
use super::heap::TagHeap;
use super::index::Index;
use super::reclaim::Reclaim;
use crate::error::Fault;
use crate::meter::Meter;
use crate::tags::Block;

impl<P: Index, R: Reclaim, A: Area> TagHeap<P, R, A> {
    /// Allocates `len` cells of the area at a multiple of `align` bytes, if it has them. O(1).
    #[inline(always)]
    pub(super) fn bump<M: Meter>(&mut self, len: u32, align: usize, meter: &M) -> Option<u32> {
        if !A::LAZY || len > self.area.len {
            return None;
        }
        let start = self.cells.aligned(self.area.start, align)?;
        if start.checked_add(len)? > self.area.end() {
            return None;
        }
        self.use_area(start, len, meter);
        Some(start)
    }

    /// Allocates the `len` cells of the area from `start` on. The cells below them become free.
    #[inline(always)]
    pub(super) fn use_area<M: Meter>(&mut self, start: u32, len: u32, meter: &M) {
        let gap = self.cut(start - self.area.start);
        self.cut(len);
        if gap.len > 0 {
            self.make_free(gap, meter);
        }
    }

    /// Increments the allocation pointer: the lower `len` cells of the area become a block of their
    /// own, if `len` is not 0.
    #[inline(always)]
    fn cut(&mut self, len: u32) -> Block {
        if 0 < len && len < self.area.len {
            self.cells.divide(self.area, len);
        }
        let below = Block { start: self.area.start, len };
        self.area = Block { start: below.end(), len: self.area.len - len };
        below
    }

    /// Makes the area free memory; then the heap has no area.
    #[inline]
    pub(super) fn give_back<M: Meter>(&mut self, meter: &M) {
        let rest = core::mem::replace(&mut self.area, Block::NONE);
        if rest.len > 0 {
            self.make_free(rest, meter);
        }
    }

    /// Returns whether a free block may become the area.
    #[inline(always)]
    pub(super) fn serves_as_area(&self, block: Block) -> bool {
        A::LAZY && !(A::SPARES_WILDERNESS && block.end() == self.cells.end())
    }

    /// Makes a free block, or its lower part up to at least `end`, the area. `indexed` is the
    /// block, if it is still in the index.
    pub(super) fn renew_area<M: Meter>(
        &mut self,
        block: Block,
        end: u32,
        indexed: Option<Block>,
        meter: &M,
    ) {
        let len = A::MOST.max(end - block.start).min(block.len);
        let rest = Block { start: block.start + len, len: block.len - len };
        let prev_in_use = self.cells.prev_is_in_use(block.start);
        self.area = Block { start: block.start, len };
        if rest.len > 0 {
            self.cells.put_free(rest, true);
        }
        self.cells.put_in_use(self.area, prev_in_use);
        self.exchange(indexed, self.indexed(rest), meter);
    }

    /// Returns whether a block lies right below the allocation pointer or right above the bound
    /// pointer.
    #[inline(always)]
    pub(super) fn adjoins_area(&self, block: Block) -> bool {
        block.end() == self.area.start || block.start == self.area.end()
    }

    /// Joins a block in use beside the area, and the free blocks beside that block, with the area.
    pub(super) fn extend_area<M: Meter>(&mut self, block: Block, meter: &M) {
        let joined = self.take_neighbours(block, meter);
        let start = joined.start.min(self.area.start);
        let end = joined.end().max(self.area.end());
        let prev_in_use = self.cells.prev_is_in_use(start);
        self.area = Block { start, len: end - start };
        self.cells.put_in_use(self.area, prev_in_use);
    }

    /// Returns whether a block is the area.
    #[inline(always)]
    pub(super) fn is_area(&self, block: Block) -> bool {
        A::LAZY && self.area.len > 0 && block.start == self.area.start
    }

    /// Makes a block in use right below the area `len` cells long, if that is shorter or if the
    /// area has the missing cells. Returns whether it did.
    pub(super) fn resize_beside_area<M: Meter>(
        &mut self,
        block: Block,
        len: u32,
        meter: &M,
    ) -> bool {
        if self.area.len == 0 || block.end() != self.area.start {
            return false;
        }
        if len < block.len {
            self.cells.divide(block, len);
            self.make_free(Block { start: block.start + len, len: block.len - len }, meter);
            return true;
        }
        let more = len - block.len;
        if more > self.area.len {
            if self.area.end() == self.cells.end() {
                // As part of the wilderness, its memory can grow.
                self.give_back(meter);
            }
            return false;
        }
        let prev_in_use = self.cells.prev_is_in_use(block.start);
        self.cut(more);
        self.cells.put_in_use(Block { start: block.start, len }, prev_in_use);
        true
    }

    /// Checks the blocks beside the area.
    pub(super) fn audit_area(&self) -> Result<(), Fault> {
        let (area, cells) = (self.area, &self.cells);
        if area.len == 0 || matches!(A::BESIDE, Beside::Apart) || !R::JOINS {
            return Ok(());
        }
        let at = cells.contents(area.start).addr();
        let bounded = A::MOST < u32::MAX;
        let above = if bounded { None } else { self.free_above(area.end()) };
        let alone = cells.prev_is_in_use(area.start) && above.is_none();
        Fault::unless(alone, "nothing beside the free-space area is free", at)
    }
}
