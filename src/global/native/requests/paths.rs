//! The paths of a request: the few instructions of the common case, and the slow path behind them.
//!
//! | size | from |
//! |---|---|
//! | small: up to FFCROSSOVER | the thread's quick list of the class; when it is empty, a batch from the heap's pages |
//! | medium | the thread's list of the class, to 1 MiB; else the heap, under its lock |
//! | from [`mapping_from`](crate::global::tuning::Tuning::mapping_from); from a quarter of that where a large block grows, or [kept] memory serves | a mapping of its own |
//!
//! Zeroed blocks are written, except that blocks which are not small skip memory
//! [known](crate::global::native::memory::zero) to be zeros.
//!
//! `free` and `realloc` classify a block by its address alone, so a fallback (a heap for a mapping
//! that could not be made) needs no marking. Callers that do not know a block's size measure and
//! resize it by way of `by_address`.

use core::ptr::NonNull;
use core::time::Duration;

use super::{mapped, sampled, thread, usual};
use crate::global::native::base::mode::{self, Parts};
use crate::global::native::base::sizes;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::heaps::{background, kept, pool};
use crate::global::native::lists::quick::Lists;
use crate::global::native::lists::{current, idle, medium, quick, registry};
use crate::global::native::memory::huge::HUGE;
use crate::global::native::memory::space::SPACE;
use crate::global::native::{guarded, hardened};
use crate::global::tuning::{SMALL_MAX, Tuning, UNIT};
use crate::os::KeepErrno;

/// Opens the allocator, and makes the calling thread's lists.
#[cfg(feature = "initial-exec")]
pub(super) fn open(asked: &Tuning) {
    let _errno = KeepErrno::new();
    let _ = thread::caller(asked);
}

/// Allocates a block of `size` bytes at a multiple of `align`; null if there is no memory.
#[inline(always)]
pub(super) fn allocate(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    let lists = current::lists();
    if size <= SMALL_MAX && align <= UNIT {
        // SAFETY: `lists` are this thread's; the offset is from the tables.
        if let Some(block) = unsafe { quick::pop(lists, sizes::offset_of_popped(size, align)) } {
            return block.as_ptr();
        }
    }
    // SAFETY: `lists` are this thread's.
    unsafe { allocate_slowly(asked, size, align, lists) }
}

/// As [`allocate`], for an alignment that most callers do not ask for. A separate function, so that
/// the usual one is a constant there.
#[inline(never)]
pub(super) fn allocate_aligned(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    allocate(asked, size, align.max(UNIT))
}

/// As [`allocate_aligned`], with zeros in the block.
#[inline(never)]
pub(super) fn allocate_aligned_zeroed(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    allocate_zeroed(asked, size, align.max(UNIT))
}

/// As [`allocate`], with zeros in the block.
#[inline]
pub(super) fn allocate_zeroed(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    if size > SMALL_MAX {
        return allocate_zeroed_slowly(asked, size, align);
    }
    let lists = current::lists();
    if align <= UNIT {
        // SAFETY: `lists` are this thread's; the offset is from the tables; the block has `size`
        // bytes.
        unsafe {
            if let Some(block) = quick::pop(lists, sizes::offset_of_popped(size, align)) {
                block.write_bytes(0, size);
                return block.as_ptr();
            }
        }
    }
    // SAFETY: `lists` are this thread's.
    unsafe { allocate_zeroed_small(asked, size, align, lists) }
}

/// As [`allocate_zeroed`], for a small size, where the thread's list has no block.
///
/// # Safety
/// `lists` are the calling thread's.
#[cold]
#[inline(never)]
unsafe fn allocate_zeroed_small(
    asked: &Tuning,
    size: usize,
    align: usize,
    lists: *mut Lists,
) -> *mut u8 {
    let parts = mode::parts();
    if parts.are_only_hardened() {
        // Hardened mode knows which blocks are zeros already.
        return hardened::paths::allocate_zeroed(parts, asked, size, align);
    }
    // SAFETY: the caller guarantees that `lists` are this thread's.
    let block = unsafe { allocate_slowly(asked, size, align, lists) };
    if !block.is_null() && SPACE.contains(block) {
        // SAFETY: the block has `size` bytes.
        unsafe { block.write_bytes(0, size) };
    }
    block
}

