//! What the allocator does with a request: the few instructions of the common case, and the slow
//! path behind them.
//!
//! | size | from |
//! |---|---|
//! | small: up to FFCROSSOVER | the thread's quick list of the class; when it is empty, a batch from the heap's pages |
//! | medium | the thread's list of the class, to 128 KiB; else the heap, under its lock |
//! | from [`mapping_from`](super::Tuning::mapping_from); from a quarter of that where a large block grows | a mapping of its own |
//!
//! Zeroed blocks are written, but for what is [known](super::zero) to be zeros of those that are not small.
//!
//! What a block is follows from its address when it is freed or resized, so that a fallback (a heap
//! for a mapping that could not be made) needs no note. Callers that remember no size measure and resize
//! blocks by way of `by_address`.

use core::ptr::NonNull;
use core::time::Duration;

use super::blocks;
use super::heap::Heap;
use super::huge::HUGE;
use super::mode::{self, Parts};
use super::quick::Lists;
use super::space::SPACE;
use super::tuning::{SMALL_MAX, Tuning, UNIT};
use super::{
    background, current, guarded, hardened, heaps, idle, kept, medium, profile, quick, registry,
    sizes, thread, usual,
};
use crate::os::KeepErrno;

/// A block of `size` bytes at a multiple of `align`; null if there is no memory.
#[inline(always)]
pub(super) fn allocate(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    let lists = current::lists();
    if size <= SMALL_MAX && align <= UNIT {
        // SAFETY: the lists are this thread's, the offset is from the tables.
        if let Some(block) = unsafe { quick::pop(lists, sizes::offset_of_popped(size)) } {
            return block.as_ptr();
        }
    }
    // SAFETY: the lists are this thread's.
    unsafe { allocate_slowly(asked, size, align, lists) }
}

/// As [`allocate`], zeros.
#[inline]
pub(super) fn allocate_zeroed(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    if size > SMALL_MAX {
        return allocate_zeroed_slowly(asked, size, align);
    }
    let lists = current::lists();
    if align <= UNIT {
        // SAFETY: the lists are this thread's, the offset is from the tables; the block has this many bytes.
        unsafe {
            if let Some(block) = quick::pop(lists, sizes::offset_of_popped(size)) {
                block.write_bytes(0, size);
                return block.as_ptr();
            }
        }
    }
    // SAFETY: the lists are this thread's.
    unsafe { allocate_zeroed_small(asked, size, align, lists) }
}

/// As [`allocate_zeroed`], of a size that is small, where the thread's list has none.
///
/// # Safety
/// The lists are the calling thread's.
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
        // Which blocks are zeros already, it knows.
        return hardened::paths::allocate_zeroed(parts, asked, size, align);
    }
    // SAFETY: passed on.
    let block = unsafe { allocate_slowly(asked, size, align, lists) };
    if !block.is_null() && SPACE.contains(block) {
        // SAFETY: the block has this many bytes.
        unsafe { block.write_bytes(0, size) };
    }
    block
}

/// As [`allocate_zeroed`], of a block that is not small.
#[cold]
#[inline(never)]
fn allocate_zeroed_slowly(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    let parts = mode::parts();
    if parts.are_unusual() {
        return sampling(asked, size, align, || match mode::is_hardened() {
            true => hardened::paths::allocate_zeroed(parts, asked, size, align),
            false => usual::allocate_zeroed(asked, size, align),
        });
    }
    usual::allocate_zeroed(asked, size, align)
}

/// As [`allocate`], with the calling thread's lists: to find them again would be to keep registers.
///
/// # Safety
/// The lists are the calling thread's.
#[cold]
#[inline(never)]
unsafe fn allocate_slowly(asked: &Tuning, size: usize, align: usize, lists: *mut Lists) -> *mut u8 {
    // SAFETY: passed on.
    match unsafe { medium::allocate(lists, size, align) } {
        Some(block) => block.as_ptr(),
        None => allocate_more(asked, size, align),
    }
}

/// As [`allocate`], where the thread's list has none. (A function of its own, so that the question before it keeps no
/// registers.)
#[cold]
#[inline(never)]
fn allocate_more(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    let parts = mode::parts();
    match parts.are_unusual() {
        true => allocate_unusually(parts, asked, size, align),
        false => usual::allocate(asked, size, align),
    }
}

