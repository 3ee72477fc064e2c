//! Large blocks: those of the heap below the pages.
//!
//! A block's layout says how long it is, and so where the block above starts, before its own tag was
//! read. What is rare, more memory above all, is kept out of the way of what is not.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::WindowedPages;
use super::pages::{Large, Pages};
use crate::engine::{Backing, Heap};
use crate::error::AllocError;
use crate::meter::{Meter, Part};
use crate::source::Source;
use crate::tags::{Block, CELL};

impl<S: Source, M: Meter> Heap<WindowedPages, S, M> {
    /// Frees a block of the heap below, of which `requested` bytes were.
    #[inline(never)]
    pub(super) fn free_large(&mut self, block: NonNull<u8>, requested: usize) {
        if self.engine.pages.has_mark() {
            return self.free_large_marked(block, requested);
        }
        self.free_unmarked(block, requested);
    }

    /// As [`free_large`](Self::free_large), while a walk in steps goes on. (In a function of its own,
    /// so that freeing calls none and keeps its registers.)
    #[cold]
    #[inline(never)]
    fn free_large_marked(&mut self, block: NonNull<u8>, requested: usize) {
        let pages = &mut self.engine.pages;
        pages.keep_mark(pages.heap.block_of(block.addr().get(), requested));
        self.free_unmarked(block, requested);
    }

    #[inline(always)]
    fn free_unmarked(&mut self, block: NonNull<u8>, requested: usize) {
        let heap = &mut self.engine.pages.heap;
        let bytes = heap.free(block.addr().get(), requested, &self.backing.meter);
        self.backing.freed(requested, bytes, Part::Fit);
    }
}

impl Pages {
    /// A block of the heap below, and its length in bytes, for a request that is
    /// [plain](Large::PLAIN), if a free block that it knows has room.
    #[inline(always)]
    pub(super) fn take_plain<M: Meter>(
        &mut self,
        layout: Layout,
        meter: &M,
    ) -> Option<(NonNull<u8>, usize)> {
        // Size 0 wraps round, and is not plain.
        if layout.align() > CELL || layout.size().wrapping_sub(1) >= Large::PLAIN {
            return None;
        }
        self.heap.allocate_plain(layout.size(), meter)
    }

    /// A block of the heap below, and its length in bytes, if a free block that it knows has room.
    pub(super) fn take_large<M: Meter>(
        &mut self,
        layout: Layout,
        meter: &M,
    ) -> Option<(NonNull<u8>, usize)> {
        let len = Large::cells_for(layout.size())?;
        let start = self.heap.allocate_known(len, layout.align(), meter)?;
        Some(self.served_large(start, len))
    }

    /// A block of the heap below, and its length in bytes, where none was [known](Self::take_large);
    /// where memory is short, the pages without blocks in use are given back first.
    #[cold]
    #[inline(never)]
    pub(super) fn take_large_further<S: Source, M: Meter>(
        &mut self,
        layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Result<(NonNull<u8>, usize), AllocError> {
        let Backing { source, meter, .. } = backing;
        let len = Large::cells_for(layout.size()).ok_or(AllocError::Exhausted)?;
        let align = layout.align();
        let mut found = self.heap.allocate_further(len, align, source, meter);
        if found.is_err() && self.give_back(meter) {
            found = self.heap.allocate_block(len, align, source, meter);
        }
        Ok(self.served_large(found?, len))
    }

    /// A block that the heap below has put to use, and its length in bytes.
    #[inline(always)]
    fn served_large(&self, start: u32, len: u32) -> (NonNull<u8>, usize) {
        // SAFETY: the block lies in the heap, which is valid memory, hence not at address 0.
        let block = unsafe { NonNull::new_unchecked(self.heap.contents(start)) };
        (block, Large::bytes(len))
    }

    /// The block of the heap below at this address, if its tags say that it is in use.
    pub(super) fn tagged_at(&self, block: NonNull<u8>) -> Option<Block> {
        self.heap.known_at(block.addr().get())
    }

    /// Frees a block of the heap below, if its tags say that it is in use, and has them say that it
    /// is not; its length in bytes.
    pub(super) fn free_tagged<M: Meter>(&mut self, block: NonNull<u8>, meter: &M) -> Option<usize> {
        let found = self.tagged_at(block)?;
        self.keep_mark(found);
        self.heap.release_known(found, meter);
        Some(Large::bytes(found.len))
    }

    /// Resizes a block of the heap below in place, which was asked for with `old_size` bytes, if
    /// that can be done.
    #[inline(never)]
    pub(super) fn resize_large<S: Source, M: Meter>(
        &mut self,
        block: NonNull<u8>,
        old_size: usize,
        new_size: usize,
        backing: &mut Backing<S, M>,
    ) -> bool {
        if self.has_mark() {
            self.keep_mark(self.heap.block_of(block.addr().get(), old_size));
        }
        if new_size > Large::MOST {
            return false;
        }
        let address = block.addr().get();
        let done = self.heap.resize_at(address, (old_size, new_size), &backing.meter).is_some()
            || self.grow_large(address, old_size, new_size, backing);
        if done {
            backing.meter.served(Part::Fit);
        }
        done
    }

    /// Makes a block of the heap below larger in place with more memory, if it is the uppermost.
    fn grow_large<S: Source, M: Meter>(
        &mut self,
        address: usize,
        old_size: usize,
        new_size: usize,
        backing: &mut Backing<S, M>,
    ) -> bool {
        let found = self.heap.block_of(address, old_size);
        let Some(len) = Large::cells_for(new_size) else { return false };
        self.heap.resize_further(found, len, &mut backing.source, &backing.meter)
    }

    /// Makes a block of the heap below as long as a size needs where it is, of whatever size; its
    /// lengths before and after, in bytes.
    pub(super) fn keep_large<M: Meter>(
        &mut self,
        block: NonNull<u8>,
        new_size: usize,
        meter: &M,
    ) -> Option<(usize, usize)> {
        let found = self.heap.block_at(block.addr().get());
        let len = Large::cells_for(new_size)?;
        self.keep_mark(found);
        let done = self.heap.resize_known(found, len, meter);
        done.then_some((Large::bytes(found.len), Large::bytes(len)))
    }

    /// Makes a block of the heap below longer with the free memory beside it, to which it moves down;
    /// where it lies then, and its lengths before and after, in bytes.
    pub(super) fn grow_large_down<M: Meter>(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
        meter: &M,
    ) -> Option<(NonNull<u8>, (usize, usize))> {
        let found = self.heap.block_at(block.addr().get());
        let len = Large::cells_for(new_size)?;
        self.keep_mark(found);
        if len <= found.len {
            return None;
        }
        let wanted = (len, layout.align());
        let start = self.heap.grow_down(found, wanted, layout.size(), meter)?;
        meter.served(Part::Fit);
        let moved = NonNull::new(self.heap.contents(start))?;
        Some((moved, (Large::bytes(found.len), Large::bytes(len))))
    }
}
