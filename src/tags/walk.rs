//! Walks the blocks in address order: as spans, or to the one that contains an address.

use super::cells::Cells;
use super::layout::{Block, CELL, TAG};
use crate::meter::Meter;
use crate::strategy::{Span, SpanKind};

impl Cells {
    /// Calls `visit` for the spans of the cells up to the header at `end`, which ends the blocks,
    /// in address order. `in_use` tells which blocks are in use. Between the contents of two blocks
    /// there is one span of `overhead` bytes: a header, and words of the block below it.
    pub(crate) fn walk(
        &self,
        end: u32,
        overhead: usize,
        in_use: impl Fn(Block) -> bool,
        visit: &mut dyn FnMut(Span),
    ) {
        if self.end() == 0 {
            return;
        }
        let start = self.origin().addr();
        let index = (self.first() as usize - 1) * CELL;
        if index > 0 {
            visit(Span { start, len: index, kind: SpanKind::Header });
        }
        visit(Span { start: start + index, len: CELL - TAG, kind: SpanKind::Slack });
        let mut tags = Span { start: start + index + CELL - TAG, len: TAG, kind: SpanKind::Header };
        for block in self.blocks(end) {
            visit(tags);
            let kind = if in_use(block) { SpanKind::Block } else { SpanKind::Free };
            let start = self.contents(block.start).addr();
            let contents = Span { start, len: block.len as usize * CELL - overhead, kind };
            visit(contents);
            tags = Span { start: contents.end(), len: overhead, kind: SpanKind::Header };
        }
        visit(tags);
    }

    /// Returns the block below `end` that has this cell. O(n).
    pub(crate) fn block_around<M: Meter>(&self, cell: u32, end: u32, meter: &M) -> Option<Block> {
        let mut blocks = self.blocks(end).inspect(|block| meter.visit(self.header(block.start)));
        blocks.find(|block| block.end() > cell)
    }

    /// Returns the block in use below `end` whose contents start at this address, if there is one.
    /// Any address may be passed: the blocks below are walked, since an address alone does not tell
    /// whether the word before it is a header. O(n).
    pub(crate) fn find_in_use<M: Meter>(
        &self,
        address: usize,
        end: u32,
        meter: &M,
    ) -> Option<Block> {
        let wanted = self.cell_at(address)?;
        let found = self.block_around(wanted, end, meter)?;
        (found.start == wanted && self.is_in_use(wanted)).then_some(found)
    }
}
