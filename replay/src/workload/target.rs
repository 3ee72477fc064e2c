//! The allocator that a replay drives: a strategy, or the system's.

use std::alloc::Layout;
use std::ptr::NonNull;

use pagewise::Strategy;

/// An allocator, for the replay loop.
///
/// # Safety
/// As for [`Strategy`]: a returned block is valid for reads and writes of the requested layout, and
/// disjoint from everything else, until it is freed.
pub unsafe trait Target {
    /// Allocates a block; `None` if there is no memory. The layout's size is not 0.
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>>;

    /// Resizes a block to `new_size` bytes, not 0, perhaps by moving it; `None` if there is no
    /// memory, and then the block is unchanged.
    ///
    /// # Safety
    /// `block` is live and has this layout; `new_size` makes a valid layout.
    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<u8>>;

    /// Frees a block.
    ///
    /// # Safety
    /// `block` is live and has this layout.
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout);

    /// Returns the usable bytes of a block, at least as many as requested; `None` if the target
    /// cannot report single blocks. A [`Strategy`] reports all blocks at once: [`Strategy::walk`].
    ///
    /// # Safety
    /// `block` is live.
    unsafe fn usable_size(&self, block: NonNull<u8>) -> Option<usize> {
        let _ = block;
        None
    }
}

// SAFETY: the contract is the strategy's own.
unsafe impl<S: Strategy + ?Sized> Target for S {
    #[inline(always)]
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        Strategy::allocate(self, layout).ok().map(NonNull::cast)
    }

    #[inline(always)]
    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<u8>> {
        // SAFETY: the caller gives the same guarantees.
        unsafe { Strategy::reallocate(self, block, layout, new_size) }.ok().map(NonNull::cast)
    }

    #[inline(always)]
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller gives the same guarantees.
        unsafe { self.deallocate(block, layout) };
    }
}

/// The allocator of the C library: `malloc`, `aligned_alloc`, `realloc`, `free`.
#[derive(Debug)]
pub struct System;

impl System {
    /// Returns whether the alignment of `malloc` suffices.
    fn is_plain(layout: Layout) -> bool {
        layout.align() <= align_of::<libc::max_align_t>()
    }
}

// SAFETY: the C library gives the same guarantees. Blocks with a stricter alignment than `malloc`'s
// come from `posix_memalign`, and `free` accepts both kinds.
unsafe impl Target for System {
    #[inline(always)]
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        if Self::is_plain(layout) {
            // SAFETY: a plain call.
            return NonNull::new(unsafe { libc::malloc(layout.size()) }.cast());
        }
        let mut block = std::ptr::null_mut();
        // SAFETY: the alignment is a power of two and a multiple of a pointer's size; `block` is
        // written on success.
        let failed = unsafe { libc::posix_memalign(&mut block, layout.align(), layout.size()) };
        if failed == 0 { NonNull::new(block.cast()) } else { None }
    }

    #[inline(always)]
    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<u8>> {
        if Self::is_plain(layout) {
            // SAFETY: the block came from `malloc` or `realloc`; the size is not 0.
            return NonNull::new(unsafe { libc::realloc(block.as_ptr().cast(), new_size) }.cast());
        }
        // SAFETY: the caller promises a valid layout.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        let moved = self.allocate(new_layout)?;
        // SAFETY: two live blocks are disjoint, and both have the bytes that are copied; the old
        // one is freed once and not used afterwards.
        unsafe {
            moved.copy_from_nonoverlapping(block, layout.size().min(new_size));
            self.free(block, layout);
        }
        Some(moved)
    }

    #[inline(always)]
    unsafe fn free(&mut self, block: NonNull<u8>, _: Layout) {
        // SAFETY: the block is live and came from the C library.
        unsafe { libc::free(block.as_ptr().cast()) };
    }

    #[cfg(target_os = "linux")]
    unsafe fn usable_size(&self, block: NonNull<u8>) -> Option<usize> {
        // SAFETY: the block is live and came from the C library.
        Some(unsafe { libc::malloc_usable_size(block.as_ptr().cast()) })
    }
}
