//! Walks the blocks in address order, and checks the invariants.

use super::{BinaryBuddies, NIL, ORDERS};
use crate::error::Fault;
use crate::meter::Meter;

impl BinaryBuddies {
    /// Returns every block in address order: start, order and whether it is free.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (u32, u32, bool)> {
        let mut start = 0;
        core::iter::from_fn(move || {
            (start < self.granules).then(|| {
                let order = self.order_at(start);
                let block = (start, order, self.is_free(start));
                start += 1 << order;
                block
            })
        })
    }

    /// Returns the order of the block that starts at `start`: its length is the distance to the
    /// next start, a power of two. O(log n).
    pub(super) fn order_at(&self, start: u32) -> u32 {
        let most = if start == 0 { ORDERS as u32 - 1 } else { start.trailing_zeros() };
        let ends_there = |&order: &u32| {
            let end = start + (1 << order);
            end >= self.granules || self.is_start(end)
        };
        (0..most).find(ends_there).unwrap_or(most)
    }

    /// Checks the invariants, except those that are checked for every walk. O(n).
    pub(super) fn audit_blocks<M: Meter>(&self, meter: &M) -> Result<(), Fault> {
        let mut free_blocks = [0u32; ORDERS];
        let mut starts = 0;
        for (start, order, free) in self.blocks() {
            let at = self.address(start).addr().get();
            Fault::unless(self.is_start(start), "a block has a start", at)?;
            Fault::unless(start % (1 << order) == 0, "a block is aligned to its length", at)?;
            Fault::unless(start + (1 << order) <= self.granules, "no block leaves the heap", at)?;
            if free {
                Fault::unless(self.read(start).order == order, "a free block knows its order", at)?;
                let joined = self.free_buddy(start, order, meter).is_none();
                Fault::unless(joined, "no two buddies are both free", at)?;
                free_blocks[order as usize] += 1;
            }
            starts += 1;
        }
        let tagged: u32 = (0..self.granules as usize / 64)
            .map(|word| self.tags.get(word).starts.count_ones())
            .sum();
        let origin = self.origin.addr();
        Fault::unless(tagged == starts, "only blocks have starts", origin)?;
        for (order, &count) in free_blocks.iter().enumerate() {
            let (mut block, mut prev, mut members) = (self.lists[order], NIL, 0);
            while block != NIL {
                let at = self.address(block).addr().get();
                Fault::unless(self.is_free(block), "a list has free blocks", at)?;
                Fault::unless(self.read(block).prev == prev, "prev undoes next", at)?;
                members += 1;
                Fault::unless(members <= count, "a list has every free block once", at)?;
                (prev, block) = (block, self.read(block).next);
            }
            Fault::unless(members == count, "a list has every free block once", origin)?;
            let marked = self.orders >> order & 1 == 1;
            Fault::unless(marked == (count > 0), "a bit is set iff its list is not empty", origin)?;
        }
        Ok(())
    }
}
