//! WebAssembly, whose memory is one range of addresses that grows and never shrinks.

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32::memory_grow;
use core::ptr::{self, NonNull};
use std::alloc::System;

/// Bytes by which memory grows.
const PAGE: usize = 64 << 10;

/// Size of a page in bytes.
pub(crate) fn page_size() -> usize {
    PAGE
}

/// Whole pages of fresh memory, zeros, at least `len` bytes: where they start, and their bytes. They are never given
/// back. `None` where memory may not grow by as much.
pub(crate) fn grow(len: usize) -> Option<(*mut u8, usize)> {
    let len = len.checked_next_multiple_of(PAGE)?;
    // The last page of all addresses stays unused: its end has no address.
    let start = match memory_grow::<0>(len / PAGE) {
        usize::MAX => return None,
        page => page.checked_mul(PAGE)?,
    };
    start.checked_add(len)?;
    Some((ptr::with_exposed_provenance_mut(start), len))
}

/// Zeros from the system's allocator: all of them take memory, touched or not; `None` if it has none.
pub(crate) fn map_lazily(len: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(len, PAGE).ok().filter(|layout| layout.size() > 0)?;
    // SAFETY: the layout has a size.
    NonNull::new(unsafe { System.alloc_zeroed(layout) })
}

/// Takes a [lazy](map_lazily) mapping back.
///
/// # Safety
/// `base` was mapped so with `len` bytes, and nothing uses it any more.
pub(crate) unsafe fn unmap(base: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise; such a layout was asked for.
    unsafe { System.dealloc(base.as_ptr(), Layout::from_size_align_unchecked(len, PAGE)) };
}
