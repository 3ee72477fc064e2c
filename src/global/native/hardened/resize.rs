//! Resizing and measuring in hardened mode. Both check the block in the same way as a free.

use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU8;

use super::canary;
use super::own::{self, Own};
use super::paths::{
    allocate, allocate_with, checked_state, free, give_up_small, least, mark_in_use, small_size,
    stop_beyond_heap,
};
use super::release::{Freed, tagged_size, wipe};
use super::states;
use crate::global::native::base::mode::{self, Parts};
use crate::global::native::base::sizes;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::lists::quick::{self, Lists};
use crate::global::native::lists::registry;
use crate::global::native::memory::misuse::Misuse;
use crate::global::native::memory::space::SPACE;
use crate::global::native::requests::{blocks, mapped};
use crate::global::tuning::{SMALL_MAX, Tuning, UNIT};
use crate::os::KeepErrno;

/// Returns the bytes of a block in use that its owner may use; 0 for null.
///
/// # Safety
/// The block is null, or in use. That it is in use is checked.
pub(in super::super) unsafe fn usable_size(block: *mut u8) -> usize {
    let Some(address) = NonNull::new(block) else { return 0 };
    let Some(list) = SPACE.list_of(block) else {
        // SAFETY: a block in use outside of all slots is a mapping or a guarded block.
        return unsafe { mapped::len(block) };
    };
    stop_beyond_heap(address, list);
    let (_, code) = checked_state(address, Misuse::NotInUse);
    // SAFETY: the block is in use, and of this list.
    unsafe {
        match list {
            0 => tagged_size(address).0,
            list => small_size(mode::parts(), address, code, sizes::class_size(list)),
        }
    }
}

/// Resizes a block; null, and nothing changed, if there is no memory. A small block stays in place
/// exactly while its class does, another one while it can.
///
/// # Safety
/// As for [`paths::reallocate`](crate::global::native::requests::paths::reallocate).
#[inline(always)]
pub(in super::super) unsafe fn reallocate(
    parts: Parts,
    asked: &Tuning,
    block: *mut u8,
    align: usize,
    new_size: usize,
) -> *mut u8 {
    type Reallocate = unsafe fn(&Tuning, *mut u8, usize, usize) -> *mut u8;
    static REALLOCATE: [Reallocate; Parts::SETS] = for_each_set!(reallocate_with);
    // SAFETY: the callee has the same contract.
    unsafe { REALLOCATE[parts.set()](asked, block, align, new_size) }
}

/// As [`reallocate`], with this set of parts.
///
/// # Safety
/// As for [`reallocate`].
#[inline(never)]
unsafe fn reallocate_with<const SET: usize>(
    asked: &Tuning,
    block: *mut u8,
    align: usize,
    new_size: usize,
) -> *mut u8 {
    let list = SPACE.list_of(block).unwrap_or(0);
    // SAFETY: the callees have the same contract; a block with a list above 0 is not null.
    unsafe {
        if list > 0
            && new_size < SMALL_MAX
            && align <= UNIT
            && let Some((lists, own)) = own::of_thread()
        {
            let block = NonNull::new_unchecked(block);
            return reallocate_small::<SET>(asked, (lists, own), (block, list), new_size);
        }
        reallocate_slowly(asked, block, align, new_size)
    }
}

/// As [`reallocate`], for a small block and its list, a thread that has lists, and a new size that
/// may be small.
///
/// # Safety
/// As for [`reallocate`].
#[inline(always)]
unsafe fn reallocate_small<const SET: usize>(
    asked: &Tuning,
    (lists, own): (*mut Lists, &Own),
    (block, list): (NonNull<u8>, u32),
    new_size: usize,
) -> *mut u8 {
    let parts = Parts::of_set(SET);
    let (state, code) = checked_state(block, Misuse::NotInUse);
    let class = quick::block_size(lists, list);
    // SAFETY: the block is in use, and has `class` bytes.
    unsafe {
        let size = small_size(parts, block, code, class);
        if sizes::offset(least(new_size, parts)) == list {
            resize_within_class(parts, block, state, size, new_size, class);
            return block.as_ptr();
        }
        move_small::<SET>(asked, (lists, own), (block, list, state), (class, size), new_size)
    }
}

/// Moves a small block of `size` requested bytes that was checked.
///
/// # Safety
/// As for [`reallocate`].
#[inline(never)]
unsafe fn move_small<const SET: usize>(
    asked: &Tuning,
    (lists, own): (*mut Lists, &Own),
    (block, list, state): (NonNull<u8>, u32, &AtomicU8),
    (class, size): (usize, usize),
    new_size: usize,
) -> *mut u8 {
    // SAFETY: both blocks are in use, hence disjoint, and at least this long; the caller does not
    // use the old one afterwards.
    unsafe {
        let moved = allocate_with::<SET>(asked, new_size, UNIT);
        if moved.is_null() {
            return stay(Parts::of_set(SET), block, new_size <= size, new_size);
        }
        moved.copy_from_nonoverlapping(block.as_ptr(), size.min(new_size));
        let freed = Freed::new(block, list, class);
        give_up_small(Parts::of_set(SET), lists, own, state, freed);
        moved
    }
}

