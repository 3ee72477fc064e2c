//! The heap as spans, and its invariants checked.

use super::area::Area;
use super::heap::TagHeap;
use super::policy::Policy;
use super::reclaim::Reclaim;
use crate::error::Fault;
use crate::strategy::{Span, SpanKind};
use crate::tags::{Block, CELL, TAG};

impl<P: Policy, R: Reclaim, A: Area> TagHeap<P, R, A> {
    /// Every block in address order, as far as the tags make sense.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Block> {
        self.cells.blocks(self.cells.end())
    }

    /// Calls `visit` for every span of the heap in address order.
    pub(crate) fn walk_blocks(&self, visit: &mut dyn FnMut(Span)) {
        let origin = self.cells.origin().addr();
        if self.cells.end() == 0 {
            return;
        }
        let below = self.cells.first() as usize * CELL - TAG;
        let index = below - (CELL - TAG);
        if index > 0 {
            visit(Span { start: origin, len: index, kind: SpanKind::Header });
        }
        visit(Span { start: origin + index, len: CELL - TAG, kind: SpanKind::Slack });
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
    pub(crate) fn audit_blocks(&self) -> Result<(), Fault> {
        let cells = &self.cells;
        if cells.end() == 0 {
            return Ok(());
        }
        let (mut free_blocks, mut free_cells) = (0, 0);
        let (mut withheld, mut areas) = (0, 0);
        let is_withheld = |block| R::WITHHOLDS && cells.is_withheld(block);
        let in_use = |block: Block| cells.is_in_use(block.start) || is_withheld(block);
        cells.audit(R::JOINS, in_use, |block, in_use| {
            free_blocks += u32::from(!in_use);
            free_cells += if in_use { 0 } else { block.len };
            withheld += u32::from(is_withheld(block));
            areas += u32::from(self.is_area(block) && in_use && block.len == self.area.len);
        })?;

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
