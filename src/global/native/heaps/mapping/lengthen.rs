//! Makes a mapping longer, where it is or at other addresses, without copying.

use super::header::starts_huge_page;
use crate::global::native::memory::space::SPACE;
use crate::global::native::memory::{outside, refused};
use crate::os::{self, OsPageRun};

/// Lengthens a mapping so that its block, `offset` bytes behind the base, still starts at a
/// multiple of `align`, at least a huge page, and its huge pages stay whole. Returns the base, or
/// `None` if that cannot be done.
///
/// # Safety
/// The mapping is in use, and only the result is used from then on, if there is one. `new_len` is
/// more than the mapping's length.
pub(super) unsafe fn lengthen_whole(
    mapping: OsPageRun,
    offset: usize,
    align: usize,
    new_len: usize,
) -> Option<*mut u8> {
    let is_aligned = mapping.start.addr().wrapping_add(offset).is_multiple_of(align);
    if !is_aligned || !starts_huge_page(new_len) {
        return None;
    }
    // SAFETY: the caller guarantees that it is in use; the target pages are ours, and hold nothing.
    unsafe {
        if let Some(base) = lengthen(mapping, new_len, false) {
            return Some(base);
        }
        if !os::MOVES {
            return None;
        }
        // A block that grows mostly grows again: with free addresses behind it, it then stays.
        let room = new_len.checked_add(new_len / 2)? & !(os::page_size() - 1);
        let reserved = room.checked_add(align)?;
        let memory = outside::reserve(reserved)?;
        let skipped = mapping.start.addr().wrapping_sub(memory.addr()) % align;
        let to = memory.add(skipped);
        let reservation = OsPageRun { start: memory, len: reserved };
        if !os::move_into(mapping, reservation, to, new_len) {
            return None;
        }
        refused::release(memory, skipped);
        refused::release(to.add(new_len), reserved - skipped - new_len);
        Some(to)
    }
}

/// Lengthens a mapping where it is, or moves it if it may, but not to the slots of heaps: a free
/// there would go to a heap.
///
/// # Safety
/// As for [`lengthen_whole`].
pub(super) unsafe fn lengthen(
    mapping: OsPageRun,
    new_len: usize,
    may_move: bool,
) -> Option<*mut u8> {
    let OsPageRun { start: base, len } = mapping;
    // SAFETY: the caller guarantees that it is in use; nobody knows yet where the kernel moved it.
    unsafe {
        let moved = os::remap(base, len, new_len, may_move)?;
        if !SPACE.overlaps(moved, new_len) {
            return Some(moved);
        }
        if moved == base {
            refused::release(base.add(len), new_len - len);
            return None;
        }
        // It is in the slots: copy it to other addresses, or else back.
        let there = outside::allocate(new_len);
        let Some(to) = there.or_else(|| os::map_at(base, len).then_some(base)) else {
            os::abort();
        };
        to.copy_from_nonoverlapping(moved, len);
        refused::release(moved, new_len);
        there
    }
}
