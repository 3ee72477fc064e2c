//! Resizing: a block is extended with the free blocks above it, and, moving its contents, with
//! those below (§3.12).

use core::alloc::Layout;
use core::ptr::NonNull;

use super::heap::{Context, Heap, bytes, cells_for};
use super::{Hybrid, Tuning};
use crate::block::tag::{self, Block, CELL};
use crate::meter::Meter;
use crate::source::Source;

impl Heap {
    /// Makes a block in use `len` cells long, or one more, where it starts: what is too much is
    /// freed; what is missing comes from the free blocks above, from the wilderness, or the source.
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

    /// Extends a block in use by free blocks below and above it to `len` cells or more. What is too
    /// much can be [trimmed](Self::trim) once the contents have moved to the new start.
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

    /// Where the free blocks from `end` on end, as far as `wanted` or further.
    fn reach<M: Meter>(&self, mut end: u32, wanted: u32, meter: &M) -> u32 {
        while end < wanted
            && let Some(above) = self.free_at(end)
        {
            meter.touch(self.cells.header(end));
            end = above.end();
        }
        end
    }

    /// Makes `all` the block in use: `block`, the free blocks around it, and of the wilderness.
    /// The contents of `block` are not written to.
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
            && let Some(above) = self.free_at(end)
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

impl<T: Tuning, S: Source, M: Meter> Hybrid<T, S, M> {
    /// Resizes a block with the free memory below it, to which its contents move.
    ///
    /// # Safety
    /// As for [`Strategy::reallocate`].
    pub(super) unsafe fn resize_downwards(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<[u8]>> {
        // SAFETY: the caller's block is in use, if it is not of size 0.
        let len = if layout.size() == 0 { 0 } else { unsafe { tag::len_at(block) } };
        if len == 0 || new_size == 0 || layout.align() > CELL {
            return None;
        }
        let old = Block { start: self.start_of(block), len };
        let wanted = cells_for(new_size)?;
        let all = self.heap.extend_downwards(old, wanted, &self.meter)?;
        let moved = self.contents(all.start);
        // SAFETY: the extended block has the old one in it, whose contents are untouched, and is
        // long enough for the new size; the two places may overlap.
        unsafe { moved.copy_from(block, layout.size().min(new_size)) };
        let new = self.heap.trim(all, Block { start: all.start, len: wanted }, &self.meter);
        self.tally.resized((layout.size(), new_size), (bytes(len), bytes(new.len)));
        Some(NonNull::slice_from_raw_parts(moved, bytes(new.len)))
    }
}