/// Records a new size of a small block of `size` requested bytes, which fits its class. Bytes that
/// the program gains are zeros, not what is left of a canary.
///
/// # Safety
/// As for [`mark_in_use`]; the block is in use, with `size` bytes.
#[inline(always)]
unsafe fn resize_within_class(
    parts: Parts,
    block: NonNull<u8>,
    state: &AtomicU8,
    size: usize,
    new_size: usize,
    class: usize,
) {
    // SAFETY: the callee has the same contract; the bytes are within the class.
    unsafe {
        if new_size > size {
            block.add(size).write_bytes(0, new_size - size);
        }
        mark_in_use(parts, block, state, new_size, class);
    }
}

/// Returns the result where there is no memory to move a block to, which was checked. Shrinking
/// does not fail: the block keeps its memory, and its new size is recorded, with which the program
/// may free it.
///
/// # Safety
/// The block is in use, and has at least `new_size` bytes if it `shrinks`.
#[cold]
unsafe fn stay(parts: Parts, block: NonNull<u8>, shrinks: bool, new_size: usize) -> *mut u8 {
    if !shrinks {
        return ptr::null_mut();
    }
    // SAFETY: the block is in use, so its words are there; what is beyond its new size is not used
    // any more.
    unsafe {
        match SPACE.list_of(block.as_ptr()) {
            None => mapped::shorten(block.as_ptr(), new_size),
            Some(0) => {
                if let Some((size, align)) = canary::enclosed(block) {
                    cut_off(parts, block, size, new_size);
                    canary::enclose(block, new_size, align);
                }
            }
            Some(list) => {
                let class = sizes::class_size(list);
                if parts.zero() {
                    block.add(new_size).write_bytes(0, class - new_size);
                }
                mark_in_use(parts, block, states::of(block), new_size, class);
            }
        }
    }
    block.as_ptr()
}

/// Wipes the bytes that a block above FFCROSSOVER loses, and the canary behind them. They go to the
/// heap at once, not through the quarantine.
///
/// # Safety
/// The block is in use with `size` bytes, and enclosed; its bytes from `new_size` on are not used
/// any more. It must be [enclosed](canary::enclose) again.
unsafe fn cut_off(parts: Parts, block: NonNull<u8>, size: usize, new_size: usize) {
    let len = if parts.zero() { size - new_size } else { 0 };
    // SAFETY: the caller guarantees that the bytes are the block's, and unused.
    unsafe {
        wipe(block.add(new_size), len);
        block.add(size).write_bytes(0, canary::BEHIND);
    }
}

/// As [`reallocate`], for a block that is not small or does not stay so, or a thread without lists.
///
/// # Safety
/// As for [`reallocate`].
#[cold]
#[inline(never)]
unsafe fn reallocate_slowly(
    asked: &Tuning,
    block: *mut u8,
    align: usize,
    new_size: usize,
) -> *mut u8 {
    let parts = mode::parts();
    let Some(address) = NonNull::new(block) else {
        return allocate(parts, asked, new_size, align);
    };
    // SAFETY: both blocks are in use, hence disjoint, and at least this long; the caller does not
    // use the old one afterwards.
    unsafe {
        let size = usable_size(block);
        if resize(asked, address, size, align, new_size) {
            return block;
        }
        if SPACE.list_of(block).is_none() {
            let _errno = KeepErrno::new();
            if let Some(resized) = mapped::resize(asked, block, align, new_size) {
                return resized.as_ptr();
            }
        }
        let moved = allocate(parts, asked, new_size, align);
        if moved.is_null() {
            return stay(parts, address, new_size <= size, new_size);
        }
        moved.copy_from_nonoverlapping(block, size.min(new_size));
        free(parts, asked, address, SPACE.list_of(block).unwrap_or(0), None);
        moved
    }
}

/// Resizes a block of `size` bytes in place, unless it is a mapping; returns whether that could be
/// done.
///
/// # Safety
/// The block is in use, has `size` bytes, and was checked.
unsafe fn resize(
    asked: &Tuning,
    block: NonNull<u8>,
    size: usize,
    align: usize,
    new_size: usize,
) -> bool {
    let parts = mode::parts();
    let tuning = registry::tuning(asked);
    let new_list = blocks::list_for(tuning, least(new_size, parts), align.max(UNIT));
    // SAFETY: the block is in use, so its words are there, and it may be resized within its heap or
    // its class.
    unsafe {
        match SPACE.list_of(block.as_ptr()) {
            Some(0) if new_list == 0 && new_size < mapped::mapping_from(tuning) => {
                let _errno = KeepErrno::new();
                let Some((_, align)) = canary::enclosed(block) else { return false };
                if new_size < size {
                    cut_off(parts, block, size, new_size);
                }
                let front = align.max(canary::FRONT);
                let raw = block.sub(front);
                let done =
                    Heap::of(raw.as_ptr()).resize_in_place(raw, front + new_size + canary::BEHIND);
                if done && new_size > size {
                    // The program gains what was a canary.
                    block.add(size).write_bytes(0, canary::BEHIND.min(new_size - size));
                }
                canary::enclose(block, if done { new_size } else { size }, align);
                done
            }
            Some(list) if list > 0 && list == new_list => {
                let class = sizes::class_size(list);
                resize_within_class(parts, block, states::of(block), size, new_size, class);
                true
            }
            _ => false,
        }
    }
}
