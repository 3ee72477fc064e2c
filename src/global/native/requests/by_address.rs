//! Measures and resizes blocks whose size the caller does not know, as in C.
//!
//! The size of a small block is one load once its list is known: it is in the head of the calling
//! thread's list. Where that records no size (the block is not small, the thread has no lists,
//! hardened mode) the slow path finds it.

use core::ptr::NonNull;

use super::{mapped, paths};
use crate::global::native::base::{mode, sizes};
use crate::global::native::hardened;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::lists::{current, medium, quick};
use crate::global::native::memory::huge::HUGE;
use crate::global::native::memory::space::SPACE;
use crate::global::tuning::{SMALL_MAX, Tuning, UNIT};
use crate::os::KeepErrno;

/// Returns a small block's list and the size of its blocks; `None` if the thread's lists do not
/// record it.
#[inline(always)]
fn listed(block: *mut u8) -> Option<(u32, usize)> {
    let list = SPACE.list_of(block)?;
    let size = quick::block_size(current::lists(), list);
    (size > 0).then_some((list, size))
}

/// Returns the bytes of a block; 0 for null.
///
/// # Safety
/// The block is null, or in use.
#[inline]
pub(super) unsafe fn usable_size(block: *mut u8) -> usize {
    match listed(block) {
        Some((_, size)) => size,
        // SAFETY: the callee has the same contract.
        None => unsafe { usable_size_slowly(block) },
    }
}

/// As [`usable_size`], where the thread's lists do not record the size.
///
/// # Safety
/// As for [`usable_size`].
#[cold]
#[inline(never)]
unsafe fn usable_size_slowly(block: *mut u8) -> usize {
    let Some(address) = NonNull::new(block) else { return 0 };
    // SAFETY: the callees have the same contract.
    unsafe {
        match mode::is_hardened() {
            true => hardened::resize::usable_size(block),
            false => usual_size(address),
        }
    }
}

/// As [`usable_size`], in the default mode, without the thread's lists.
///
/// # Safety
/// The block is in use.
#[inline(always)]
unsafe fn usual_size(block: NonNull<u8>) -> usize {
    match SPACE.list_of(block.as_ptr()) {
        // SAFETY: a block in use outside of all slots is a mapping or a guarded block.
        None => unsafe { mapped::len(block.as_ptr()) },
        // SAFETY: the caller guarantees that the block is in use, so no other thread resizes it.
        Some(0) => match unsafe { medium::size_of_block(block) } {
            Some(size) => medium::usable(size),
            None => {
                // To wait for the heap may change it, which a program does not expect here.
                let _errno = KeepErrno::new();
                // SAFETY: the block is in use, in this heap, and not small.
                unsafe { Heap::of(block.as_ptr()).len_of(block) }
            }
        },
        Some(list) => sizes::class_size(list),
    }
}

/// Returns whether a block of `size` bytes stays in place for a request of `new_size`: at most a
/// quarter of it is unused.
#[inline(always)]
fn stays(block: *mut u8, size: usize, new_size: usize) -> bool {
    new_size <= size && new_size >= size - size / 4 && is_aligned(block)
}

/// Returns whether a block is aligned to [`UNIT`], as callers without a layout expect of the block
/// that they get. One that was allocated with a layout may not be.
#[inline(always)]
fn is_aligned(block: *mut u8) -> bool {
    block.addr().is_multiple_of(UNIT)
}

/// Returns the size to resize a block of `size` bytes to, which is not small or does not stay so,
/// for a request of `new_size`. A block that `gets_room` grows by a quarter at least, so that
/// growing by a little does not copy it each time. Smaller blocks get no more room than their class
/// has, since they write most of it. Nor do those above [`HUGE`], since unwritten room would make
/// them look sparse when they are [checked](crate::global::native::memory::huge::is_dense).
fn with_room(size: usize, new_size: usize, gets_room: bool) -> usize {
    /// The least size that gets room, in bytes.
    const LEAST: usize = 32 << 10;
    let grows = gets_room && (LEAST..HUGE).contains(&size) && new_size > size;
    if grows { new_size.max(size + size / 4) } else { new_size }
}

/// Resizes a block; null, and nothing changed, if there is no memory. The block returned is aligned
/// to [`UNIT`]; if that before was, shrinking does not fail.
///
/// # Safety
/// The block is in use; if another is returned, only that is used from then on.
#[inline(always)]
pub(super) unsafe fn reallocate(asked: &Tuning, block: *mut u8, new_size: usize) -> *mut u8 {
    // SAFETY: the callees have the same contract; the block is of this list, and its class has
    // `size` bytes.
    unsafe {
        match listed(block) {
            Some((_, size)) if stays(block, size, new_size) => block,
            Some((list, size)) => reallocate_small(asked, block, list, size, new_size),
            None => reallocate_slowly(asked, block, new_size),
        }
    }
}

