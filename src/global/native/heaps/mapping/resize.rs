//! Makes a block that is a mapping longer or shorter.

use core::ptr::NonNull;

use super::super::kept;
use super::header::{BEHIND, Header, checked_header, header, write_header};
use super::in_use::count_bytes;
use super::known;
use super::lengthen::{lengthen, lengthen_whole};
use crate::global::native::memory::huge::{self, HUGE};
use crate::global::native::memory::{outside, refused};
use crate::os::{self, OsPageRun};

/// What a block that is resized becomes.
#[derive(Clone, Copy)]
struct NewSize {
    /// Bytes of its mapping, from the base on.
    len: usize,
    /// Bytes of the contents, as requested.
    size: usize,
}

/// Makes a block longer or shorter; it may move if its alignment allows. With `is_adaptive`, what
/// is added gets huge pages if the block was written all over.
///
/// # Safety
/// The block is a mapping in use, aligned to `align`. If this succeeds, only the returned block is
/// used from then on.
pub(in crate::global::native) unsafe fn resize(
    block: *mut u8,
    align: usize,
    new_size: usize,
    is_adaptive: bool,
) -> Option<NonNull<u8>> {
    // SAFETY: the caller guarantees that it is in use; the callees have the same contract.
    unsafe {
        let &mut Header { base, len, guard, .. } = checked_header(block);
        let mapping = OsPageRun { start: base, len };
        let behind = if guard > 0 { BEHIND } else { 0 };
        let new_len = (block.addr() - base.addr()).checked_add(new_size)?.checked_add(behind)?;
        let new_len = new_len.checked_next_multiple_of(os::page_size())?;
        // Unsigned sums may exceed the largest size of a block.
        isize::try_from(new_len).ok()?;
        let new = NewSize { len: new_len, size: new_size };
        if guard > 0 {
            resize_guarded(block, align, new, is_adaptive)
        } else if new_len > len {
            grow(mapping, block, align, new, is_adaptive)
        } else {
            cut_off(mapping, block, new);
            NonNull::new(block)
        }
    }
}

/// Records that a block has fewer bytes, and keeps its memory.
///
/// # Safety
/// The block is a mapping in use, and has at least `new_size` bytes.
pub(in crate::global::native) unsafe fn shorten(block: *mut u8, new_size: usize) {
    // SAFETY: the caller guarantees that it is in use.
    unsafe {
        let &mut Header { base, len, guard, .. } = checked_header(block);
        write_header(block, OsPageRun { start: base, len }, guard, new_size);
    }
}

/// As [`resize`], for a block with guard pages.
///
/// # Safety
/// As for [`resize`]; the block has guard pages, and its header was checked.
unsafe fn resize_guarded(
    block: *mut u8,
    align: usize,
    new: NewSize,
    is_adaptive: bool,
) -> Option<NonNull<u8>> {
    let page = os::page_size();
    // SAFETY: the caller guarantees that it is in use, and has checked its header; one that moves
    // keeps its header and contents.
    unsafe {
        let Header { base, len, guard, size, .. } = *header(block);
        if new.len > len {
            if align > page {
                return None;
            }
            // A block that grows mostly grows again: with room it then stays. Untouched room takes
            // no memory.
            let roomy = new.len.saturating_add(new.len / 8) & !(page - 1);
            let wants_huge = is_adaptive && size >= HUGE / 2 && huge::is_dense(block, size);
            return move_guarded(block, NewSize { len: roomy, ..new }, wants_huge);
        }
        if new.len < len / 2 {
            return None;
        }
        write_header(block, OsPageRun { start: base, len }, guard, new.size);
    }
    NonNull::new(block)
}

