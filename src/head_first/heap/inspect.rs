//! The heap as spans, and the audit of its invariants.

use super::{Block, CELL, FittedHeap, Halving, NONE, OVERHEAD, Order, Policy, TAG, chain};
use crate::error::Fault;
use crate::strategy::{Span, SpanKind};

impl<O: Order, H: Halving, P: Policy> FittedHeap<O, H, P> {
    /// Calls `visit` for every span of the heap in address order. What lies between two blocks'
    /// contents, the owner or footer of one and the header of the other, is one span.
    pub(in crate::head_first) fn walk(&self, visit: &mut dyn FnMut(Span)) {
        if self.cells.end() == 0 {
            return;
        }
        let start = self.cells.origin().addr();
        visit(Span { start, len: CELL - TAG, kind: SpanKind::Slack });
        let mut header = Span { start: start + CELL - TAG, len: TAG, kind: SpanKind::Header };
        for block in chain(&self.cells) {
            visit(header);
            let start = self.contents(block.start).addr();
            let kind =
                if self.cells.is_in_use(block.start) { SpanKind::Block } else { SpanKind::Free };
            let contents = Span { start, len: Self::bytes(block.len), kind };
            visit(contents);
            header = Span { start: contents.end(), len: OVERHEAD, kind: SpanKind::Header };
        }
        visit(header);
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
        cells.audit(!self.seamed, in_use, |block, in_use| {
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
            // A policy that keeps nothing finds the region, too.
            if Some(block) != region {
                known = (known.0 + 1, known.1 + block.len);
            }
        })?;
        Fault::unless(known == free, "the index has every free block but the region", origin)
    }
}
