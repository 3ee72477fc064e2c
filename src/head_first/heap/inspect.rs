//! Walks the heap as spans, and checks its invariants.

use super::{Block, FittedHeap, Halving, Index, NONE, OVERHEAD, Order};
use crate::error::Fault;
use crate::strategy::Span;

impl<O: Order, H: Halving, P: Index> FittedHeap<O, H, P> {
    /// Calls `visit` for every span of the heap in address order.
    pub(in crate::head_first) fn walk(&self, visit: &mut dyn FnMut(Span)) {
        let in_use = |block: Block| self.cells.is_in_use(block.start);
        self.cells.walk(self.cells.end(), OVERHEAD, in_use, visit);
    }

    /// Checks the invariants. O(n log n).
    pub(in crate::head_first) fn audit(&self) -> Result<(), Fault> {
        let cells = &self.cells;
        if cells.end() == 0 {
            return Ok(());
        }
        let mut free = (0, 0);
        let mut region_found = self.region == NONE || self.region == cells.end();
        let in_use = |block: Block| cells.is_in_use(block.start);
        cells.audit(cells.end(), !self.seamed, in_use, |block, in_use| {
            region_found |= self.region == block.start;
            if !in_use {
                free = (free.0 + 1, free.1 + block.len);
            }
        })?;
        let origin = cells.origin().addr();
        Fault::unless(region_found, "the unallocated region starts where a block does", origin)?;

        let region = self.region();
        let mut known = (u32::from(region.is_some()), region.map_or(0, |region| region.len));
        self.index.audit(cells, &mut |block| {
            // A policy that keeps no index also finds the region.
            if Some(block) != region {
                known = (known.0 + 1, known.1 + block.len);
            }
        })?;
        Fault::unless(known == free, "the index has every free block but the region", origin)
    }
}