/// Makes a block without guard pages shorter, and unmaps the pages that it needs no more.
///
/// # Safety
/// As for [`resize`]; the block has no guard pages, and is in this mapping, which has at least
/// `new.len` bytes.
unsafe fn cut_off(mapping: OsPageRun, block: *mut u8, new: NewSize) {
    let OsPageRun { start: base, len } = mapping;
    // SAFETY: the caller guarantees that it is in use, and that the end is not used any more.
    unsafe {
        (*header(block)).size = new.size;
        if new.len == len {
            return;
        }
        kept::forget_sample(base, len);
        // An end that cannot be unmapped stays as room.
        if os::release(base.wrapping_add(new.len), len - new.len) {
            write_header(block, OsPageRun { start: base, len: new.len }, 0, new.size);
            count_bytes(new.len, len);
        }
    }
}

/// Makes a block without guard pages longer.
///
/// # Safety
/// As for [`resize`]; the block has no guard pages, and is in this mapping, which has less than
/// `new.len` bytes.
unsafe fn grow(
    mapping: OsPageRun,
    block: *mut u8,
    align: usize,
    new: NewSize,
    is_adaptive: bool,
) -> Option<NonNull<u8>> {
    let OsPageRun { start: base, len } = mapping;
    // SAFETY: the caller guarantees that it is in use; one that moves keeps its header and
    // contents.
    unsafe {
        let offset = block.addr() - base.addr();
        // Memory added within the last huge page follows the advice given earlier.
        let reaches = new.len / HUGE > len / HUGE;
        let dense = is_adaptive && reaches && huge::is_dense(block, len - offset);
        if is_adaptive && kept::forget_sample(base, len) {
            // With one advice the mapping is one for the system, which can lengthen it.
            os::advise_huge_pages(base, len, dense);
        }
        // It may move, and then nothing is there any more.
        known::forget(block);
        let stays = kept::take_at(mapping.end(), new.len - len).then_some(base);
        let base = stays
            .or_else(|| lengthen_whole(mapping, offset, align.max(HUGE), new.len))
            .or_else(|| lengthen(mapping, new.len, align <= os::page_size()));
        let Some(base) = base else {
            known::note(block);
            return None;
        };
        if dense {
            os::advise_huge_pages(base, new.len, true);
        }
        let block = base.wrapping_add(offset);
        write_header(block, OsPageRun { start: base, len: new.len }, 0, new.size);
        count_bytes(new.len, len);
        NonNull::new(block)
    }
}

/// Moves a block with guard pages to a longer mapping; to one of huge pages if it `wants_huge`.
///
/// # Safety
/// As for [`resize_guarded`]; `new.len` is more than the mapping's length.
unsafe fn move_guarded(block: *mut u8, new: NewSize, wants_huge: bool) -> Option<NonNull<u8>> {
    if !os::MOVES {
        return None;
    }
    // SAFETY: the caller guarantees that it is in use; the target pages are ours, and hold nothing.
    unsafe {
        let Header { base, len, guard, .. } = *header(block);
        let offset = block.addr() - base.addr();
        let align = if wants_huge { HUGE } else { guard };
        let reserved = new.len.checked_add(guard + align)?;
        let memory = outside::reserve(reserved)?;
        // An OS page before a huge one: then the fence behind contents that fill huge pages is not
        // the first word of the next, which would so be no huge page.
        let new_base =
            memory.with_addr((memory.addr() + 2 * guard).next_multiple_of(align) - guard);
        known::forget(block);
        let mapping = OsPageRun { start: base, len };
        let reservation = OsPageRun { start: memory, len: reserved };
        if !os::move_into(mapping, reservation, new_base, new.len) {
            known::note(block);
            return None;
        }
        let (start, end) = (new_base.sub(guard), new_base.add(new.len + guard));
        refused::release(memory, start.addr() - memory.addr());
        refused::release(end, reservation.end().addr() - end.addr());
        refused::release(base.sub(guard), guard);
        refused::release(mapping.end(), guard);
        if wants_huge {
            os::advise_huge_pages(new_base, new.len, true);
        }
        let block = new_base.add(offset);
        write_header(block, OsPageRun { start: new_base, len: new.len }, guard, new.size);
        count_bytes(new.len, len);
        NonNull::new(block)
    }
}
