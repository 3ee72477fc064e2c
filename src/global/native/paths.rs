//! What the allocator does with a request: the few instructions of the common case, and the slow
//! path behind them.
//!
//! | size | from |
//! |---|---|
//! | small: up to FFCROSSOVER | the thread's quick list of the class; when it is empty, a batch from the heap's pages |
//! | medium | the thread's list of the class, to 128 KiB; else the heap, under its lock |
//! | from [`mapping_from`](super::Tuning::mapping_from) | a mapping of its own |
//!
//! Zeroed blocks are written, but for what is [known](super::zero) to be zeros of those that are not small.
//!
//! What a block is follows from its address when it is freed or resized, so that a fallback (a heap
//! for a mapping that could not be made) needs no note. Callers that remember no size measure and resize
//! blocks by way of `by_address`.

use core::alloc::Layout;
use core::ptr::{self, NonNull};
use core::time::Duration;

use super::blocks::{self, free_medium, free_outside, from_any, large, list_for, mapped, small};
use super::fault::{self, Fault};
use super::heap::Heap;
use super::huge::HUGE;
use super::space::SPACE;
use super::tuning::{SMALL_MAX, Tuning, UNIT};
use super::{
    background, current, guarded, hardened, heaps, idle, medium, mode, quick, registry, sizes,
    thread,
};
use crate::os::KeepErrno;

/// A block of `size` bytes at a multiple of `align`; null if there is no memory.
#[inline(always)]
pub(super) fn allocate(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    if size <= SMALL_MAX && align <= UNIT {
        // SAFETY: the lists are this thread's, the offset is from the tables.
        if let Some(block) = unsafe { quick::pop(current::lists(), sizes::offset(size)) } {
            return block.as_ptr();
        }
    }
    allocate_slowly(asked, size, align)
}

/// As [`allocate`], zeros.
#[inline]
pub(super) fn allocate_zeroed(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    if size > SMALL_MAX {
        return allocate_zeroed_slowly(asked, size, align);
    }
    let block = allocate(asked, size, align);
    if !block.is_null() && SPACE.contains(block) {
        // SAFETY: the block has this many bytes.
        unsafe { block.write_bytes(0, size) };
    }
    block
}

/// As [`allocate_zeroed`], of a block that is not small: what is known to be zeros is not written.
#[cold]
#[inline(never)]
fn allocate_zeroed_slowly(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    if mode::is_hardened() {
        return hardened::paths::allocate_zeroed(asked, size, align);
    }
    let _errno = KeepErrno::new();
    let align = align.max(UNIT);
    let rounded = medium::round(size, align);
    let Ok(layout) = Layout::from_size_align(rounded, align) else {
        return ptr::null_mut();
    };
    if medium::serves(size, align)
        && let Some(block) = medium::allocate(size)
    {
        // SAFETY: the block has this many bytes, and is nobody else's.
        unsafe { block.write_bytes(0, size) };
        return block.as_ptr();
    }
    let tuning = registry::tuning(asked);
    let Some(caller) = thread::enter(tuning) else {
        return mapped(tuning, size, align);
    };
    if mode::is_hardened() {
        // The allocator has just been opened.
        return hardened::paths::allocate_zeroed(asked, size, align);
    }
    if let Some(block) = large(caller, tuning, size, align) {
        return block.as_ptr();
    }
    let known = from_any(caller, |heap| heap.grow(|state| state.allocate_known(layout)).flatten());
    match known {
        Some((block, known)) => {
            // SAFETY: the block has this many bytes, and is nobody else's.
            unsafe { known.clear(block.as_ptr(), size) };
            medium::begin(block, rounded, align);
            block.as_ptr()
        }
        None => mapped(tuning, size, align),
    }
}

#[cold]
#[inline(never)]
fn allocate_slowly(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    if mode::is_hardened() {
        return hardened::paths::allocate(asked, size, align);
    }
    if medium::serves(size, align) {
        return allocate_medium(asked, size, align);
    }
    allocate_more(asked, size, align)
}

/// As [`allocate`], of a medium block, in the usual mode. (A function of its own for its registers.)
#[inline(never)]
fn allocate_medium(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    match medium::allocate(size) {
        Some(block) => block.as_ptr(),
        None => allocate_more(asked, size, align),
    }
}

/// As [`allocate`], in the usual mode, where the thread's list has no block. (A function of its own, so that
/// the question before it keeps no registers.)
#[cold]
#[inline(never)]
fn allocate_more(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    let _errno = KeepErrno::new();
    // No block has more than `isize::MAX` bytes when rounded up to its alignment, a power of two. What is
    // allocated below may be larger than asked for, but not than this.
    let align = align.max(UNIT);
    if size.max(SMALL_MAX + 1) > isize::MAX as usize + 1 - align {
        return ptr::null_mut();
    }
    let tuning = registry::tuning(asked);
    let Some(caller) = thread::enter(tuning) else {
        // Without heaps there are still mappings.
        return mapped(tuning, size, align);
    };
    if mode::is_hardened() {
        // The allocator has just been opened.
        return hardened::paths::allocate(asked, size, align);
    }
    if let Some(block) = blocks::guarded(caller, size, align) {
        return block.as_ptr();
    }
    let list = list_for(tuning, size, align);
    if list > 0 {
        return small(caller, list).map_or(ptr::null_mut(), NonNull::as_ptr);
    }
    if let Some(block) = large(caller, tuning, size, align) {
        return block.as_ptr();
    }
    // A small size that comes here has too large an alignment for a page.
    let size = medium::round(size.max(tuning.pages.ffcrossover + 1), align);
    // SAFETY: checked above; a size that is rounded is far smaller.
    let layout = unsafe { Layout::from_size_align_unchecked(size, align) };
    match blocks::medium(caller, layout) {
        Some(block) => {
            medium::begin(block, size, align);
            block.as_ptr()
        }
        None => mapped(tuning, size, align),
    }
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
        let address = NonNull::new_unchecked(block);
        if guarded::may_be_outside(block)
            || !quick::push(current::lists(), sizes::offset(size), address)
        {
            free_sized_slowly(asked, block, size);
        }
    }
}