/// As [`allocate`], in hardened mode, or while blocks are sampled.
#[inline(always)]
fn allocate_unusually(parts: Parts, asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    match parts.are_only_hardened() {
        true => hardened::paths::allocate(parts, asked, size, align),
        false => allocate_sampling(asked, size, align),
    }
}

/// As [`allocate`], while blocks are sampled.
#[cold]
#[inline(never)]
fn allocate_sampling(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    sampling(asked, size, align, || {
        if mode::is_hardened() {
            return hardened::paths::allocate(mode::parts(), asked, size, align);
        }
        if size <= SMALL_MAX && align <= UNIT {
            // Mostly the list has some, and it was a trial that failed.
            // SAFETY: the lists are this thread's, the offset is from the tables.
            if let Some(block) = unsafe { quick::pop(current::lists(), sizes::offset(size)) } {
                return block.as_ptr();
            }
        }
        usual::allocate(asked, size, align)
    })
}

/// A block that `allocate` gets, sampled if it is to be.
#[inline(always)]
fn sampling(
    asked: &Tuning,
    size: usize,
    align: usize,
    allocate: impl FnOnce() -> *mut u8,
) -> *mut u8 {
    if !mode::is_profiled() {
        return allocate();
    }
    let _errno = KeepErrno::new();
    if current::lists() == quick::empty() {
        // The first block of a thread counts, too.
        let _ = thread::enter(registry::tuning(asked));
    }
    let is_wanted = profile::wants(asked, size, align);
    let block = allocate();
    if is_wanted {
        // Calls from here on are the allocator's own.
        let here = 0_u8;
        profile::sampled(block, size, (&raw const here).addr());
        if SPACE.list_of(block) == Some(0)
            && let Some(block) = NonNull::new(block)
        {
            // So no list takes it before it is forgotten.
            medium::end(block);
        }
        profile::dump_if_wanted();
    }
    block
}

/// Frees a block of a size up to [`SMALL_MAX`] and an alignment up to the unit, of which the caller
/// remembers the size.
///
/// # Safety
/// The block is in use, was allocated with this size, and is not used any more.
#[inline(always)]
pub(super) unsafe fn free_sized(asked: &Tuning, block: *mut u8, size: usize) {
    // SAFETY: the caller's promise; the lists are this thread's.
    unsafe {
        let (address, lists) = (NonNull::new_unchecked(block), current::lists());
        if guarded::may_be_outside(block)
            || !quick::push(lists, sizes::offset_of_freed(size), address)
        {
            free_sized_slowly(asked, block, size, lists);
        }
    }
}

/// As [`free_checked`], where the thread's list has no room, or the block none.
///
/// # Safety
/// As for [`free`].
#[cold]
#[inline(never)]
unsafe fn free_sized_slowly(asked: &Tuning, block: *mut u8, size: usize, lists: *mut Lists) {
    // SAFETY: passed on.
    unsafe {
        match SPACE.list_of(block) {
            Some(0) if medium::free(lists, NonNull::new_unchecked(block)) => {}
            _ => free_more(asked, block, Some(size)),
        }
    }
}

/// As [`free`], of a block that no list takes at once; with the size that the caller remembers, if he does. (A function of
/// its own, so that what is tried before it keeps no registers.)
///
/// # Safety
/// As for [`free`].
#[cold]
#[inline(never)]
unsafe fn free_more(asked: &Tuning, block: *mut u8, size: Option<usize>) {
    // SAFETY: passed on.
    unsafe {
        let parts = mode::parts();
        match parts.are_unusual() {
            true => free_unusually(parts, asked, block, size),
            false => usual::free_more(asked, block),
        }
    }
}

/// Frees a block; null is none.
///
/// # Safety
/// The block is in use, and is not used any more.
#[inline(always)]
pub(super) unsafe fn free(asked: &Tuning, block: *mut u8) {
    // SAFETY: the caller's promise; the lists are this thread's.
    unsafe {
        match SPACE.list_of(block) {
            Some(list) => free_listed(asked, block, list),
            None => free_more(asked, block, None),
        }
    }
}

/// As [`free`], of a block that lies in a slot, and whose list is known; 0: it is not small.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
pub(super) unsafe fn free_listed(asked: &Tuning, block: *mut u8, list: u32) {
    // SAFETY: the caller's promise; the lists are this thread's.
    unsafe {
        let (address, lists) = (NonNull::new_unchecked(block), current::lists());
        if !quick::push(lists, list, address) {
            match list {
                0 => free_slowly(asked, address, lists),
                _ => free_more(asked, block, None),
            }
        }
    }
}

