//! A good fit over boundary tags below the pages (Hasan & Chang §3.1, §3.9), whose free memory can
//! be walked a little at a time.
//!
//! A block's layout determines its length, and so where the block above starts, before its own tag
//! is read. Rare work, mainly taking more memory, is kept out of the fast paths.
//!
//! ```text
//!  | page | in use | free     | page | in use | free   | …
//!   met ──────────▶ mark       to be met
//! ```
//! Between two steps of a walk blocks come and go. The *mark*, where the next step begins, must be
//! the start of a block. Only joins remove a block's start: a freed block joins the free ones
//! beside it, and a growing block takes from the free one above. Before either, a mark among these
//! blocks moves down to the start of the lowest one, and the walk meets them once more.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::slice;

use super::Below;
use crate::error::{AllocError, Fault};
use crate::fit::Good;
use crate::fit::branchless::IsLast;
use crate::fit::heap::TagHeap;
use crate::meter::Meter;
use crate::source::Source;
use crate::strategy::Span;
use crate::tags::{Block, CELL, NONE, TAG};
use crate::tally::Change;

/// Greatest alignment in bytes of requests that are served in a [quick way](Below::take_close).
const ALIGNED: usize = 1 << 16;

/// The heap with tags.
pub(crate) type Large = TagHeap<Good>;

/// The heap, and the mark of a walk in steps.
#[derive(Debug)]
pub struct Tagged {
    /// The blocks, free and in use.
    pub(crate) heap: Large,
    /// Where a walk in steps continues: always a block's start.
    mark: u32,
}

impl Tagged {
    /// Makes an empty heap that grows by pages of this size, bytes.
    pub(crate) const fn growing_by(page_size: usize) -> Self {
        Self { heap: Large::growing_by(page_size), mark: NONE }
    }

    /// Returns the block at this address, if its tags mark it as in use.
    pub(crate) fn known_at(&self, block: NonNull<u8>) -> Option<Block> {
        self.heap.known_at(block.addr().get())
    }

    /// Returns whether a block is in use, and the free ones beside it are as the heap left them. If
    /// they are not, the heap remembers the [damage](TagHeap::damaged).
    pub(crate) fn is_sound(&mut self, block: NonNull<u8>) -> bool {
        match self.known_at(block) {
            Some(found) => self.heap.vet_neighbours(found),
            None => {
                self.heap.damage_at(block.addr().get());
                false
            }
        }
    }

    /// Frees a block, if its tags mark it as in use, and marks it as free. Returns its length in
    /// bytes. If the free blocks beside it are [damaged](TagHeap::damaged), nothing is done.
    pub(crate) fn free_known<M: Meter>(&mut self, block: NonNull<u8>, meter: &M) -> Option<usize> {
        self.free_known_run(slice::from_ref(&block), |_| false, meter).map(|(_, bytes)| bytes)
    }

    /// Frees the first of these blocks, and those after it that each adjoin the ones before, as one
    /// block. One for which `is_other` returns true counts as not in use. Returns their number, and
    /// the sum of their lengths in bytes; `None`, with nothing done, as
    /// [`free_known`](Self::free_known). O(blocks freed).
    #[inline(always)]
    pub(crate) fn free_known_run<M: Meter>(
        &mut self,
        blocks: &[NonNull<u8>],
        is_other: impl Fn(NonNull<u8>) -> bool,
        meter: &M,
    ) -> Option<(usize, usize)> {
        let known_at = |block| if is_other(block) { None } else { self.known_at(block) };
        let (first, rest) = blocks.split_first()?;
        let mut run = known_at(*first)?;
        let mut bytes = Large::bytes(run.len);
        let adjoining = rest.iter().map_while(|block| {
            // A block above that does not adjoin need not be looked at.
            if block.addr().get() > self.heap.contents(run.end()).addr() {
                return None;
            }
            let next = known_at(*block)?;
            let start = match () {
                () if next.start == run.end() => run.start,
                () if next.end() == run.start => next.start,
                () => return None,
            };
            run = Block { start, len: run.len + next.len };
            bytes += Large::bytes(next.len);
            Some(())
        });
        let count = 1 + adjoining.count();
        if !self.heap.vet_neighbours(run) {
            return None;
        }
        self.keep_mark(run);
        for block in &blocks[..count] {
            self.heap.mark_released(self.heap.block_at(block.addr().get()));
        }
        self.heap.release(run, meter);
        Some((count, bytes))
    }

    /// Divides a block in use into blocks that hold `size` bytes each; the last one may be shorter.
    /// O(blocks).
    pub(crate) fn divide(&mut self, block: NonNull<u8>, size: usize) {
        self.heap.divide(self.heap.block_at(block.addr().get()), Large::cells_of(size));
    }

