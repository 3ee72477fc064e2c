//! Walks the heap as spans, and checks its invariants.

use super::area::Area;
use super::heap::TagHeap;
use super::index::Index;
use super::reclaim::Reclaim;
use crate::error::Fault;
use crate::strategy::Span;
use crate::tags::{Block, TAG};

impl<P: Index, R: Reclaim, A: Area> TagHeap<P, R, A> {
    /// Calls `visit` for every span of the heap in address order.
    pub(crate) fn walk_blocks(&self, visit: &mut dyn FnMut(Span)) {
        let in_use = |block: Block| self.cells.is_in_use(block.start) && !self.is_area(block);
        self.cells.walk(self.cells.end(), TAG, in_use, visit);
    }

    /// Checks the invariants. O(n log n).
    pub(crate) fn audit_blocks(&self) -> Result<(), Fault> {
        let cells = &self.cells;
        if cells.end() == 0 {
            return Ok(());
        }
        let (mut free_blocks, mut free_cells) = (0, 0);
        let (mut withheld, mut areas) = (0, 0);
        let is_withheld = |block| R::WITHHOLDS && cells.is_withheld(block);
        let in_use = |block: Block| cells.is_in_use(block.start) || is_withheld(block);
        cells.audit(cells.end(), R::JOINS, in_use, |block, in_use| {
            free_blocks += u32::from(!in_use);
            free_cells += if in_use { 0 } else { block.len };
            withheld += u32::from(is_withheld(block));
            areas += u32::from(self.is_area(block) && in_use && block.len == self.area.len);
        })?;

        let wilderness = self.wilderness();
        let (mut known_blocks, mut known_cells) =
            (u32::from(wilderness.is_some()), wilderness.map_or(0, |block| block.len));
        self.index.audit(cells, &mut |block| {
            // An index that keeps no blocks also finds the wilderness.
            if Some(block) != wilderness {
                known_blocks += 1;
                known_cells += block.len;
            }
        })?;
        let origin = cells.origin().addr();
        Fault::unless(
            (known_blocks, known_cells) == (free_blocks, free_cells),
            "the index has every free block but the wilderness",
            origin,
        )?;
        Fault::unless(
            self.reclaim.withheld(cells)? == withheld,
            "every withheld block is on its list",
            origin,
        )?;
        Fault::unless(areas == u32::from(self.area.len > 0), "the area is a block", origin)?;
        self.audit_area()
    }
}