/// As [`free`], with the size that the block was allocated, or last resized, with: in hardened mode another
/// one is noticed.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
pub(super) unsafe fn free_checked(asked: &Tuning, block: *mut u8, size: usize) {
    // SAFETY: passed on; the lists are this thread's.
    unsafe {
        let lists = current::lists();
        match SPACE.list_of(block) {
            Some(list) if quick::push(lists, list, NonNull::new_unchecked(block)) => {}
            _ => free_sized_slowly(asked, block, size, lists),
        }
    }
}

/// As [`free_checked`]: what Rust programs call for blocks of large sizes and alignments, which are rare.
///
/// # Safety
/// As for [`free`].
#[cold]
#[inline(never)]
pub(super) unsafe fn free_any_sized(asked: &Tuning, block: *mut u8, size: usize) {
    // SAFETY: passed on; the lists are this thread's.
    unsafe {
        let (address, lists) = (NonNull::new_unchecked(block), current::lists());
        match SPACE.list_of(block) {
            Some(0) if medium::free(lists, address) => {}
            Some(list) if quick::push(lists, list, address) => {}
            _ => free_more(asked, block, Some(size)),
        }
    }
}

/// # Safety
/// As for [`free`]; the lists are the calling thread's, and the block lies in a slot.
#[cold]
#[inline(never)]
unsafe fn free_slowly(asked: &Tuning, block: NonNull<u8>, lists: *mut Lists) {
    // SAFETY: passed on.
    unsafe {
        if !medium::free(lists, block) {
            free_more(asked, block.as_ptr(), None);
        }
    }
}

/// As [`free`], in hardened mode, or while blocks are sampled; with the size that the caller remembers, if he does.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
unsafe fn free_unusually(parts: Parts, asked: &Tuning, block: *mut u8, size: Option<usize>) {
    // SAFETY: passed on.
    unsafe {
        match parts.are_only_hardened() {
            true => hardened::paths::free(parts, asked, block, size),
            false => free_sampling(asked, block, size),
        }
    }
}

/// As [`free`], while blocks are sampled.
///
/// # Safety
/// As for [`free`].
#[cold]
#[inline(never)]
unsafe fn free_sampling(asked: &Tuning, block: *mut u8, size: Option<usize>) {
    if mode::is_profiled() {
        profile::forget(block);
    }
    // SAFETY: passed on; the lists are this thread's, and the block is of the list, whose shadow it may be said to be of.
    unsafe {
        if mode::is_hardened() {
            return hardened::paths::free(mode::parts(), asked, block, size);
        }
        let Some(list) = SPACE.list_of(block) else { return usual::free_more(asked, block) };
        let (address, lists) = (NonNull::new_unchecked(block), current::lists());
        if list == 0 || !quick::push(lists, quick::unshadowed(list), address) {
            usual::free_more(asked, block);
        }
    }
}

/// As [`reallocate`], of a block whose size the caller remembers: the sizes name the lists, where
/// both are small.
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
    let small = size.max(new_size) <= SMALL_MAX && align <= UNIT;
    let (list, new_list) = match small {
        true => (sizes::offset_of_freed(size), sizes::offset(new_size)),
        false => (0, 0),
    };
    let in_heap = !guarded::may_be_outside(block);
    if list == 0 || new_list == 0 || mode::is_hardened() || !in_heap {
        // SAFETY: passed on.
        return unsafe { reallocate(asked, block, size, align, new_size) };
    }
    if list == new_list {
        return block;
    }
    // SAFETY: passed on; the list of its size is the block's.
    unsafe { relocate(asked, block, size, align, new_size, || free_sized(asked, block, size)) }
}

