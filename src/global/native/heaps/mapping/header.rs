//! The header before a mapping's contents, and the fences around them: written, found again, and
//! checked.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use super::known;
use crate::global::native::base::mode;
use crate::global::native::memory::huge::HUGE;
use crate::global::native::memory::misuse::{self, Misuse};
use crate::os::{self, OsPageRun};

/// The header before the contents.
#[repr(C, align(64))]
pub(super) struct Header {
    /// The [`mark`] of the block: tells a block from any other address.
    pub(super) mark: usize,
    /// Where the mapping begins, guard pages excluded.
    pub(super) base: *mut u8,
    /// Bytes of the mapping, guard pages excluded.
    pub(super) len: usize,
    /// Bytes of each guard page; 0 if there are no guard pages and no fence behind the contents.
    pub(super) guard: usize,
    /// Bytes of the contents, as last requested.
    pub(super) size: usize,
    /// The mark, repeated up to the contents: a write before the block's start changes it.
    fence: [usize; FENCE],
}

/// Bytes of the header.
pub(super) const HEADER: usize = size_of::<Header>();

/// Words of the fence before the contents.
const FENCE: usize = 64 / size_of::<usize>() - 5;

/// Bytes of the fence behind the contents.
pub(super) const BEHIND: usize = size_of::<[usize; 2]>();

/// Writes the header of a block of `size` bytes, and the fence behind if there are guard pages.
///
/// # Safety
/// The block is in this mapping, at least [`HEADER`] bytes behind its start, and has room.
pub(super) unsafe fn write_header(block: *mut u8, mapping: OsPageRun, guard: usize, size: usize) {
    let mark = mark(block);
    let OsPageRun { start: base, len } = mapping;
    // SAFETY: the caller guarantees that both are in the mapping.
    unsafe {
        header(block).write(Header { mark, base, len, guard, size, fence: [mark; FENCE] });
        if guard > 0 {
            block.add(size).cast::<[usize; 2]>().write_unaligned([mark; 2]);
        }
    }
    known::note(block);
}

/// Returns the mark of a block at this address.
pub(super) fn mark(block: *mut u8) -> usize {
    block.addr() ^ 0x7061_6765_7769_7365_u64 as usize
}

/// Takes the mark of a block that is freed; `false` if another thread has taken it.
///
/// # Safety
/// The header of the block was [checked](checked_header).
pub(super) unsafe fn take_mark(block: *mut u8) -> bool {
    // SAFETY: the caller guarantees that there is a header, and nobody holds a reference to it.
    let taken = unsafe { AtomicUsize::from_ptr(&raw mut (*header(block)).mark) };
    taken.compare_exchange(mark(block), 0, Relaxed, Relaxed).is_ok()
}

/// Returns where the header of a block is.
pub(super) fn header(block: *mut u8) -> *mut Header {
    block.wrapping_sub(HEADER).cast()
}

/// Returns the header of a block in no slot. Stops the process if the block is none of ours.
///
/// # Safety
/// The address is a block of this allocator; a best effort is made to notice otherwise.
pub(super) unsafe fn checked_header(block: *mut u8) -> &'static mut Header {
    let is_readable = || {
        // Measuring a block must not change errno.
        let _errno = os::KeepErrno::new();
        os::is_readable(header(block).cast())
    };
    let is_known = known::has(block);
    if is_known || block.addr().is_multiple_of(HEADER) && is_readable() {
        // SAFETY: a block has its header before it, and these bytes are readable in any case.
        let header = unsafe { &mut *header(block) };
        if header.mark == mark(block) {
            if header.fence != [mark(block); FENCE] {
                misuse::stop(Misuse::Underflow, block);
            }
            // SAFETY: the fence is behind the contents.
            let behind = || unsafe { block.add(header.size).cast::<[usize; 2]>().read_unaligned() };
            if header.guard > 0 && behind() != [mark(block); 2] {
                misuse::stop(Misuse::Overflow, block);
            }
            if !is_known {
                known::note(block);
            }
            return header;
        }
    }
    misuse::stop(Misuse::NoBlock, block)
}

/// Returns whether a block of `size` bytes starts on a huge page: where the surplus can be
/// unmapped.
pub(super) fn starts_huge_page(size: usize) -> bool {
    size >= HUGE && !mode::has_guards() && !os::NEEDS_RESERVATION && cfg!(not(miri))
}
