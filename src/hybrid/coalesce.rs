//! Joins free blocks with their free neighbours: until a block is large enough, or all of them
//! (§3.7, §3.8).
//!
//! Only blocks that wait are looked at: a block is joined once for each time it was freed. So
//! joining adds no more than O(1) to each free, except for the tree of large blocks.

use super::heap::{Context, HybridHeap};
use super::lists::{LISTS, State};
use crate::meter::Meter;
use crate::tags::Block;

impl HybridHeap {
    /// Joins large blocks that wait, until one has `len` cells, which is taken.
    pub(super) fn join_large<M: Meter>(&mut self, len: u32, meter: &M) -> Option<Block> {
        while let Some(block) = self.lists.waiting_large(&mut self.cells, meter) {
            let joined = self.join(block, meter);
            if joined.len >= len {
                return Some(joined);
            }
            self.lists.insert(joined, State::Joined, &mut self.cells, meter);
        }
        None
    }

    /// Joins smaller blocks that wait, the larger ones first, until one has `len` cells, which is
    /// taken.
    pub(super) fn join_below<M: Meter>(&mut self, len: u32, meter: &M) -> Option<Block> {
        while let Some(block) = self.lists.waiting_below(len, &mut self.cells, meter) {
            let joined = self.join(block, meter);
            if joined.len >= len {
                return Some(joined);
            }
            self.lists.insert(joined, State::Joined, &mut self.cells, meter);
        }
        None
    }

    /// Joins all free blocks of the heap, including those on the quick lists.
    #[cold]
    #[inline(never)]
    pub(super) fn join_all<S, M: Meter>(&mut self, context: &mut Context<'_, S, M>) {
        let meter = context.meter;
        self.frees_at_join = context.frees;
        self.monitor.complete_coalescings += 1;
        for len in 1..LISTS {
            while let Some(start) = self.quick.take(len, &self.cells, meter) {
                let prev_in_use = self.cells.prev_is_in_use(start);
                self.release(Block { start, len: len as u32 }, prev_in_use, meter);
            }
        }
        // No block is that long, so all are joined.
        self.join_large(u32::MAX, meter);
        self.join_below(u32::MAX, meter);
    }

    /// Returns a free block, off its list, joined with all its free neighbours.
    fn join<M: Meter>(&mut self, block: Block, meter: &M) -> Block {
        let (mut start, mut end) = (block.start, block.end());
        while let Some(below) = self.cells.free_below(start) {
            meter.touch(self.cells.header(below.start));
            self.lists.remove(below, &mut self.cells, meter);
            start = below.start;
        }
        meter.touch(self.cells.header(end));
        while let Some(above) = self.cells.joinable_above(end) {
            self.lists.remove(above, &mut self.cells, meter);
            end = above.end();
            meter.touch(self.cells.header(end));
        }
        let joined = Block { start, len: end - start };
        if joined != block {
            self.monitor.joins += 1;
            self.cells.put_free(joined, true);
        }
        joined
    }
}