/// Changes a block's size, moving it where it must; null, and nothing changed, if there is no
/// memory. A small block stays exactly while its class does.
///
/// # Safety
/// The block is in use, at a multiple of `align`, and `size` bytes of it matter; afterwards only
/// the block returned is used, if there is one.
pub(super) unsafe fn reallocate(
    asked: &Tuning,
    block: *mut u8,
    size: usize,
    align: usize,
    new_size: usize,
) -> *mut u8 {
    // SAFETY: the caller's promise, passed on.
    unsafe {
        let parts = mode::parts();
        if parts.are_unusual() {
            return reallocate_unusually(parts, asked, block, size, align, new_size);
        }
        if let Some(resized) = usual::resize(asked, block, align, new_size) {
            return resized.as_ptr();
        }
        if let Some(moved) = blocks::outgrow(asked, block, size, align, new_size) {
            return moved.as_ptr();
        }
        relocate(asked, block, size, align, new_size, || free(asked, block))
    }
}

/// As [`reallocate`], in hardened mode, or while blocks are sampled.
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
    // SAFETY: passed on.
    unsafe {
        match parts.are_only_hardened() {
            true => hardened::resize::reallocate(parts, asked, block, align, new_size),
            false => reallocate_sampling(asked, block, size, align, new_size),
        }
    }
}

/// As [`reallocate`], while blocks are sampled: a small block that stays is as it was; all others are freed, and allocated
/// with the new size.
///
/// # Safety
/// As for [`reallocate`].
#[cold]
#[inline(never)]
unsafe fn reallocate_sampling(
    asked: &Tuning,
    block: *mut u8,
    size: usize,
    align: usize,
    new_size: usize,
) -> *mut u8 {
    let taken = if mode::is_profiled() { profile::take(block) } else { None };
    // SAFETY: passed on.
    let (resized, is_new) = unsafe {
        if mode::is_hardened() {
            (hardened::resize::reallocate(mode::parts(), asked, block, align, new_size), false)
        } else if let Some(resized) = usual::resize(asked, block, align, new_size) {
            (resized.as_ptr(), false)
        } else if let Some(moved) = blocks::outgrow(asked, block, size, align, new_size) {
            (moved.as_ptr(), false)
        } else {
            let free = || free(asked, block);
            (relocate(asked, block, size, align, new_size, free), true)
        }
    };
    if mode::is_profiled() {
        let stays = resized == block && SPACE.list_of(resized).is_some_and(|list| list > 0);
        if resized.is_null() || stays {
            profile::restore(block, taken);
        } else if !is_new {
            // What was moved by way of another block was sampled as that.
            sampling(asked, new_size, align, || resized);
        }
    }
    resized
}

/// Moves a block's contents to another, and frees it; null, and nothing changed, if there is no
/// memory.
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
            // SAFETY: both blocks are in use, and at least this long.
            unsafe { blocks::follow(asked, block, size, moved) };
        }
        // SAFETY: both blocks are in use, hence disjoint, and at least this long.
        unsafe { moved.copy_from_nonoverlapping(block, size.min(new_size)) };
        free();
    }
    moved
}

/// Gives all free memory back to the system, but what is on other threads' quick lists; returns its
/// bytes.
pub(super) fn purge() -> u64 {
    let _errno = KeepErrno::new();
    registry::adopt_orphans();
    thread::empty_lists();
    let kept = kept::bytes() as u64;
    idle::put_back_all();
    kept + heaps::all().map(Heap::purge).sum::<u64>()
}

/// Puts back what the calling thread keeps, and does a part of what is due in its heap.
pub(super) fn thread_idle() {
    let _errno = KeepErrno::new();
    registry::adopt_orphans();
    thread::put_down();
}

/// Does a part of what is due; how long until more is, `None` if nothing is to come as things are.
pub(super) fn maintain() -> Option<Duration> {
    let _errno = KeepErrno::new();
    registry::adopt_orphans();
    background::tend().map(Duration::from_millis)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::alloc::{GlobalAlloc, Layout};

    use super::*;
    use crate::global::Pagewise;

    const PAGEWISE: Pagewise = Pagewise::new();

    /// A block is as aligned as was asked for, zeroed or not, small or not, and whatever was freed before; zeroed ones are zeros.
    #[test]
    fn blocks_are_aligned_and_zeros() {
        let layouts = [1, 16, 64, 512, 4096].into_iter().flat_map(|align| {
            let sizes = [1, 24, 48, 100, 1000, 3000, SMALL_MAX, SMALL_MAX + 1, 50_000];
            sizes.map(|size| Layout::from_size_align(size, align).expect("it is one"))
        });
        for layout in layouts {
            for _ in 0..2 {
                // SAFETY: blocks are as long as was asked for, in use, and freed once.
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
