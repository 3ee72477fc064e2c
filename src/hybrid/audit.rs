//! Walks the heap as spans, and checks its invariants.

use super::heap::HybridHeap;
use super::lists::LISTS;
use crate::error::Fault;
use crate::strategy::{Span, SpanKind};
use crate::tags::{Block, CELL, TAG};

impl HybridHeap {
    /// Returns the block in use whose contents start at this address, if there is one; any address
    /// may be passed. O(n).
    pub(super) fn find_in_use(&self, address: usize) -> Option<Block> {
        self.cells.find_in_use(address, self.top, &())
    }

    /// Calls `visit` for every span of the heap in address order.
    pub(super) fn walk(&self, visit: &mut dyn FnMut(Span)) {
        let in_use = |block: Block| self.cells.is_in_use(block.start);
        self.cells.walk(self.top, TAG, in_use, visit);
        let wilderness = (self.cells.end() - self.top) as usize * CELL;
        if wilderness > 0 {
            let start = self.cells.contents(self.top).addr();
            visit(Span { start, len: wilderness, kind: SpanKind::Free });
        }
    }

    /// Checks the invariants.
    pub(super) fn audit(&self) -> Result<(), Fault> {
        let cells = &self.cells;
        if cells.end() == 0 {
            return Ok(());
        }
        let (mut free, mut withheld) = ([0; LISTS], [0; LISTS]);
        let (mut large, mut large_withheld) = (0, 0);
        let in_use = |block: Block| cells.is_in_use(block.start) || cells.is_withheld(block);
        cells.audit(self.top, false, in_use, |block, in_use| {
            let (counts, larger) = match in_use {
                false => (&mut free, &mut large),
                true if cells.is_withheld(block) => (&mut withheld, &mut large_withheld),
                true => return,
            };
            *counts.get_mut(block.len as usize).unwrap_or(larger) += 1;
        })?;
        let origin = cells.origin().addr();
        Fault::unless(large_withheld == 0, "a withheld block is small", origin)?;
        let belongs = |len, block: Block| block.len as usize == len && cells.is_withheld(block);
        self.quick.audit(&withheld, cells, belongs)?;
        self.lists.audit(&free, large, cells)
    }
}