/// As [`allocate_zeroed`], for a block that is not small.
#[cold]
#[inline(never)]
fn allocate_zeroed_slowly(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    let parts = mode::parts();
    if parts.are_unusual() {
        return sampled::sample(asked, size, align, || match mode::is_hardened() {
            true => hardened::paths::allocate_zeroed(parts, asked, size, align),
            false => usual::allocate_zeroed(asked, size, align),
        });
    }
    usual::allocate_zeroed(asked, size, align)
}

/// As [`allocate`]. The calling thread's lists are passed on, since finding them again would cost
/// saved registers.
///
/// # Safety
/// `lists` are the calling thread's.
#[cold]
#[inline(never)]
unsafe fn allocate_slowly(asked: &Tuning, size: usize, align: usize, lists: *mut Lists) -> *mut u8 {
    // SAFETY: the caller guarantees that `lists` are this thread's; the offset is from the tables.
    let block = unsafe {
        if align <= UNIT {
            medium::allocate(lists, size, align)
        } else if size <= sizes::most_small() {
            quick::pop(lists, sizes::offset_of_popped_at_any(size, align))
        } else {
            None
        }
    };
    match block {
        Some(block) => block.as_ptr(),
        None => allocate_past_lists(asked, size, align),
    }
}

/// As [`allocate`], where the thread's lists have no block. A separate function, so that the
/// attempt before it saves no registers.
#[cold]
#[inline(never)]
fn allocate_past_lists(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    let parts = mode::parts();
    match parts.are_unusual() {
        true => allocate_unusually(parts, asked, size, align),
        false => usual::allocate(asked, size, align),
    }
}

/// As [`allocate`], in hardened mode or while blocks are sampled.
#[inline(always)]
fn allocate_unusually(parts: Parts, asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    match parts.are_only_hardened() {
        true => hardened::paths::allocate(parts, asked, size, align),
        false => sampled::allocate(asked, size, align),
    }
}

/// Frees a block of up to [`SMALL_MAX`] bytes, aligned to the unit at most, whose size and
/// alignment the caller knows.
///
/// # Safety
/// The block is in use, was allocated with this size and alignment, and is not used afterwards.
#[inline(always)]
pub(super) unsafe fn free_small(asked: &Tuning, block: *mut u8, size: usize, align: usize) {
    // SAFETY: the caller guarantees that the block is in use and has this size and alignment;
    // `lists` are this thread's.
    unsafe {
        let (address, lists) = (NonNull::new_unchecked(block), current::lists());
        if guarded::may_be_outside(block)
            || !quick::push(lists, sizes::offset_of_freed(size, align), address)
        {
            free_any_sized(asked, block, size);
        }
    }
}

/// As [`free_small`], for any alignment. A separate function, as [`allocate_aligned`] is.
///
/// # Safety
/// As for [`free_small`].
#[inline(never)]
pub(super) unsafe fn free_aligned(asked: &Tuning, block: *mut u8, size: usize, align: usize) {
    // SAFETY: the callees have the same contract.
    unsafe {
        match align <= UNIT {
            true => free_small(asked, block, size, UNIT),
            false => free_any_sized(asked, block, size),
        }
    }
}

/// As [`free`], where no list takes the block at once; `list` is its list, or 0 if it is not small;
/// `size` is its size, if the caller knows it. A separate function, so that the attempts before it
/// save no registers.
///
/// # Safety
/// As for [`free`].
#[cold]
#[inline(never)]
unsafe fn free_past_lists(asked: &Tuning, block: NonNull<u8>, list: u32, size: Option<usize>) {
    // SAFETY: the callees have the same contract.
    unsafe {
        let parts = mode::parts();
        match parts.are_unusual() {
            true => free_unusually(parts, asked, block, list, size),
            false => usual::free(asked, block),
        }
    }
}

/// Frees a block; does nothing for null.
///
/// # Safety
/// The block is null, or in use and not used afterwards.
#[inline(always)]
pub(super) unsafe fn free(asked: &Tuning, block: *mut u8) {
    // SAFETY: the callees have the same contract; `list` is the block's.
    unsafe {
        match SPACE.list_of(block) {
            Some(list) => free_listed(asked, block, list),
            None => free_beside_slots(asked, block),
        }
    }
}

/// As [`free`], for null, which C programs free often, or a block in no slot. A separate function,
/// so that the common case need not set a list for it.
///
/// # Safety
/// As for [`free`].
#[cold]
#[inline(never)]
unsafe fn free_beside_slots(asked: &Tuning, block: *mut u8) {
    if let Some(block) = NonNull::new(block) {
        // SAFETY: the callee has the same contract.
        unsafe { free_past_lists(asked, block, 0, None) }
    }
}

