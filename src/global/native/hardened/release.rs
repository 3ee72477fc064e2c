//! Freed blocks on their way back: zeroed, perhaps kept in quarantine, put on a list or into their
//! heap.

use core::ptr::NonNull;

use super::canary;
use crate::global::native::base::mode;
use crate::global::native::base::visit::Upkeep;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::lists::quick::{self, Lists};
use crate::global::native::memory::misuse::{self, Misuse};
use crate::global::native::memory::zero;
use crate::os::{self, KeepErrno};

/// A freed block, its list (0 if it is above FFCROSSOVER) and its bytes. Two words, so that it is
/// passed in registers.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Freed {
    /// The block.
    pub(super) block: NonNull<u8>,
    /// Its list in the lower half, its bytes in the upper half.
    list_and_bytes: u64,
}

impl Freed {
    /// Returns what is known of a freed block; `list` is 0 if it is above FFCROSSOVER.
    #[inline(always)]
    pub(super) fn new(block: NonNull<u8>, list: u32, bytes: usize) -> Self {
        // A block of 4 GiB or more is too large for any quarantine.
        let bytes = bytes.min(u32::MAX as usize) as u64;
        Self { block, list_and_bytes: bytes << u32::BITS | u64::from(list) }
    }

    /// Returns the offset of the block's list; 0 if it is above FFCROSSOVER.
    #[inline(always)]
    pub(super) fn list(self) -> u32 {
        self.list_and_bytes as u32
    }

    /// Returns the block's bytes.
    #[inline(always)]
    pub(super) fn bytes(self) -> usize {
        (self.list_and_bytes >> u32::BITS) as usize
    }
}

/// Fills a block with zeros. Whole OS pages of a large block go back to the system instead, so that
/// a block that is mostly untouched stays so.
///
/// # Safety
/// The block has `len` bytes, which the caller owns.
#[inline(always)]
pub(super) unsafe fn wipe(block: NonNull<u8>, len: usize) {
    /// Bytes from which on whole OS pages are given back, not written.
    const LARGE: usize = 1 << 20;
    // SAFETY: all writes are within the caller's `len` bytes, and the pages within them are whole.
    unsafe {
        if len < LARGE {
            return block.write_bytes(0, len);
        }
        let page = os::page_size();
        let before = block.align_offset(page);
        let pages = (len - before) & !(page - 1);
        let inner = block.as_ptr().add(before);
        if !os::discard_to_zeros(inner, pages) {
            inner.write_bytes(0, pages);
        }
        block.write_bytes(0, before);
        inner.add(pages).write_bytes(0, len - before - pages);
    }
}

/// Puts a freed block that leaves the quarantine on its list or into its heap, to be used again.
#[inline(always)]
pub(super) fn put_back(lists: *mut Lists, freed: Freed) {
    // SAFETY: `lists` are this thread's; the block is free and of the list's class.
    unsafe {
        if freed.list() == 0 {
            put_tagged(freed.block);
        } else if !put_on_list(lists, freed) {
            make_room(lists, freed.list(), freed.block);
        }
    }
}

/// Puts a freed block that leaves a quarantine straight into its heap.
pub(super) fn put_into_heap(freed: Freed) {
    // SAFETY: the block is free, and taken from the quarantine for good.
    unsafe {
        match freed.list() {
            0 => put_tagged(freed.block),
            _ => Heap::put(&mut [freed.block], Upkeep::IfDue),
        }
    }
}

/// As [`put_back`], if the block is small and its list has room; returns `false` if not.
#[inline(always)]
pub(super) fn put_on_list(lists: *mut Lists, freed: Freed) -> bool {
    // SAFETY: as above. The dummy list, for blocks that are not small, has no room.
    unsafe { quick::push(lists, freed.list(), freed.block) }
}

/// Puts a freed block on its list, which is full, after making room there.
///
/// # Safety
/// As for [`quick::push`].
#[cold]
#[inline(never)]
pub(super) unsafe fn make_room(lists: *mut Lists, list: u32, block: NonNull<u8>) {
    let _errno = KeepErrno::new();
    // SAFETY: the callee has the same contract; the lists are never freed.
    unsafe {
        quick::push_slowly(lists, list, block);
        (*lists).start_background_after_free();
    }
}

