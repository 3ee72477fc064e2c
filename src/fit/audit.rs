//! The heap as spans, and its invariants checked.

use super::area::Area;
use super::heap::Heap;
use super::policy::Policy;
use super::reclaim::Reclaim;
use crate::block::tag::{Block, CELL, TAG};
use crate::strategy::Fault;
use crate::walk::{Span, SpanKind};

impl<P: Policy, R: Reclaim, A: Area> Heap<P, R, A> {
    /// Every block in address order, as far as the tags make sense.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Block> {
        self.cells.blocks(self.cells.end())
    }

    /// Calls `visit` for every span of the heap in address order.
    pub(crate) fn walk(&self, visit: &mut dyn FnMut(Span)) {
        let origin = self.cells.origin().addr();
        if self.cells.end() == 0 {
            return;
        }
        visit(Span { start: origin, len: CELL - TAG, kind: SpanKind::Slack });
        for block in self.blocks() {
            let start = self.contents(block.start).addr();
            let in_use = self.cells.is_in_use(block.start) && !self.is_area(block);
            let kind = if in_use { SpanKind::Block } else { SpanKind::Free };
            visit(Span { start: start - TAG, len: TAG, kind: SpanKind::Header });
            visit(Span { start, len: Self::bytes(block.len), kind });
        }
        let end = self.contents(self.cells.end()).addr();
        visit(Span { start: end - TAG, len: TAG, kind: SpanKind::Header });
    }

    /// Checks the invariants. O(n log n).
    pub(crate) fn audit(&self) -> Result<(), Fault> {
        let cells = &self.cells;
        if cells.end() == 0 {
            return Ok(());
        }
        let mut expected = 1;
        let mut prev_in_use = true;
        let (mut free_blocks, mut free_cells) = (0, 0);
        let (mut withheld, mut areas) = (0, 0);
        for block in self.blocks() {
            let at = self.contents(block.start).addr();
            let is_withheld = R::WITHHOLDS && cells.is_withheld(block);
            let in_use = cells.is_in_use(block.start) || is_withheld;
            let known = cells.prev_is_in_use(block.start) == prev_in_use;
            Fault::unless(known, "PREV_IN_USE says whether the block below is in use", at)?;
            let joined = in_use || prev_in_use || !R::JOINS;
            Fault::unless(joined, "free neighbours are joined", at)?;
            if !in_use {
                let known = cells.footer(block) == block.len;
                Fault::unless(known, "a footer is its block's size", at)?;
                free_blocks += 1;
                free_cells += block.len;
            }
            withheld += u32::from(is_withheld);
            areas += u32::from(self.is_area(block) && in_use && block.len == self.area.len);
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

        let wilderness = self.wilderness();
        let (mut known_blocks, mut known_cells) =
            (u32::from(wilderness.is_some()), wilderness.map_or(0, |block| block.len));
        self.index.audit(cells, &mut |block| {
            known_blocks += 1;
            known_cells += block.len;
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
