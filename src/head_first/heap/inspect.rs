//! The heap as spans, and the audit of its invariants.

use super::{CELL, Halving, Heap, NONE, OVERHEAD, Order, Policy, TAG, chain};
use crate::strategy::Fault;
use crate::walk::{Span, SpanKind};

impl<O: Order, H: Halving, P: Policy> Heap<O, H, P> {
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
        let mut expected = 1;
        let mut prev_in_use = true;
        let mut free = (0, 0);
        let mut region_found = self.region == NONE || self.region == cells.end();
        for block in chain(cells) {
            let at = self.contents(block.start).addr();
            let in_use = cells.is_in_use(block.start);
            let known = cells.prev_is_in_use(block.start) == prev_in_use;
            Fault::unless(known, "PREV_IN_USE says whether the block below is in use", at)?;
            let joined = in_use || prev_in_use || self.seamed;
            Fault::unless(joined, "free neighbours are joined but for the halves", at)?;
            region_found |= self.region == block.start;
            if !in_use {
                let footed = cells.footer(block) == block.len;
                Fault::unless(footed, "a footer is its block's size", at)?;
                free = (free.0 + 1, free.1 + block.len);
            }
            expected = block.end();
            prev_in_use = in_use;
        }
        let end = self.contents(cells.end()).addr();
        Fault::unless(expected == cells.end(), "blocks tile the heap", end)?;
        let last = cells.block(cells.end());
        let ended = last.len == 0 && cells.is_in_use(last.start);
        Fault::unless(ended, "the last header is of an empty block in use", end)?;
        let known = cells.prev_is_in_use(last.start) == prev_in_use;
        Fault::unless(known, "PREV_IN_USE says whether the block below is in use", end)?;
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
