//! Frees blocks, and reclaims freed blocks when memory is scarce, according to the heap's
//! [`Reclaim`].

use super::area::Area;
use super::heap::TagHeap;
use super::index::Index;
use super::reclaim::Reclaim;
use crate::meter::Meter;
use crate::tags::Block;

impl<P: Index, R: Reclaim, A: Area> TagHeap<P, R, A> {
    /// Frees a block in use. Takes the time of a change of the index, now or when memory is scarce.
    #[inline(always)]
    pub(crate) fn release<M: Meter>(&mut self, block: Block, meter: &M) {
        if self.reclaim.free(block, &mut self.cells, meter) {
            self.make_free(block, meter);
        }
    }

    /// Marks a block as not in use in its own header, before it is [released](Self::release), alone
    /// or with others as one. The header may be within free memory afterwards.
    #[inline]
    pub(crate) fn mark_released(&mut self, block: Block) {
        self.cells.set_in_use(block.start, false);
    }

    /// Frees withheld blocks and joins free neighbours, according to the policy. Returns whether it
    /// did. `exhausted` means that there is no other memory.
    pub(super) fn reclaim<M: Meter>(&mut self, exhausted: bool, meter: &M) -> bool {
        let mut any = false;
        while R::WITHHOLDS
            && let Some(block) = self.reclaim.take_withheld(&self.cells, meter)
        {
            self.make_free(block, meter);
            any = true;
        }
        any || (self.reclaim.join_now(self.cells.end(), exhausted) && self.join_all(meter))
    }

    /// Joins all free neighbours. Returns whether there were any. O(n).
    fn join_all<M: Meter>(&mut self, meter: &M) -> bool {
        let mut joined_any = false;
        let mut start = self.cells.first();
        while start < self.cells.end() {
            let mut joined = self.cells.block(start);
            meter.visit(self.cells.header(start));
            if let Some(mut free) = self.cells.free_above(start) {
                while let Some(above) = self.cells.free_above(joined.end()) {
                    self.exchange(self.indexed(free), None, meter);
                    joined.len += above.len;
                    free = above;
                }
                if free != joined {
                    self.exchange(self.indexed(free), None, meter);
                    self.cells.put_free(joined, true);
                    self.exchange(None, self.indexed(joined), meter);
                    joined_any = true;
                }
            }
            start = joined.end();
        }
        joined_any
    }
}
