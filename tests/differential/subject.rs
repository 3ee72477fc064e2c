//! The allocators to compare: two of ours, and the system's.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::NonNull;

use pagewise::{Arena, PageHeap, Pagewise, Reserved};

/// An allocator with C's operations. Only `allocate` accepts size 0; `layout` is the block's own.
pub(crate) trait Subject {
    fn allocate(&self, layout: Layout) -> *mut u8;

    fn allocate_zeroed(&self, layout: Layout) -> *mut u8;

    /// # Safety
    /// The block is in use with this layout.
    unsafe fn reallocate(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8;

    /// # Safety
    /// As above; the block is not used afterwards.
    unsafe fn free(&self, block: *mut u8, layout: Layout);

    /// # Safety
    /// The block is in use with this layout.
    unsafe fn usable_size(&self, block: *mut u8, layout: Layout) -> usize;

    /// Number of blocks in use, if the allocator counts them.
    fn blocks(&self) -> Option<usize>;
}

/// The default arena.
pub(crate) type Growing = Arena<PageHeap<Reserved>>;

/// C's default alignment.
const USUAL: usize = 16;

/// The system's allocator, used as the oracle.
pub(crate) struct System;

impl Subject for System {
    fn allocate(&self, layout: Layout) -> *mut u8 {
        let mut block = std::ptr::null_mut();
        // SAFETY: the call writes a pointer; the alignment is a power of two.
        unsafe {
            if layout.align() <= USUAL {
                return libc::malloc(layout.size()).cast();
            }
            libc::posix_memalign(&raw mut block, layout.align(), layout.size());
        }
        block.cast()
    }

    fn allocate_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: `calloc` may be called at any time.
        unsafe { libc::calloc(1, layout.size()).cast() }
    }

    unsafe fn reallocate(&self, block: *mut u8, _: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees it.
        unsafe { libc::realloc(block.cast(), new_size).cast() }
    }

    unsafe fn free(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller guarantees it.
        unsafe { libc::free(block.cast()) };
    }

    unsafe fn usable_size(&self, block: *mut u8, _: Layout) -> usize {
        // SAFETY: the caller guarantees it.
        unsafe { libc::malloc_usable_size(block.cast()) }
    }

    fn blocks(&self) -> Option<usize> {
        None
    }
}

impl Subject for Pagewise {
    fn allocate(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= USUAL {
            Pagewise::allocate(self, layout.size())
        } else {
            self.allocate_aligned(layout.size(), layout.align())
        }
    }

    fn allocate_zeroed(&self, layout: Layout) -> *mut u8 {
        Pagewise::allocate_zeroed(self, layout.size())
    }

    unsafe fn reallocate(&self, block: *mut u8, _: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees it.
        unsafe { Pagewise::reallocate(self, block, new_size) }
    }

    unsafe fn free(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller guarantees it.
        unsafe { Pagewise::free(self, block) };
    }

    unsafe fn usable_size(&self, block: *mut u8, _: Layout) -> usize {
        // SAFETY: the caller guarantees it.
        unsafe { Pagewise::usable_size(self, block) }
    }

    fn blocks(&self) -> Option<usize> {
        Some(self.stats().blocks)
    }
}

impl Subject for Growing {
    fn allocate(&self, layout: Layout) -> *mut u8 {
        Arena::allocate(self, layout).map_or(std::ptr::null_mut(), |block| block.as_ptr().cast())
    }

    fn allocate_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the size is not 0.
        unsafe { self.alloc_zeroed(layout) }
    }

    unsafe fn reallocate(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller guarantees it.
        unsafe { self.realloc(block, layout, new_size) }
    }

    unsafe fn free(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees it.
        unsafe { self.deallocate(NonNull::new_unchecked(block), layout) };
    }

    unsafe fn usable_size(&self, block: *mut u8, layout: Layout) -> usize {
        let block = NonNull::new(block).expect("a block");
        assert!(layout.size() == 0 || self.is_in_use(block, layout));
        layout.size()
    }

    fn blocks(&self) -> Option<usize> {
        Some(self.usage().blocks)
    }
}