/// As [`free`], for a block in a slot whose list is known; 0: it is not small.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
pub(super) unsafe fn free_listed(asked: &Tuning, block: *mut u8, list: u32) {
    // SAFETY: a block in a slot is not null, and the caller guarantees that it is in use, and of
    // the list; `lists` are this thread's.
    unsafe {
        let (address, lists) = (NonNull::new_unchecked(block), current::lists());
        if !quick::push(lists, list, address) {
            match list {
                0 => free_slowly(asked, address, lists),
                _ => free_past_lists(asked, address, list, None),
            }
        }
    }
}

/// As [`free`], with the size that the block was allocated, or last resized, with. Hardened mode
/// checks it.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
pub(super) unsafe fn free_sized(asked: &Tuning, block: *mut u8, size: usize) {
    // SAFETY: the callees have the same contract; an address in a slot is not null; `lists` are
    // this thread's.
    unsafe {
        let lists = current::lists();
        match SPACE.list_of(block) {
            Some(list) if quick::push(lists, list, NonNull::new_unchecked(block)) => {}
            _ => free_any_sized(asked, block, size),
        }
    }
}

/// As [`free_sized`], for blocks that the size alone puts on no list: all those of a large size
/// or alignment, and others now and then.
///
/// # Safety
/// As for [`free`].
#[cold]
#[inline(never)]
pub(super) unsafe fn free_any_sized(asked: &Tuning, block: *mut u8, size: usize) {
    let list = SPACE.list_of(block);
    let Some(block) = NonNull::new(block) else { return };
    // SAFETY: the callees have the same contract; `list` is the block's, and `lists` are this
    // thread's.
    unsafe {
        let lists = current::lists();
        match list {
            Some(0) if medium::free(lists, block) => {}
            Some(list) if quick::push(lists, list, block) => {}
            list => free_past_lists(asked, block, list.unwrap_or(0), Some(size)),
        }
    }
}

/// Frees a block that is not small: onto a medium list, or else past all lists.
///
/// # Safety
/// As for [`free`]; `lists` are the calling thread's, and the block is in a slot.
#[cold]
#[inline(never)]
unsafe fn free_slowly(asked: &Tuning, block: NonNull<u8>, lists: *mut Lists) {
    // SAFETY: the callees have the same contract.
    unsafe {
        if !medium::free(lists, block) {
            free_past_lists(asked, block, 0, None);
        }
    }
}

/// As [`free_past_lists`], in hardened mode or while blocks are sampled.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
unsafe fn free_unusually(
    parts: Parts,
    asked: &Tuning,
    block: NonNull<u8>,
    list: u32,
    size: Option<usize>,
) {
    // SAFETY: the callees have the same contract.
    unsafe {
        match parts.are_only_hardened() {
            true => hardened::paths::free(parts, asked, block, list, size),
            false => sampled::free(asked, block, size),
        }
    }
}

/// As [`reallocate`], for a block whose size the caller knows: where both sizes are small, they
/// name the lists.
///
/// # Safety
/// As for [`reallocate`]; the block was allocated, or last resized, with this size and alignment.
#[inline]
pub(super) unsafe fn reallocate_sized(
    asked: &Tuning,
    block: *mut u8,
    size: usize,
    align: usize,
    new_size: usize,
) -> *mut u8 {
    let small = size <= SMALL_MAX && new_size <= SMALL_MAX && align <= UNIT;
    let (list, new_list) = match small {
        true => (sizes::offset_of_freed(size, align), sizes::offset_up_to_unit(new_size, align)),
        false => (0, 0),
    };
    let in_heap = !guarded::may_be_outside(block);
    if list <= sizes::LOOKED_UP || new_list == 0 || mode::is_hardened() || !in_heap {
        // SAFETY: the callee has the same contract.
        return unsafe { reallocate(asked, block, size, align, new_size) };
    }
    if list == new_list {
        return block;
    }
    // SAFETY: the callee has the same contract; the block was last allocated with `size`, so its
    // list is the size's.
    unsafe {
        relocate(asked, block, size, align, new_size, || free_small(asked, block, size, align))
    }
}

