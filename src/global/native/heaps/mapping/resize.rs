//! Makes a block that is a mapping longer or shorter.

use core::ptr::NonNull;

use super::super::kept;
use super::header::{BEHIND, Header, checked_header, header, write_header};
use super::in_use::count_bytes;
use super::lengthen::{lengthen, lengthen_whole};
use super::{known, outside};
use crate::global::native::memory::huge::{self, HUGE};
use crate::global::native::memory::refused;
use crate::os;

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
        let behind = if guard > 0 { BEHIND } else { 0 };
        let new_len = (block.addr() - base.addr()).checked_add(new_size)?.checked_add(behind)?;
        let new_len = new_len.checked_next_multiple_of(os::page_size())?;
        // Unsigned sums may exceed the largest size of a block.
        isize::try_from(new_len).ok()?;
        if guard > 0 {
            resize_guarded(block, align, (new_len, new_size), is_adaptive)
        } else if new_len > len {
            grow((base, len), block, align, (new_len, new_size), is_adaptive)
        } else {
            shorten((base, len), block, (new_len, new_size));
            NonNull::new(block)
        }
    }
}

/// As [`resize`], for a block with guard pages that needs `new_len` bytes from its base on.
///
/// # Safety
/// As for [`resize`]; the block has guard pages, and its header was checked.
unsafe fn resize_guarded(
    block: *mut u8,
    align: usize,
    (new_len, new_size): (usize, usize),
    is_adaptive: bool,
) -> Option<NonNull<u8>> {
    let page = os::page_size();
    // SAFETY: the caller guarantees that it is in use, and has checked its header; one that moves
    // keeps its header and contents.
    unsafe {
        let Header { base, len, guard, size, .. } = *header(block);
        if new_len > len {
            if align > page {
                return None;
            }
            // A block that grows mostly grows again: with room it then stays. Untouched room takes
            // no memory.
            let roomy = new_len.saturating_add(new_len / 8) & !(page - 1);
            let wants_huge = is_adaptive && size >= HUGE / 2 && huge::is_dense(block, size);
            return move_guarded(block, (roomy, new_size), wants_huge);
        }
        if new_len < len / 2 {
            return None;
        }
        write_header(block, (base, len), guard, new_size);
    }
    NonNull::new(block)
}

/// Makes a block without guard pages shorter, and unmaps the pages behind its `new_len` bytes from
/// the base on.
///
/// # Safety
/// As for [`resize`]; the block has no guard pages, and is in this mapping, which has at least
/// `new_len` bytes.
unsafe fn shorten(
    (base, len): (*mut u8, usize),
    block: *mut u8,
    (new_len, new_size): (usize, usize),
) {
    // SAFETY: the caller guarantees that it is in use, and that the end is not used any more.
    unsafe {
        (*header(block)).size = new_size;
        // An end that cannot be unmapped stays as room.
        if new_len < len && os::release(base.wrapping_add(new_len), len - new_len) {
            write_header(block, (base, new_len), 0, new_size);
            count_bytes(new_len, len);
        }
    }
}

/// Makes a block without guard pages longer, with `new_len` bytes from its base on.
///
/// # Safety
/// As for [`resize`]; the block has no guard pages, and is in this mapping, which has less than
/// `new_len` bytes.
unsafe fn grow(
    (base, len): (*mut u8, usize),
    block: *mut u8,
    align: usize,
    (new_len, new_size): (usize, usize),
    is_adaptive: bool,
) -> Option<NonNull<u8>> {
    // SAFETY: the caller guarantees that it is in use; one that moves keeps its header and
    // contents.
    unsafe {
        let offset = block.addr() - base.addr();
        // Memory added within the last huge page follows the advice given earlier.
        let reaches = new_len / HUGE > len / HUGE;
        let dense = is_adaptive && reaches && huge::is_dense(block, len - offset);
        if is_adaptive && kept::forget_sample(base, len) {
            // With one advice the mapping is one for the system, which can lengthen it.
            os::advise_huge_pages(base, len, dense);
        }
        // It may move, and then nothing is there any more.
        known::forget(block);
        let stays = kept::take_at(base.add(len), new_len - len).then_some(base);
        let base = stays
            .or_else(|| lengthen_whole((base, len), offset, align.max(HUGE), new_len))
            .or_else(|| lengthen((base, len), new_len, align <= os::page_size()));
        let Some(base) = base else {
            known::note(block);
            return None;
        };
        if dense {
            os::advise_huge_pages(base, new_len, true);
        }
        let block = base.wrapping_add(offset);
        write_header(block, (base, new_len), 0, new_size);
        count_bytes(new_len, len);
        NonNull::new(block)
    }
}

/// Moves a block with guard pages to a longer mapping of `new_len` bytes; to one of huge pages if
/// they are `wanted`.
///
/// # Safety
/// As for [`resize_guarded`]; `new_len` is more than the mapping's length.
unsafe fn move_guarded(
    block: *mut u8,
    (new_len, new_size): (usize, usize),
    wanted: bool,
) -> Option<NonNull<u8>> {
    if !os::MOVES {
        return None;
    }
    // SAFETY: the caller guarantees that it is in use; the target pages are ours, and hold nothing.
    unsafe {
        let Header { base, len, guard, .. } = *header(block);
        let offset = block.addr() - base.addr();
        let align = if wanted { HUGE } else { guard };
        let reserved = new_len.checked_add(guard + align)?;
        let memory = outside::reserve(reserved)?;
        // An OS page before a huge one: then the fence behind contents that fill huge pages is not
        // the first word of the next, which would so be no huge page.
        let new_base =
            memory.with_addr((memory.addr() + 2 * guard).next_multiple_of(align) - guard);
        known::forget(block);
        if !os::move_into((base, len), (memory, reserved), new_base, new_len) {
            known::note(block);
            return None;
        }
        let (start, end) = (new_base.sub(guard), new_base.add(new_len + guard));
        refused::release(memory, start.addr() - memory.addr());
        refused::release(end, memory.addr() + reserved - end.addr());
        refused::release(base.sub(guard), guard);
        refused::release(base.add(len), guard);
        if wanted {
            os::advise_huge_pages(new_base, new_len, true);
        }
        let block = new_base.add(offset);
        write_header(block, (new_base, new_len), guard, new_size);
        count_bytes(new_len, len);
        NonNull::new(block)
    }
}