/// As [`free_checked`], where the thread's list has no room, or the block none.
///
/// # Safety
/// As for [`free`].
#[cold]
#[inline(never)]
unsafe fn free_sized_slowly(asked: &Tuning, block: *mut u8, size: usize) {
    // SAFETY: passed on.
    unsafe {
        if mode::is_hardened() {
            hardened::paths::free(asked, block, Some(size));
        } else if !free_to_list(block) {
            free_more(asked, block);
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
            None => free_slowly(asked, block),
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
        if !quick::push(current::lists(), list, NonNull::new_unchecked(block)) {
            free_slowly(asked, block);
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
        match SPACE.list_of(block) {
            Some(list) if quick::push(current::lists(), list, NonNull::new_unchecked(block)) => {}
            _ => free_sized_slowly(asked, block, size),
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
    // SAFETY: passed on.
    unsafe { free_checked(asked, block, size) };
}

#[cold]
#[inline(never)]
unsafe fn free_slowly(asked: &Tuning, block: *mut u8) {
    // SAFETY: passed on.
    unsafe {
        if mode::is_hardened() {
            return hardened::paths::free(asked, block, None);
        }
        if !free_to_list(block) {
            free_more(asked, block);
        }
    }
}

/// Frees a medium block onto a list; `false` if it is none, or that cannot be done.
///
/// # Safety
/// As for [`free`].
#[inline(always)]
unsafe fn free_to_list(block: *mut u8) -> bool {
    let address = NonNull::new(block).filter(|_| SPACE.list_of(block) == Some(0));
    // SAFETY: passed on.
    address.is_some_and(|block| unsafe { medium::free(block) })
}

/// As [`free`], in the usual mode, where the thread's list has no room.
///
/// # Safety
/// As for [`free`].
#[cold]
#[inline(never)]
unsafe fn free_more(asked: &Tuning, block: *mut u8) {
    // SAFETY: the caller's promise; what the block is, its address tells.
    unsafe {
        let Some(address) = NonNull::new(block) else { return };
        let _errno = KeepErrno::new();
        match SPACE.list_of(block) {
            None => return free_outside(asked, block),
            Some(0) => return free_medium(address),
            Some(list) => free_small(asked, list, address),
        }
    }
    background::start();
}

/// Frees a small block, for which room is made on the thread's list where it is full.
unsafe fn free_small(asked: &Tuning, list: u32, block: NonNull<u8>) {
    let lists = thread::enter(asked).and_then(|caller| caller.lists);
    // SAFETY: the caller's promise; the lists are this thread's, and hold blocks of their class.
    unsafe {
        let Some(lists) = lists.map(NonNull::as_ptr) else {
            return Heap::put(&mut [block]);
        };
        if quick::has_last(lists, list, block) {
            fault::stop(Fault::FreedTwice, block.as_ptr());
        }
        if quick::push(lists, list, block) {
            return;
        }
        quick::make_room(lists, list);
        quick::push(lists, list, block);
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
    let list_of = |size| if small { sizes::offset(size) } else { 0 };
    let (list, new_list) = (list_of(size), list_of(new_size));
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
        if mode::is_hardened() {
            return hardened::resize::reallocate(asked, block, align, new_size);
        }
        if let Some(resized) = resize(asked, block, align, new_size) {
            return resized.as_ptr();
        }
        relocate(asked, block, size, align, new_size, || free(asked, block))
    }
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

/// Resizes without copying. A mapping stays one down to half of the least size that is mapped.
unsafe fn resize(
    asked: &Tuning,
    block: *mut u8,
    align: usize,
    new_size: usize,
) -> Option<NonNull<u8>> {
    let address = NonNull::new(block)?;
    let tuning = registry::tuning(asked);
    let new_list = list_for(tuning, new_size, align);
    match SPACE.list_of(block) {
        // As in `beyond_small`: it is part of a layout below.
        Some(0) if new_list == 0 && new_size <= isize::MAX as usize + 1 - UNIT => {
            let rounded = medium::round(new_size, align);
            if medium::size_of_block(address, Fault::NotInUse) == Some(rounded) {
                return Some(address);
            }
            let _errno = KeepErrno::new();
            // SAFETY: the caller's promise.
            let done = unsafe { Heap::of(block).resize_in_place(address, rounded) };
            if done {
                medium::end(address);
                medium::begin(address, rounded, align);
            }
            done.then_some(address)
        }
        Some(list) => (list > 0 && list == new_list).then_some(address),
        None => {
            let _errno = KeepErrno::new();
            // SAFETY: the caller's promise.
            unsafe { blocks::resize_outside(asked, block, align, new_size) }
        }
    }
}

/// Gives all free memory back to the system, but what is on other threads' quick lists; returns its
/// bytes.
pub(super) fn purge() -> u64 {
    let _errno = KeepErrno::new();
    registry::adopt_orphans();
    thread::empty_lists();
    idle::put_back_all();
    heaps::all().map(Heap::purge).sum()
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