/// As [`reallocate`], where the class may change. A separate function, so that a block that stays
/// in place costs no saved registers.
///
/// # Safety
/// As for [`reallocate`]; the block is of this list, whose blocks have `size` bytes.
#[inline(never)]
unsafe fn reallocate_small(
    asked: &Tuning,
    block: *mut u8,
    list: u32,
    size: usize,
    new_size: usize,
) -> *mut u8 {
    if new_size > SMALL_MAX {
        // SAFETY: the callee has the same contract.
        return unsafe { reallocate_slowly(asked, block, new_size) };
    }
    if sizes::offset(new_size) == list {
        return block;
    }
    // SAFETY: the block is in use, of this list, and has `size` bytes; the caller uses only the one
    // returned.
    unsafe {
        let free = || paths::free_listed(asked, block, list);
        let moved = paths::relocate(asked, block, size, UNIT, new_size, free);
        or_stays(block, size, moved, new_size)
    }
}

/// As [`reallocate`], where the thread's lists do not record the size, or the block becomes larger
/// than a small one.
///
/// # Safety
/// As for [`reallocate`].
#[cold]
#[inline(never)]
unsafe fn reallocate_slowly(asked: &Tuning, block: *mut u8, new_size: usize) -> *mut u8 {
    // SAFETY: the callees have the same contract, and a block in use is not null; hardened mode
    // takes the size from the block, not from the argument.
    unsafe {
        match mode::is_hardened() {
            true => paths::reallocate_unusually(mode::parts(), asked, block, 0, UNIT, new_size),
            false => {
                let size = usual_size(NonNull::new_unchecked(block));
                if stays(block, size, new_size) {
                    return block;
                }
                reallocate_usual(asked, block, size, new_size)
            }
        }
    }
}

/// As [`reallocate_slowly`], in the default mode, of a block of `size` bytes that does not stay as
/// it is.
///
/// # Safety
/// As for [`reallocate`].
#[inline(never)]
unsafe fn reallocate_usual(
    asked: &Tuning,
    block: *mut u8,
    size: usize,
    new_size: usize,
) -> *mut u8 {
    // SAFETY: the caller guarantees that the block is in use; all of it counts as contents.
    unsafe {
        // A profile records the size that was requested. Mappings move without copying.
        let gets_room = SPACE.contains(block) && !mode::is_profiled();
        let roomy = with_room(size, new_size, gets_room);
        let mut moved = paths::reallocate(asked, block, size, UNIT, roomy);
        if moved.is_null() && roomy > new_size {
            moved = paths::reallocate(asked, block, size, UNIT, new_size);
        }
        or_stays(block, size, moved, new_size)
    }
}