/// Returns the requested bytes of a block above FFCROSSOVER, and the bytes before it that belong to
/// it. Stops the process if the words around it were overwritten.
///
/// # Safety
/// The block is above FFCROSSOVER; it is in use, or the caller owns it.
pub(super) unsafe fn tagged_size(block: NonNull<u8>) -> (usize, usize) {
    // SAFETY: a block above FFCROSSOVER was enclosed when it was handed out.
    unsafe {
        let Some((size, align)) = canary::enclosed(block) else {
            misuse::stop(Misuse::Underflow, block.as_ptr())
        };
        if !canary::is_closed(block, size) {
            stop_overflown(block);
        }
        (size, align.max(canary::FRONT))
    }
}

/// Puts a freed block above FFCROSSOVER back into its heap. Stops the process if it was written to
/// since it was freed.
///
/// # Safety
/// The block is free, and the caller owns it.
#[cold]
#[inline(never)]
unsafe fn put_tagged(block: NonNull<u8>) {
    let _errno = KeepErrno::new();
    // SAFETY: the block was enclosed, and the caller owns it; the heap's block starts that many
    // bytes before it.
    unsafe {
        let (size, front) = tagged_size(block);
        if mode::parts().zero() && !zero::is_zero(block, size) {
            misuse::stop(Misuse::UsedAfterFree, block.as_ptr());
        }
        canary::erase(block, size);
        let raw = block.sub(front);
        Heap::of(raw.as_ptr()).deallocate(raw);
    }
}

/// Stops the process, since bytes behind a block were overwritten.
#[cold]
pub(super) fn stop_overflown(block: NonNull<u8>) -> ! {
    misuse::stop(Misuse::Overflow, block.as_ptr())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_freed_block_keeps_its_list_and_its_bytes() {
        for list in [0, 1, 4096, u32::MAX] {
            for bytes in [0, 16, 1 << 20, u32::MAX as usize] {
                let freed = Freed::new(NonNull::dangling(), list, bytes);
                assert_eq!((freed.list(), freed.bytes()), (list, bytes));
            }
            // (Regression: 5 GiB counted as one.)
            let long = Freed::new(NonNull::dangling(), list, usize::MAX / 3);
            assert_eq!((long.list(), long.bytes()), (list, u32::MAX as usize));
        }
    }

    /// All bytes of a block become zeros, and none beside it. Of a long block, whole OS pages go
    /// back.
    #[test]
    fn a_block_is_wiped_from_end_to_end() {
        let page = os::page_size();
        let all = (2 << 20) + 2 * page;
        let memory = NonNull::new(os::allocate(all).expect("there is memory")).expect("not null");
        for (from, len, stays) in [
            (48, 64, true),
            (page - 16, 2 * page + 80, true),
            (page - 16, (1 << 20) - 16, true),
            (page - 16, 1 << 20, false),
            (page, 1 << 20, false),
            (page + 16, (1 << 20) + 48, false),
        ] {
            // SAFETY: the memory is this long, and the block is in it.
            unsafe {
                memory.write_bytes(1, all);
                wipe(memory.add(from), len);
            }
            let (first, last) = (from.next_multiple_of(page), (from + len) & !(page - 1));
            let mut resident = 0;
            if first < last {
                let start = memory.as_ptr().wrapping_add(first);
                os::for_each_resident(start, last - first, &mut |_, len| resident += len);
                let goes = !stays && os::DISCARDED_ARE_ZEROS;
                assert_eq!(resident == 0, goes, "{resident} of {len} bytes");
            }
            for at in 0..all {
                // SAFETY: as above.
                let byte = unsafe { memory.add(at).read() };
                assert_eq!(byte, u8::from(!(from..from + len).contains(&at)), "byte {at}");
            }
        }
        // SAFETY: the memory is whole, and not used any more.
        unsafe { os::release(memory.as_ptr(), all) };
    }
}