    /// Returns the length of a block in use, in bytes. O(1).
    pub(crate) fn len_of(&self, block: NonNull<u8>) -> usize {
        Large::bytes(self.heap.block_at(block.addr().get()).len)
    }

    /// Continues where the last step stopped, over at most `blocks` blocks. Calls `visit` for each;
    /// if that returns `false`, the step ends, and the next one begins with the same block. Returns
    /// whether there is more; if not, the next step begins at the beginning.
    pub(crate) fn step(
        &mut self,
        blocks: usize,
        mut visit: impl FnMut(&Large, Block) -> bool,
    ) -> bool {
        let end = self.heap.end();
        let mut start = self.mark.max(self.heap.first());
        for _ in 0..blocks {
            if start >= end {
                break;
            }
            let block = self.heap.block(start);
            if block.len == 0 || block.len > end - start {
                // A tag was overwritten, so the walk cannot go on.
                self.heap.damage_at(self.heap.contents(start).addr());
                start = end;
                break;
            }
            if !visit(&self.heap, block) {
                break;
            }
            start = block.end();
        }
        self.mark = if start < end { start } else { NONE };
        self.mark != NONE
    }

    /// Makes the next step begin at the beginning.
    pub(crate) fn forget_mark(&mut self) {
        self.mark = NONE;
    }

    /// Moves the mark out of the reach of a block that is about to join its free neighbours.
    #[inline(always)]
    fn keep_mark(&mut self, block: Block) {
        if self.is_watched() {
            let whole = self.heap.with_free_neighbours(block);
            if whole.start < self.mark && self.mark < whole.end() {
                self.mark = whole.start;
            }
        }
    }

    /// Returns a block that the heap has just allocated, with its length in bytes.
    #[inline(always)]
    fn taken(&self, start: u32, len: u32) -> (NonNull<u8>, usize) {
        // SAFETY: the block lies in the heap, which is valid memory, hence not at address 0.
        let block = unsafe { NonNull::new_unchecked(self.heap.contents(start)) };
        (block, Large::bytes(len))
    }

    /// Like [`resize`](Below::resize), while no walk has a mark to keep.
    #[inline(always)]
    fn resize_unwatched<S: Source, M: Meter>(
        &mut self,
        block: NonNull<u8>,
        sizes: Change,
        source: &mut S,
        meter: &M,
    ) -> bool {
        if sizes.new > Large::MOST {
            return false;
        }
        let address = block.addr().get();
        match self.heap.resize_at(address, sizes, meter) {
            Ok(()) => true,
            Err(IsLast(false)) => false,
            Err(IsLast(true)) => self.grow(address, sizes, source, meter),
        }
    }

    /// Like [`resize`](Below::resize), while a walk has a mark to keep. (A separate function, as
    /// for freeing.)
    #[cold]
    #[inline(never)]
    fn resize_watched<S: Source, M: Meter>(
        &mut self,
        block: NonNull<u8>,
        sizes: Change,
        source: &mut S,
        meter: &M,
    ) -> bool {
        self.about_to_free(block, sizes.old);
        self.resize_unwatched(block, sizes, source, meter)
    }

    /// Takes a block from memory that the heap has, the wilderness included. Returns it with its
    /// length in bytes; `None` if the heap would have to grow.
    pub(in crate::pages) fn take_held<M: Meter>(
        &mut self,
        layout: Layout,
        meter: &M,
    ) -> Option<(NonNull<u8>, usize)> {
        let len = Large::cells_for(layout.size())?;
        let start = self.heap.allocate_held(len, layout.align(), meter)?;
        Some(self.taken(start, len))
    }

    /// Makes a block larger in place with more memory, if it is the uppermost; returns whether that
    /// worked.
    #[cold]
    #[inline(never)]
    fn grow<S: Source, M: Meter>(
        &mut self,
        address: usize,
        sizes: Change,
        source: &mut S,
        meter: &M,
    ) -> bool {
        let found = self.heap.block_of(address, sizes.old);
        let Some(len) = Large::cells_for(sizes.new) else { return false };
        self.heap.resize_growing(found, len, source, meter)
    }
}

impl Below for Tagged {
    const KEPT: usize = TAG;

    fn origin(&self) -> usize {
        self.heap.origin()
    }

    fn take_page<S: Source, M: Meter>(
        &mut self,
        page_size: usize,
        source: &mut S,
        meter: &M,
    ) -> Result<NonNull<u8>, AllocError> {
        let start =
            self.heap.allocate_block((page_size / CELL) as u32, page_size, source, meter)?;
        Ok(self.taken(start, 1).0)
    }

