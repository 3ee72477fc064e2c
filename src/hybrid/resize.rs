//! Resizing: a block is extended with the free blocks above it, and, moving its contents, with
//! those below (§3.12).

use super::heap::{Context, HybridHeap};
use crate::meter::Meter;
use crate::source::Source;
use crate::tags::Block;

impl HybridHeap {
    /// Makes a block in use `len` cells long, or one more, in place. Excess cells are freed;
    /// missing ones come from the free blocks above, from the wilderness, or from the source.
    pub(super) fn resize<S: Source, M: Meter>(
        &mut self,
        block: Block,
        len: u32,
        context: &mut Context<'_, S, M>,
    ) -> Option<Block> {
        let wanted = block.start.checked_add(len)?;
        let mut end = self.reach(block.end(), wanted, context.meter);
        if end < wanted {
            if end != self.top || self.grow(wanted - end, context).is_err() {
                return None;
            }
            end = wanted;
        }
        let all = Block { start: block.start, len: end - block.start };
        self.extend(block, all, context.meter);
        Some(self.trim(all, Block { start: all.start, len }, context.meter))
    }

    /// Extends a block in use by free blocks below and above it to `len` cells or more. The excess
    /// can be [trimmed](Self::trim) once the contents have moved to the new start.
    pub(super) fn extend_downwards<M: Meter>(
        &mut self,
        block: Block,
        len: u32,
        meter: &M,
    ) -> Option<Block> {
        let mut start = block.start;
        let end = self.reach(block.end(), block.start.checked_add(len)?, meter);
        while end - start < len {
            start = self.cells.free_below(start)?.start;
            meter.touch(self.cells.header(start));
        }
        let all = Block { start, len: end - start };
        self.extend(block, all, meter);
        Some(all)
    }

    /// Returns the end of the run of free blocks that starts at `end`, but looks no further than
    /// `wanted`.
    fn reach<M: Meter>(&self, mut end: u32, wanted: u32, meter: &M) -> u32 {
        while end < wanted
            && let Some(above) = self.cells.joinable_above(end)
        {
            meter.touch(self.cells.header(end));
            end = above.end();
        }
        end
    }

    /// Makes `all` one block in use: `block`, the free blocks around it, and a part of the
    /// wilderness. The contents of `block` are not written to.
    fn extend<M: Meter>(&mut self, block: Block, all: Block, meter: &M) {
        let mut start = block.start;
        while start > all.start
            && let Some(below) = self.cells.free_below(start)
        {
            self.lists.remove(below, &mut self.cells, meter);
            start = below.start;
        }
        let mut end = block.end();
        while end < all.end().min(self.top)
            && let Some(above) = self.cells.joinable_above(end)
        {
            self.lists.remove(above, &mut self.cells, meter);
            end = above.end();
        }
        let prev_in_use = self.cells.prev_is_in_use(all.start);
        if all.end() > self.top {
            self.top = all.end();
            self.cells.put_border(self.top, true);
        }
        self.cells.put_in_use(all, prev_in_use);
    }
}
