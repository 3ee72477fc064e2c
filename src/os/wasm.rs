//! WebAssembly: memory is one range of addresses that grows and never shrinks.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::memory_grow;
use core::ptr::{self, NonNull};
use std::alloc::System;

/// The unit in bytes by which memory grows.
const PAGE: usize = 64 << 10;

/// Returns the size of a page in bytes.
pub(crate) fn page_size() -> usize {
    PAGE
}

/// Grows memory by whole pages of zeros, at least `len` bytes. Returns their start and size in
/// bytes, or `None` if memory may not grow that far. The pages are never given back.
pub(crate) fn grow(len: usize) -> Option<(*mut u8, usize)> {
    let len = len.checked_next_multiple_of(PAGE)?;
    // The last page of the address space stays unused: its end has no address.
    let start = match memory_grow::<0>(len / PAGE) {
        usize::MAX => return None,
        page => page.checked_mul(PAGE)?,
    };
    start.checked_add(len)?;
    Some((ptr::with_exposed_provenance_mut(start), len))
}

/// Allocates zeros from the system's allocator, or returns `None` if it fails. All of the bytes
/// take memory, touched or not.
pub(crate) fn map_lazily(len: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(len, PAGE).ok().filter(|layout| layout.size() > 0)?;
    // SAFETY: the layout's size is not zero.
    NonNull::new(unsafe { System.alloc_zeroed(layout) })
}

/// Gives back a [lazy](map_lazily) mapping.
///
/// # Safety
/// `base` came from [`map_lazily`] with this `len`, and the mapping is no longer used.
pub(crate) unsafe fn unmap(base: NonNull<u8>, len: usize) {
    // SAFETY: the caller guarantees that `base` was allocated with this layout and is unused.
    unsafe { System.dealloc(base.as_ptr(), Layout::from_size_align_unchecked(len, PAGE)) };
}
