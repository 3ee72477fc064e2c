//! The heap as spans, and its invariants checked.

use super::heap::{HybridHeap, bytes};
use super::lists::LISTS;
use crate::error::Fault;
use crate::strategy::{Span, SpanKind};
use crate::tags::{Block, CELL, TAG};

impl HybridHeap {
    /// Every block in address order, as far as the tags make sense.
    fn blocks(&self) -> impl Iterator<Item = Block> {
        self.cells.blocks(self.top)
    }

    /// The block in use whose contents lie at this address, if one's do. Any address may be asked
    /// for; the blocks below are walked, since an address alone does not tell whether the word
    /// before it is a header. O(n).
    pub(super) fn find_in_use(&self, address: usize) -> Option<Block> {
        let wanted = self.cells.cell_at(address)?;
        let found = self.blocks().find(|block| block.end() > wanted)?;
        (found.start == wanted && self.cells.is_in_use(wanted)).then_some(found)
    }

    /// Calls `visit` for every span of the heap in address order.
    pub(super) fn walk(&self, visit: &mut dyn FnMut(Span)) {
        if self.cells.end() == 0 {
            return;
        }
        visit(Span { start: self.cells.origin().addr(), len: CELL - TAG, kind: SpanKind::Slack });
        for block in self.blocks() {
            let start = self.cells.contents(block.start).addr();
            let kind =
                if self.cells.is_in_use(block.start) { SpanKind::Block } else { SpanKind::Free };
            visit(Span { start: start - TAG, len: TAG, kind: SpanKind::Header });
            visit(Span { start, len: bytes(block.len), kind });
        }
        let top = self.cells.contents(self.top).addr();
        visit(Span { start: top - TAG, len: TAG, kind: SpanKind::Header });
        let wilderness = (self.cells.end() - self.top) as usize * CELL;
        if wilderness > 0 {
            visit(Span { start: top, len: wilderness, kind: SpanKind::Free });
        }
    }

    /// Checks the invariants.
    pub(super) fn audit(&self) -> Result<(), Fault> {
        let cells = &self.cells;
        if cells.end() == 0 {
            return Ok(());
        }
        let (mut free, mut withheld, mut large) = ([0; LISTS], [0; LISTS], 0);
        let mut expected = 1;
        let mut prev_in_use = true;
        for block in self.blocks() {
            let at = cells.contents(block.start).addr();
            let known = cells.prev_is_in_use(block.start) == prev_in_use;
            Fault::unless(known, "PREV_IN_USE says whether the block below is free", at)?;
            expected = block.end();
            prev_in_use = true;
            if cells.is_withheld(block) {
                Fault::unless((block.len as usize) < LISTS, "a withheld block is small", at)?;
                withheld[block.len as usize] += 1;
            } else if !cells.is_in_use(block.start) {
                let footer = cells.footer(block) == block.len;
                Fault::unless(footer, "a footer is its block's size", at)?;
                prev_in_use = false;
                match free.get_mut(block.len as usize) {
                    Some(count) => *count += 1,
                    None => large += 1,
                }
            }
        }
        let top = cells.contents(self.top).addr();
        let tiled = expected == self.top && self.top <= cells.end();
        Fault::unless(tiled, "blocks tile the heap up to the wilderness", top)?;
        let border = cells.block(self.top);
        let ended = border.len == 0 && cells.is_in_use(border.start);
        Fault::unless(ended, "an empty block in use ends the others", top)?;
        let known = cells.prev_is_in_use(border.start) == prev_in_use;
        Fault::unless(known, "PREV_IN_USE says whether the block below is free", top)?;
        self.quick.audit(&withheld, cells)?;
        self.lists.audit(&free, large, cells)
    }
}