/// Resizes a block, and moves it if necessary; null, and nothing changed, if there is no memory. A
/// small block stays in place exactly while its class does.
///
/// # Safety
/// The block is in use, at a multiple of `align`, and its first `size` bytes are the contents;
/// afterwards only the block returned is used, if there is one.
pub(super) unsafe fn reallocate(
    asked: &Tuning,
    block: *mut u8,
    size: usize,
    align: usize,
    new_size: usize,
) -> *mut u8 {
    // SAFETY: the callees have the same contract.
    unsafe {
        let parts = mode::parts();
        if parts.are_unusual() {
            return reallocate_unusually(parts, asked, block, size, align, new_size);
        }
        if let Some(resized) = usual::resize_or_move(asked, block, size, align, new_size) {
            return resized.as_ptr();
        }
        relocate(asked, block, size, align, new_size, || free(asked, block))
    }
}

/// As [`reallocate`], in hardened mode or while blocks are sampled.
///
/// # Safety
/// As for [`reallocate`].
#[inline(always)]
pub(super) unsafe fn reallocate_unusually(
    parts: Parts,
    asked: &Tuning,
    block: *mut u8,
    size: usize,
    align: usize,
    new_size: usize,
) -> *mut u8 {
    // SAFETY: the callees have the same contract.
    unsafe {
        match parts.are_only_hardened() {
            true => hardened::resize::reallocate(parts, asked, block, align, new_size),
            false => sampled::reallocate(asked, block, size, align, new_size, || {
                relocate(asked, block, size, align, new_size, || free(asked, block))
            }),
        }
    }
}

/// Copies a block to a new one, and frees it; null, and nothing changed, if there is no memory.
///
/// # Safety
/// As for [`reallocate`]; `free` frees the block and nothing else.
#[inline(always)]
pub(super) unsafe fn relocate(
    asked: &Tuning,
    block: *mut u8,
    size: usize,
    align: usize,
    new_size: usize,
    free: impl FnOnce(),
) -> *mut u8 {
    let moved = allocate(asked, new_size, align);
    if !moved.is_null() {
        if size >= HUGE && new_size > size {
            // SAFETY: both blocks are in use, the old one with `size` bytes.
            unsafe { mapped::advise_if_dense(asked, block, size, moved) };
        }
        // SAFETY: both blocks are in use, hence disjoint, and at least this long.
        unsafe { moved.copy_from_nonoverlapping(block, size.min(new_size)) };
        free();
    }
    moved
}

/// Gives all free memory back to the system, except for blocks on other threads' quick lists;
/// returns the bytes given back.
pub(super) fn purge() -> u64 {
    let _errno = KeepErrno::new();
    registry::adopt_orphans();
    thread::flush_all();
    thread::give_back_places();
    let kept = kept::bytes() as u64;
    idle::put_back_all();
    kept + pool::all().map(Heap::purge).sum::<u64>()
}

/// Puts back the blocks that the calling thread keeps, and does a part of the purging due in its
/// heap.
pub(super) fn thread_idle() {
    let _errno = KeepErrno::new();
    registry::adopt_orphans();
    thread::put_back_and_collect();
}

/// Does a part of the purging due; returns the time until more is due, `None` if nothing is
/// pending.
pub(super) fn maintain() -> Option<Duration> {
    let _errno = KeepErrno::new();
    registry::adopt_orphans();
    background::maintain().map(Duration::from_millis)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::alloc::{GlobalAlloc, Layout};

    use super::*;
    use crate::global::Pagewise;

    const PAGEWISE: Pagewise = Pagewise::new();

    /// A block has the requested alignment, zeroed or not, small or not, whatever was freed before;
    /// a zeroed block is all zeros.
    #[test]
    fn blocks_are_aligned_and_zeros() {
        let layouts = [1, 16, 64, 512, 4096].into_iter().flat_map(|align| {
            let sizes = [1, 24, 48, 100, 1000, 3000, SMALL_MAX, SMALL_MAX + 1, 50_000];
            sizes.map(|size| Layout::from_size_align(size, align).expect("it is one"))
        });
        for layout in layouts {
            for _ in 0..2 {
                // SAFETY: blocks are at least as long as requested, in use, and freed once.
                unsafe {
                    let blocks = [(); 20].map(|()| {
                        let zeroed = PAGEWISE.alloc_zeroed(layout);
                        assert!(!zeroed.is_null());
                        let bytes = core::slice::from_raw_parts(zeroed, layout.size());
                        assert!(bytes.iter().all(|&byte| byte == 0), "{layout:?}");
                        [zeroed, PAGEWISE.alloc(layout)]
                    });
                    for block in blocks.into_iter().flatten() {
                        assert!(!block.is_null() && block.addr().is_multiple_of(layout.align()));
                        block.write_bytes(0xa5, layout.size());
                        PAGEWISE.dealloc(block, layout);
                    }
                }
            }
        }
    }
}
