//! Collections in an arena: `Allocator` of the crate `allocator-api2`, which works on stable Rust and
//! which `hashbrown`, `allocator-api2`'s own `Vec` and `Box`, and others take. With the feature
//! `allocator_api` that crate's trait *is* `core::alloc::Allocator`, which the standard library's
//! collections take.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use super::Arena;
use super::lock::Lock;
use crate::strategy::Strategy;

/// A block as a collection gets it: no longer than its layout. A longer one could come back with any size that fits, and a
/// strategy knows a block by its layout alone.
#[inline]
fn as_asked(block: NonNull<[u8]>, layout: Layout) -> NonNull<[u8]> {
    debug_assert!(block.len() >= layout.size());
    NonNull::slice_from_raw_parts(block.cast(), layout.size())
}

impl<S: Strategy, L: Lock> Arena<S, L> {
    /// Resizes a block, and perhaps changes its alignment. Where there is no memory to move it, a
    /// block stays that is long enough and aligned.
    ///
    /// # Safety
    /// As `Allocator::grow` and `shrink`.
    unsafe fn change(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let changed = if old.align() == new.align() {
            // SAFETY: the caller promises a layout that fits the block, and one alone does.
            unsafe { self.reallocate(block, old, new.size()) }.map_err(|_| AllocError)
        } else {
            self.with(|strategy| {
                let Ok(moved) = strategy.allocate(new) else {
                    // SAFETY: the caller's promise.
                    return unsafe { strategy.keep(block, old, new) }.ok_or(AllocError);
                };
                // SAFETY: both are in use and this long; the old one is freed once and not used after.
                unsafe {
                    let len = old.size().min(new.size());
                    moved.cast::<u8>().copy_from_nonoverlapping(block, len);
                    strategy.deallocate(block, old);
                }
                Ok(moved)
            })
        };
        changed.map(|block| as_asked(block, new))
    }
}

// SAFETY: blocks stay valid until freed, also when the reference is copied: an arena is borrowed
// as long as one of them is. The one layout that fits a block is the one it was asked for, or resized to.
unsafe impl<S: Strategy, L: Lock> Allocator for &Arena<S, L> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Arena::allocate(self, layout).map(|block| as_asked(block, layout)).map_err(|_| AllocError)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: passed on.
        unsafe { Arena::deallocate(self, block, layout) };
    }

    #[inline]
    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: passed on.
        unsafe { self.change(block, old, new) }
    }

    #[inline]
    unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: passed on; the new block is this long, and no longer.
        unsafe {
            let grown = self.change(block, old, new)?;
            let rest = new.size() - old.size();
            grown.cast::<u8>().add(old.size()).write_bytes(0, rest);
            Ok(grown)
        }
    }

    #[inline]
    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: passed on.
        unsafe { self.change(block, old, new) }
    }
}
