//! Collections in an arena: implements `Allocator` of the crate `allocator-api2` for `&Arena`. It
//! works on stable Rust with `hashbrown`, `allocator-api2`'s own `Vec` and `Box`, and others. With
//! the feature `allocator_api`, that trait *is* `core::alloc::Allocator`, which the standard
//! library's collections use.

use core::alloc::Layout;
use core::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};

use super::Arena;
use super::lock::Lock;
use crate::strategy::Strategy;

/// Shortens a block to the size that a collection asked for. A collection may free a longer block
/// with any size that fits, but a strategy identifies a block by its layout.
#[inline]
fn as_asked(block: NonNull<[u8]>, layout: Layout) -> NonNull<[u8]> {
    debug_assert!(block.len() >= layout.size());
    NonNull::slice_from_raw_parts(block.cast(), layout.size())
}

impl<S: Strategy, L: Lock> Arena<S, L> {
    /// Changes a block's size and alignment. If there is no memory to move it, a block that is long
    /// enough and aligned stays where it is.
    ///
    /// # Safety
    /// As for `Allocator::grow` and `Allocator::shrink`.
    unsafe fn change(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let changed = if old.align() == new.align() {
            // SAFETY: the caller guarantees that the block is in use and that `old` fits it, which
            // only the block's own layout does.
            unsafe { self.reallocate(block, old, new.size()) }.map_err(|_| AllocError)
        } else {
            self.with(|strategy| {
                let Ok(moved) = strategy.allocate(new) else {
                    // SAFETY: the caller guarantees that the block is in use and that `old` fits
                    // it.
                    return unsafe { strategy.keep(block, old, new) }.ok_or(AllocError);
                };
                // SAFETY: both blocks are in use, with at least `len` bytes; the old one is freed
                // once and not used afterwards.
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

// SAFETY: blocks stay valid until they are freed, even if the reference is copied, because the
// arena stays borrowed as long as a copy exists. Only one layout fits a block: the one that it was
// allocated or last resized with.
unsafe impl<S: Strategy, L: Lock> Allocator for &Arena<S, L> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Arena::allocate(self, layout).map(|block| as_asked(block, layout)).map_err(|_| AllocError)
    }

    #[inline]
    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller gives the same guarantees.
        unsafe { Arena::deallocate(self, block, layout) };
    }

    #[inline]
    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller gives the same guarantees.
        unsafe { self.change(block, old, new) }
    }

    #[inline]
    unsafe fn grow_zeroed(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller gives the same guarantees; the new block has exactly `new.size()`
        // bytes.
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
        // SAFETY: the caller gives the same guarantees.
        unsafe { self.change(block, old, new) }
    }
}
