//! Serves requests while blocks are sampled for a profile, in the default mode and in hardened
//! mode.

use core::ptr::NonNull;

use super::{thread, usual};
use crate::global::native::base::{mode, sizes};
use crate::global::native::lists::{current, medium, quick};
use crate::global::native::memory::space::SPACE;
use crate::global::native::{hardened, profile};
use crate::global::tuning::{SMALL_MAX, Tuning, UNIT};
use crate::os::KeepErrno;

/// Allocates a block of `size` bytes at a multiple of `align`; null if there is no memory.
#[cold]
#[inline(never)]
pub(super) fn allocate(asked: &Tuning, size: usize, align: usize) -> *mut u8 {
    sample(asked, size, align, || {
        if mode::is_hardened() {
            return hardened::paths::allocate(mode::parts(), asked, size, align);
        }
        if size <= SMALL_MAX && align <= UNIT {
            // Usually the list has a block, and the fast path only stopped for a trial.
            let list = sizes::offset_up_to_unit(size, align);
            // SAFETY: the lists are this thread's; the offset is from the tables.
            if let Some(block) = unsafe { quick::pop(current::lists(), list) } {
                return block.as_ptr();
            }
        }
        usual::allocate(asked, size, align)
    })
}

/// Returns the block that `allocate` allocates, after sampling it if it is chosen.
#[inline(always)]
pub(super) fn sample(
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
        // Gives a new thread its lists, so that its first block counts.
        let _ = thread::caller(asked);
    }
    let is_wanted = profile::decide_sample(asked, size, align);
    let block = allocate();
    if is_wanted {
        // Calls from here on belong to the allocator.
        let here = 0_u8;
        profile::add_sample(block, size, (&raw const here).addr());
        if SPACE.list_of(block) == Some(0)
            && let Some(block) = NonNull::new(block)
        {
            // Keeps it off the medium lists, so that its free takes the slow path, which forgets
            // it.
            medium::clear_mark(block);
        }
        profile::dump_if_wanted();
    }
    block
}

/// Frees a block. `size` is its size, if the caller knows it.
///
/// # Safety
/// As for [`paths::free`](super::paths::free).
#[cold]
#[inline(never)]
pub(super) unsafe fn free(asked: &Tuning, block: NonNull<u8>, size: Option<usize>) {
    if mode::is_profiled() {
        profile::forget(block.as_ptr());
    }
    // SAFETY: the caller guarantees that the block is in use. It is of the unshadowed list, even
    // where its granule names the shadow; the lists are this thread's.
    unsafe {
        let list = SPACE.list_of(block.as_ptr()).unwrap_or(0);
        if mode::is_hardened() {
            return hardened::paths::free(mode::parts(), asked, block, list, size);
        }
        if list == 0 || !quick::push(current::lists(), quick::unshadowed(list), block) {
            usual::free(asked, block);
        }
    }
}

/// Resizes a block; `relocate` copies it to a new one where it must be copied. For the profile, a
/// small block that stays in place is unchanged; every other block is freed, and allocated with the
/// new size.
///
/// # Safety
/// As for [`paths::reallocate`](super::paths::reallocate).
#[cold]
#[inline(never)]
pub(super) unsafe fn reallocate(
    asked: &Tuning,
    block: *mut u8,
    size: usize,
    align: usize,
    new_size: usize,
    relocate: impl FnOnce() -> *mut u8,
) -> *mut u8 {
    let taken = if mode::is_profiled() { profile::take(block) } else { None };
    // SAFETY: the callees have the same contract.
    let (resized, is_new) = unsafe {
        if mode::is_hardened() {
            (hardened::resize::reallocate(mode::parts(), asked, block, align, new_size), false)
        } else if let Some(resized) = usual::resize_or_move(asked, block, size, align, new_size) {
            (resized.as_ptr(), false)
        } else {
            (relocate(), true)
        }
    };
    if mode::is_profiled() {
        let stays = resized == block && SPACE.list_of(resized).is_some_and(|list| list > 0);
        if resized.is_null() || stays {
            profile::restore(block, taken);
        } else if !is_new {
            // `relocate` allocated a new block, which was sampled there.
            sample(asked, new_size, align, || resized);
        }
    }
    resized
}