    fn release_page<M: Meter>(&mut self, base: NonNull<u8>, meter: &M) {
        if self.heap.vets() && !self.is_sound(base) {
            return;
        }
        let block = self.heap.block_at(base.addr().get());
        self.keep_mark(block);
        self.heap.release(block, meter);
    }

    fn holds_page(&self, base: usize, page_size: usize) -> bool {
        self.heap.block_at(base).len as usize == page_size / CELL
    }

    fn take<M: Meter>(&mut self, layout: Layout, meter: &M) -> Option<(NonNull<u8>, usize)> {
        let len = Large::cells_for(layout.size())?;
        let start = self.heap.allocate_known(len, layout.align(), meter)?;
        Some(self.taken(start, len))
    }

    /// Serves plain requests from free blocks of the index: see [`Large::PLAIN`].
    #[inline(always)]
    fn take_plain<M: Meter>(&mut self, layout: Layout, meter: &M) -> Option<(NonNull<u8>, usize)> {
        // Size 0 wraps round, and is not plain.
        let is_plain = layout.align() <= CELL && layout.size().wrapping_sub(1) < Large::PLAIN;
        if !is_plain || self.heap.vets() {
            return None;
        }
        self.heap.allocate_plain(layout.size(), meter)
    }

    #[inline(always)]
    fn take_close<M: Meter>(&mut self, layout: Layout, meter: &M) -> Option<(NonNull<u8>, usize)> {
        let (size, align) = (layout.size(), layout.align());
        if self.heap.vets() {
            return None;
        }
        if align > CELL {
            // Size 0 wraps round.
            let suits = align <= ALIGNED && size.wrapping_sub(1) < Large::MOST - ALIGNED;
            return if suits { self.heap.allocate_aligned(size, align, meter) } else { None };
        }
        if !(Large::PLAIN + 1..=Large::MOST).contains(&size) {
            return None;
        }
        self.heap.allocate_close(size, meter)
    }

    fn take_more<S: Source, M: Meter>(
        &mut self,
        layout: Layout,
        source: &mut S,
        meter: &M,
    ) -> Result<(NonNull<u8>, usize), AllocError> {
        let len = Large::cells_for(layout.size()).ok_or(AllocError::Exhausted)?;
        let start = self.heap.allocate_growing(len, layout.align(), source, meter)?;
        Ok(self.taken(start, len))
    }

    #[inline(always)]
    fn is_watched(&self) -> bool {
        self.mark != NONE
    }

    fn about_to_free(&mut self, block: NonNull<u8>, requested: usize) {
        self.keep_mark(self.heap.block_of(block.addr().get(), requested));
    }

    #[inline(always)]
    fn free<M: Meter>(&mut self, block: NonNull<u8>, requested: usize, meter: &M) -> usize {
        self.heap.free(block.addr().get(), requested, meter)
    }

    #[inline(always)]
    fn len_for(&self, requested: usize) -> usize {
        Large::bytes(Large::cells_of(requested))
    }

    #[inline(always)]
    fn resize<S: Source, M: Meter>(
        &mut self,
        block: NonNull<u8>,
        sizes: Change,
        source: &mut S,
        meter: &M,
    ) -> bool {
        if self.is_watched() {
            return self.resize_watched(block, sizes, source, meter);
        }
        self.resize_unwatched(block, sizes, source, meter)
    }

    fn keep<M: Meter>(&mut self, block: NonNull<u8>, sizes: Change, meter: &M) -> Option<Change> {
        let found = self.heap.block_at(block.addr().get());
        let len = Large::cells_for(sizes.new)?;
        self.keep_mark(found);
        let done = self.heap.resize_known(found, len, meter);
        done.then_some(Change { old: Large::bytes(found.len), new: Large::bytes(len) })
    }

    fn grow_down<M: Meter>(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
        meter: &M,
    ) -> Option<(NonNull<u8>, Change)> {
        let found = self.heap.block_at(block.addr().get());
        let len = Large::cells_for(new_size)?;
        self.keep_mark(found);
        if len <= found.len {
            return None;
        }
        let wanted = (len, layout.align());
        let start = self.heap.grow_down(found, wanted, layout.size(), meter)?;
        let moved = NonNull::new(self.heap.contents(start))?;
        Some((moved, Change { old: Large::bytes(found.len), new: Large::bytes(len) }))
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout) -> bool {
        let found = self.heap.find_in_use(block.addr().get());
        found.is_some_and(|found| Large::cells_for(layout.size()) == Some(found.len))
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.heap.walk_blocks(visit);
    }

    fn audit(&self) -> Result<(), Fault> {
        self.heap.audit_blocks()
    }
}