/// Returns the block that was moved; if there was no memory to move it, `block` itself if it
/// shrinks, and is aligned to [`UNIT`]: it stays valid, since it is freed by its address.
#[inline(always)]
fn or_stays(block: *mut u8, size: usize, moved: *mut u8, new_size: usize) -> *mut u8 {
    if moved.is_null() && new_size <= size && is_aligned(block) { block } else { moved }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::global::Pagewise;

    const PAGEWISE: Pagewise = Pagewise::new();

    /// Blocks that grow by a little, side by side, are moved and copied only a few times.
    #[cfg(not(miri))]
    #[test]
    fn a_block_that_grows_by_a_little_has_room() {
        let mut moves = 0;
        let mut blocks = [(); 8].map(|()| PAGEWISE.allocate(130 << 10));
        for step in 1..=1000 {
            for block in &mut blocks {
                // SAFETY: the block is in use, and replaced by the one returned.
                unsafe {
                    let grown = PAGEWISE.reallocate(*block, (130 << 10) + step * 1000);
                    assert!(!grown.is_null() && PAGEWISE.usable_size(grown) >= step * 1000);
                    moves += usize::from(grown != *block);
                    *block = grown;
                }
            }
        }
        // SAFETY: each block is freed once.
        blocks.into_iter().for_each(|block| unsafe { PAGEWISE.free(block) });
        // A block that grows by a quarter at a time grows ninefold in 10 steps.
        assert!(moves <= 8 * 11, "{moves} moves");
    }

    #[test]
    fn room_is_for_blocks_that_grow_in_heaps() {
        const KIB: usize = 1 << 10;
        assert_eq!(with_room(256 * KIB, 257 * KIB, true), 320 * KIB);
        assert_eq!(with_room(32 * KIB, 33 * KIB, true), 40 * KIB);
        for (size, new_size, gets_room) in [
            (256, usize::MAX / KIB, true),
            (256, 320, true),
            (256, 256, true),
            (256, 100, true),
            (256, 257, false),
            (31, 32, true),
            (2048, 2049, true),
        ] {
            assert_eq!(with_room(size * KIB, new_size * KIB, gets_room), new_size * KIB);
        }
    }

    /// A block that cannot be moved stays if it shrinks; one that was moved is at its new place.
    #[test]
    fn a_block_that_cannot_be_moved_stays_if_it_shrinks() {
        let [block, moved] = [16, 32].map(core::ptr::without_provenance_mut::<u8>);
        let null = core::ptr::null_mut();
        for (new_size, stays) in [(0, block), (95, block), (96, block), (97, null), (200, null)] {
            assert_eq!(or_stays(block, 96, null, new_size), stays, "{new_size}");
            assert_eq!(or_stays(block, 96, moved, new_size), moved, "{new_size}");
            let misaligned = block.wrapping_add(8);
            assert_eq!(or_stays(misaligned, 96, null, new_size), null, "{new_size}");
        }
    }

    /// A block stays in place for sizes from three quarters of it, rounded up, to all of it.
    #[test]
    fn a_block_stays_if_little_of_it_is_left_over() {
        let [aligned, misaligned] = [16, 24].map(core::ptr::without_provenance_mut::<u8>);
        for size in (1..200).map(|units| 16 * units) {
            let stay: Vec<usize> =
                (0..=size + 16).filter(|&new| stays(aligned, size, new)).collect();
            assert_eq!(stay, (size - size / 4..=size).collect::<Vec<_>>());
            assert!((0..=size).all(|new| !stays(misaligned, size, new)));
        }
    }

    /// For blocks of every class, and some larger ones, the calling thread's lists and the slow
    /// path agree on the size, and a resized block is as long as requested.
    #[test]
    fn a_block_is_as_long_by_the_lists_as_by_the_table() {
        for size in (0..=SMALL_MAX + 4 * UNIT).step_by(7) {
            // SAFETY: the block is in use until it is freed, once.
            unsafe {
                let block = PAGEWISE.allocate(size);
                let len = PAGEWISE.usable_size(block);
                assert!(len >= size, "{size}");
                assert_eq!(len, usable_size_slowly(block), "{size}");
                assert_eq!(listed(block).is_some(), SPACE.list_of(block) != Some(0), "{size}");
                let resized = PAGEWISE.reallocate(block, len + 1);
                assert!(PAGEWISE.usable_size(resized) > len, "{size}");
                PAGEWISE.free(resized);
            }
        }
    }

    /// Measuring a block leaves errno alone, also if its heap is busy. (Regression: it was EAGAIN
    /// afterwards.)
    #[cfg(all(target_os = "linux", not(miri), target_pointer_width = "64"))]
    #[test]
    fn a_block_of_a_busy_heap_is_measured_without_a_change_of_errno() {
        use std::time::Duration;
        let thread = std::thread::spawn(|| {
            let block = PAGEWISE.allocate(1_500_000);
            assert_eq!(SPACE.list_of(block), Some(0));
            let (locked, is_locked) = std::sync::mpsc::channel();
            let heap = Heap::of(block);
            let holder = std::thread::spawn(move || {
                // While another test forks, the lock is not waited for.
                while heap
                    .with(|_| {
                        locked.send(()).expect("the test waits");
                        std::thread::sleep(Duration::from_millis(50));
                    })
                    .is_none()
                {}
            });
            is_locked.recv().expect("the heap is locked");
            // SAFETY: the location is this thread's own; the block is in use, and freed once.
            unsafe {
                *crate::os::errno_location() = 77;
                let len = PAGEWISE.usable_size(block);
                assert!(len >= 1_500_000 && *crate::os::errno_location() == 77);
                holder.join().expect("it ends");
                PAGEWISE.free(block);
            }
        });
        thread.join().expect("it ends");
    }

    /// A small size whose alignment no page of small blocks has gets a longer block.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn a_small_block_with_a_large_alignment_is_not_small() {
        for align in [64 << 10, 1 << 20] {
            let block = PAGEWISE.allocate_aligned(100, align);
            // SAFETY: the block is in use until it is freed, once.
            unsafe {
                assert!(block.addr().is_multiple_of(align) && SPACE.list_of(block) == Some(0));
                let longer = PAGEWISE.tuning.pages.ffcrossover + 1;
                assert!(PAGEWISE.usable_size(block) >= longer, "{align}");
                PAGEWISE.free(block);
            }
        }
    }

    /// A thread that has no lists yet measures and resizes blocks of another thread.
    #[test]
    fn a_thread_without_lists_measures_and_resizes() {
        for size in [1, 100, 5_000, SMALL_MAX + 1] {
            let block = PAGEWISE.allocate(size);
            // SAFETY: the block is in use.
            let len = unsafe { PAGEWISE.usable_size(block) };
            let address = block.expose_provenance();
            let measured = std::thread::spawn(move || {
                let block = core::ptr::with_exposed_provenance_mut(address);
                // SAFETY: the block is in use until it is freed, once.
                unsafe {
                    assert!(quick::is_none(current::lists()));
                    let measured = PAGEWISE.usable_size(block);
                    assert_eq!(PAGEWISE.reallocate(block, measured), block);
                    assert!(quick::is_none(current::lists()));
                    PAGEWISE.free(PAGEWISE.reallocate(block, 2 * measured));
                    measured
                }
            });
            assert_eq!(measured.join().expect("it ends"), len);
        }
    }
}
