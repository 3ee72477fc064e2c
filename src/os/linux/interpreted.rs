//! Replaces `memory` under Miri, which knows `mmap`, `munmap` and `mremap` of whole mappings that
//! are accessible from the start, but not `mprotect`, `madvise` or `mincore`.
//!
//! So all of a mapping is accessible and takes memory until its last part is released. Uses of
//! memory that is not committed therefore go unnoticed. But Miri detects each access that races
//! with a discard, or that has no right to its memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::os::page_size;

/// A mapping that has not been released; an empty entry if `left` is 0.
#[derive(Clone, Copy)]
struct Mapping {
    start: usize,
    len: usize,
    /// Bytes not yet released.
    left: usize,
}

impl Mapping {
    const NONE: Self = Self { start: 0, len: 0, left: 0 };

    fn has(&self, address: usize) -> bool {
        self.left > 0 && address.wrapping_sub(self.start) < self.len
    }
}

/// The mappings, in a fixed table: allocating here would call the allocator itself.
static MAPPINGS: Mutex<[Mapping; 256]> = Mutex::new([Mapping::NONE; 256]);

fn mappings() -> MutexGuard<'static, [Mapping; 256]> {
    MAPPINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// See `memory`.
pub(crate) fn reserve(len: usize) -> Option<*mut u8> {
    allocate(len)
}

/// See `memory`.
pub(crate) fn allocate(len: usize) -> Option<*mut u8> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let mut mappings = mappings();
    let free = mappings.iter_mut().find(|mapping| mapping.left == 0)?;
    let len = len.next_multiple_of(page_size());
    // SAFETY: a fresh anonymous mapping at an address of Miri's choice touches no memory in use.
    let base = unsafe { libc::mmap(core::ptr::null_mut(), len, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED {
        return None;
    }
    *free = Mapping { start: base.addr(), len, left: len };
    Some(base.cast())
}

/// See `memory`.
///
/// # Safety
/// As there.
pub(crate) unsafe fn commit(start: *mut u8, len: usize) -> bool {
    is_mapped(start) && is_mapped(start.wrapping_add(len - 1))
}

/// See `memory`. Always fails: Miri chooses addresses itself.
pub(crate) unsafe fn map_at(_: *mut u8, _: usize) -> bool {
    false
}

/// See `memory`.
pub(crate) const NEEDS_RESERVATION: bool = false;

/// See `memory`. Always fails, as `map_at` does.
pub(crate) fn reserve_at(_: *mut u8, _: usize) -> bool {
    false
}

/// See `memory`.
pub(crate) fn is_free(_: *mut u8, _: usize) -> bool {
    false
}

/// See `memory`. There is no window.
pub(crate) fn addresses() -> Option<usize> {
    None
}

/// See `memory`.
///
/// # Safety
/// As there.
pub(crate) unsafe fn release(start: *mut u8, len: usize) -> bool {
    if len == 0 {
        return true;
    }
    let mut mappings = mappings();
    let known = mappings.iter_mut().find(|mapping| mapping.has(start.addr()));
    let mapping = known.expect("what is released is mapped");
    mapping.left -= len.next_multiple_of(page_size());
    if mapping.left == 0 {
        let base = start.with_addr(mapping.start);
        // SAFETY: the caller guarantees that no part of the mapping is used.
        let done = unsafe { libc::munmap(base.cast(), mapping.len) };
        assert_eq!(done, 0, "a whole mapping is unmapped");
    }
    true
}

/// See `memory`.
///
/// # Safety
/// As there.
pub(crate) unsafe fn remap(
    start: *mut u8,
    len: usize,
    new_len: usize,
    may_move: bool,
) -> Option<*mut u8> {
    let mut mappings = mappings();
    let mapping = mappings.iter_mut().find(|mapping| mapping.has(start.addr()))?;
    // Miri can neither change a part of a mapping nor resize one in place.
    if !may_move || (mapping.start, mapping.left) != (start.addr(), mapping.len) {
        return None;
    }
    assert_eq!(mapping.len, len, "a whole mapping is resized");
    // SAFETY: the caller guarantees that the mapping is whole and may move.
    let moved = unsafe { libc::mremap(start.cast(), len, new_len, libc::MREMAP_MAYMOVE) };
    if moved == libc::MAP_FAILED {
        return None;
    }
    *mapping = Mapping { start: moved.addr(), len: new_len, left: new_len };
    Some(moved.cast())
}

/// See `memory`.
pub(crate) const DISCARDED_ARE_ZEROS: bool = true;

/// See `memory`.
///
/// # Safety
/// As there.
pub(crate) unsafe fn discard(start: *mut u8, len: usize) -> bool {
    // SAFETY: the pages are accessible, and the caller guarantees that their contents are unused.
    unsafe { start.write_bytes(0, len) };
    true
}

/// See `memory`.
///
/// # Safety
/// As there.
pub(crate) unsafe fn advise_huge_pages(_: *mut u8, _: usize, _: bool) {}

/// See `memory`.
pub(crate) const ADVISES_HUGE_PAGES: bool = false;

/// See `huge`.
pub(crate) fn backs_all_with_huge_pages() -> bool {
    false
}

/// See `memory`.
pub(crate) fn for_each_resident(start: *mut u8, len: usize, visit: &mut dyn FnMut(*mut u8, usize)) {
    if len > 0 {
        visit(start, len);
    }
}

/// See `memory`.
pub(crate) fn is_readable(address: *mut u8) -> bool {
    is_mapped(address)
}

fn is_mapped(address: *mut u8) -> bool {
    mappings().iter().any(|mapping| mapping.has(address.addr()))
}

/// See `memory`.
pub(crate) fn is_resident(address: *mut u8) -> bool {
    is_mapped(address)
}

/// Returns enough for two heaps: reserved addresses take memory here.
pub(crate) fn address_space_limit() -> usize {
    1 << 28
}

/// See `memory`. Nothing can be made inaccessible here.
pub(crate) unsafe fn guard(_: *mut u8, _: usize) {}

/// See `memory`. Nothing can be made read-only here.
pub(crate) unsafe fn forbid_writes(_: *mut u8, _: usize) -> bool {
    false
}

/// See `memory`. Nothing can be made inaccessible here.
pub(crate) unsafe fn close(_: *mut u8, _: usize) -> bool {
    false
}
