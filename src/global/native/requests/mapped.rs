//! Blocks in no heap: mappings, for large sizes and where no heap has room, and guarded blocks.

use core::ptr::{self, NonNull};

use super::{blocks, thread};
use crate::global::native::base::{mode, sizes};
use crate::global::native::guarded;
use crate::global::native::heaps::kept::Contents;
use crate::global::native::heaps::mapping::Lengthen;
use crate::global::native::heaps::{background, kept, mapping, relief};
use crate::global::native::lists::registry;
use crate::global::native::memory::huge::{self, HUGE};
use crate::global::native::memory::space::SPACE;
use crate::global::tuning::{SMALL_MAX, Tuning, UNIT};
use crate::os::KeepErrno;

/// Returns the least size that gets a mapping of its own, in bytes.
pub(in crate::global::native) fn mapping_from(tuning: &Tuning) -> usize {
    /// The least size if mappings are between guard pages. With a smaller one, programs that copy
    /// such blocks often would spend their time on mappings.
    const GUARDED: usize = 1 << 20;
    if mode::has_guards() { tuning.mapping_from.min(GUARDED) } else { tuning.mapping_from }
}

/// Allocates a mapping for a block, if its size calls for one.
pub(in crate::global::native) fn allocate(
    caller: thread::Caller,
    tuning: &Tuning,
    size: usize,
    align: usize,
) -> Option<NonNull<u8>> {
    let huge = tuning.huge_pages.advice();
    (size >= mapping_from(tuning))
        .then(|| allocate_beside_heaps(caller, size, align, huge))
        .flatten()
}

/// Allocates a mapping, beside the heaps.
fn allocate_beside_heaps(
    caller: thread::Caller,
    size: usize,
    align: usize,
    huge: Option<bool>,
) -> Option<NonNull<u8>> {
    let block = mapping::allocate(size, align, huge)?;
    give_back_for_mapping(caller, size);
    Some(block)
}

/// As [`allocate`], where the block may hold anything: prefers memory that is [kept], and
/// uses it also for sizes from a quarter of [`mapping_from`] on. A new mapping is advised to be of
/// huge pages if earlier ones were written densely.
pub(super) fn allocate_kept(
    caller: thread::Caller,
    tuning: &Tuning,
    size: usize,
    align: usize,
) -> Option<NonNull<u8>> {
    let lengthen = match tuning.huge_pages.is_adaptive() {
        true => Lengthen::Adaptively,
        false => Lengthen::Plainly,
    };
    if size < mapping_from(tuning) {
        if size < grown_mapping_from(tuning) || kept::bytes() <= size {
            return None;
        }
        let lengthen = if caller.heap.free() >= size { Lengthen::No } else { lengthen };
        return mapping::allocate_kept(size, align, tuning.purge_delay, lengthen);
    }
    let kept = mapping::allocate_kept(size, align, tuning.purge_delay, lengthen);
    kept.or_else(|| {
        let block = allocate_beside_heaps(caller, size, align, tuning.huge_pages.advice())?;
        advise_new_mapping(tuning, block, size, Contents::Anything);
        Some(block)
    })
}

/// As [`allocate`]. The block is zeros: kept memory that is cleared, if the program probably
/// writes all of it anyway, else a new mapping, which may get huge pages.
pub(super) fn allocate_zeroed(
    caller: thread::Caller,
    tuning: &Tuning,
    size: usize,
    align: usize,
) -> Option<NonNull<u8>> {
    let may_clear = size >= mapping_from(tuning) && tuning.huge_pages.is_adaptive();
    if may_clear && kept::expects_zeros_written(size) {
        let lengthen = if kept::bytes() > size { Lengthen::Adaptively } else { Lengthen::No };
        if let Some(block) = mapping::allocate_kept(size, align, tuning.purge_delay, lengthen) {
            // SAFETY: the block has `size` bytes, and is nobody else's.
            unsafe { block.write_bytes(0, size) };
            return Some(block);
        }
    }
    let block = allocate(caller, tuning, size, align)?;
    advise_new_mapping(tuning, block, size, Contents::Zeros);
    Some(block)
}

/// Advises huge pages for as much of a new mapping as will probably be written all over.
fn advise_new_mapping(tuning: &Tuning, block: NonNull<u8>, size: usize, contents: Contents) {
    if !tuning.huge_pages.is_adaptive() {
        return;
    }
    let advised = kept::decide_huge_pages(block.as_ptr(), size, contents);
    if advised > 0 {
        // SAFETY: it is a mapping in use.
        unsafe { mapping::advise_huge_pages(block.as_ptr(), advised) };
    }
}

/// Notes that `size` bytes were mapped beside the heaps: gives some of their free memory back,
/// unless that was in vain the last time.
fn give_back_for_mapping(caller: thread::Caller, size: usize) {
    let is_in_vain = caller.heap.with(|state| state.give_back_large(size)) == Some(false);
    if !is_in_vain && relief::give_back_for_growth(caller.heap, size) {
        let _ = caller.heap.with(|state| state.note_given_back_for(size));
    }
}

/// Allocates a mapping for a block that could be in a heap, where none has room for it; null if
/// there is no memory. The heaps may be busy, or other mappings are where they would grow: then
/// each small block takes an OS page.
pub(in crate::global::native) fn instead_of_heap(
    tuning: &Tuning,
    size: usize,
    align: usize,
) -> *mut u8 {
    let huge = tuning.huge_pages.advice();
    let block = mapping::allocate(size, align, huge).map_or(ptr::null_mut(), NonNull::as_ptr);
    if !block.is_null() && size <= SMALL_MAX && align <= UNIT {
        // The caller does not have the block yet.
        sizes::look_up_freed();
    }
    block
}

/// Returns the least size, in bytes, of the mapping of a large block that grew. No mapping is
/// resized to less.
fn grown_mapping_from(tuning: &Tuning) -> usize {
    mapping_from(tuning) / 4
}

/// Moves a large block that grows from a heap to a mapping, which can grow further without copying.
/// Returns `None`, and changes nothing, where a mapping is not better: above all if the block was
/// not written densely.
///
/// # Safety
/// As for [`reallocate`](super::paths::reallocate); the block could not be resized in place.
#[inline]
pub(super) unsafe fn move_to_mapping(
    asked: &Tuning,
    block: *mut u8,
    size: usize,
    align: usize,
    new_size: usize,
) -> Option<NonNull<u8>> {
    if size < HUGE || new_size <= size {
        return None;
    }
    // SAFETY: the callee has the same contract.
    unsafe { move_large_to_mapping(asked, block, size, align, new_size) }
}

/// As [`move_to_mapping`], for sizes that may be mappings.
///
/// # Safety
/// As for [`move_to_mapping`].
#[cold]
#[inline(never)]
unsafe fn move_large_to_mapping(
    asked: &Tuning,
    block: *mut u8,
    size: usize,
    align: usize,
    new_size: usize,
) -> Option<NonNull<u8>> {
    let tuning = registry::tuning(asked);
    let fits = new_size >= grown_mapping_from(tuning) && new_size < mapping_from(tuning);
    if !fits || !tuning.huge_pages.is_adaptive() || !SPACE.contains(block) {
        return None;
    }
    let _errno = KeepErrno::new();
    if !huge::is_dense(block, size) {
        return None;
    }
    let caller = thread::caller(tuning)?;
    let kept = mapping::allocate_kept(new_size, align, tuning.purge_delay, Lengthen::InOnePiece);
    let moved = kept.or_else(|| mapping::allocate(new_size, align, None))?;
    if kept.is_none() {
        give_back_for_mapping(caller, new_size);
    }
    // SAFETY: both blocks are in use, hence disjoint, and at least this long; the old one is large,
    // and not used afterwards.
    unsafe {
        mapping::advise_huge_pages(moved.as_ptr(), new_size);
        moved.as_ptr().copy_from_nonoverlapping(block, size);
        blocks::free_tagged(NonNull::new_unchecked(block));
    }
    Some(moved)
}

/// Advises huge pages for a mapping that a growing block is about to be copied to, if the old block
/// was written densely.
///
/// # Safety
/// Both blocks are in use, the old one with `len` bytes; `moved` is longer than [`HUGE`].
#[cold]
pub(super) unsafe fn advise_if_dense(asked: &Tuning, old: *mut u8, len: usize, moved: *mut u8) {
    let is_adaptive = registry::tuning(asked).huge_pages.is_adaptive();
    if is_adaptive && !SPACE.contains(moved) && huge::is_dense(old, len) {
        // SAFETY: a guarded block is shorter, so this block in no slot is a mapping.
        unsafe { mapping::advise_huge_pages(moved, usize::MAX) };
    }
}

/// Returns the bytes of a block that is in no heap.
///
/// # Safety
/// It is a mapping in use, or a guarded block.
pub(in crate::global::native) unsafe fn len(block: *mut u8) -> usize {
    // SAFETY: the block is guarded, or else a mapping in use.
    unsafe { if guarded::contains(block) { guarded::len(block) } else { mapping::len_of(block) } }
}

/// Returns whether `size` is the requested size of a block that is in no heap.
///
/// # Safety
/// As for [`len`].
pub(in crate::global::native) unsafe fn has_len(block: *mut u8, size: usize) -> bool {
    // SAFETY: the block is guarded, or else a mapping in use.
    unsafe {
        if guarded::contains(block) {
            guarded::len(block) == size
        } else {
            mapping::requested(block) == size
        }
    }
}

/// Frees a block that is in no heap.
///
/// # Safety
/// As for [`free`](super::paths::free); the block is in no slot.
pub(in crate::global::native) unsafe fn free(asked: &Tuning, block: *mut u8) {
    // SAFETY: the block is guarded, or else a mapping; the caller guarantees that it is in use, and
    // does not use it afterwards.
    unsafe {
        if guarded::contains(block) {
            return guarded::free(block);
        }
        if mapping::deallocate(block, registry::purge_delay()) {
            background::note_due();
        }
    }
    if let Some(caller) = thread::caller(asked) {
        caller.heap.trim(thread::flush_lists);
    }
    thread::start_background();
}

/// Resizes a block that is in no heap, if it is a mapping, without copying.
///
/// # Safety
/// As for [`reallocate`](super::paths::reallocate); the block is in no slot.
pub(in crate::global::native) unsafe fn resize(
    asked: &Tuning,
    block: *mut u8,
    align: usize,
    new_size: usize,
) -> Option<NonNull<u8>> {
    let tuning = registry::tuning(asked);
    if guarded::contains(block) || new_size < grown_mapping_from(tuning) {
        return None;
    }
    // SAFETY: the block is not guarded, so it is a mapping, which the caller guarantees is in use.
    let (len, resized) = unsafe {
        let len = mapping::len_of(block);
        (len, mapping::resize(block, align, new_size, tuning.huge_pages.is_adaptive())?)
    };
    let from = mapping_from(tuning);
    if len < from && new_size >= from {
        // As if it had been mapped for its size.
        if let Some(caller) = thread::caller(tuning) {
            give_back_for_mapping(caller, new_size);
        }
    }
    Some(resized)
}

/// Records that a block that is in no heap has fewer bytes, and keeps its memory.
///
/// # Safety
/// The block is in use, its bytes from `new_size` on are not, and it has more.
pub(in crate::global::native) unsafe fn shorten(block: *mut u8, new_size: usize) {
    // SAFETY: the block is guarded, or else a mapping in use.
    unsafe {
        match guarded::contains(block) {
            true => guarded::shorten(block, new_size),
            false => mapping::shorten(block, new_size),
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::global::Pagewise;
    #[cfg(target_os = "linux")]
    use crate::global::native::memory::zero::is_zero;
    use crate::os::alone;

    const PAGEWISE: Pagewise = Pagewise::new();

    /// A block that is a mapping stays one down to a quarter of the least size of mappings.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn a_mapping_stays_one_down_to_a_quarter() {
        let tuning = PAGEWISE.tuning;
        let from = mapping_from(&tuning);
        let block = PAGEWISE.allocate(from);
        // SAFETY: the block is in use, and replaced by the one returned, which is freed once.
        unsafe {
            assert!(!block.is_null() && !SPACE.contains(block));
            let quarter = PAGEWISE.reallocate(block, from / 4);
            assert!(!quarter.is_null() && !SPACE.contains(quarter));
            let less = PAGEWISE.reallocate(quarter, from / 8);
            assert!(SPACE.contains(less));
            PAGEWISE.free(less);
        }
    }

    /// A block is a mapping from the configured size on, to the byte.
    #[test]
    fn blocks_are_mappings_from_a_size_on() {
        alone::passes("global::native::requests::mapped::tests::from_size");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn from_size() {
        const FROM: usize = 3 << 20;
        registry::tuning(&Tuning::new().mapping_from(FROM));
        for (size, mappings) in [(FROM - 1, 0), (FROM, 1), (FROM + 1, 1), (FROM / 2, 0)] {
            let blocks = [PAGEWISE.allocate(size), PAGEWISE.allocate_zeroed(size)];
            assert_eq!(mapping::usage().count, 2 * mappings, "{size}");
            // SAFETY: the blocks are freed once.
            blocks.into_iter().for_each(|block| unsafe { PAGEWISE.free(block) });
            assert_eq!(mapping::usage().count, 0);
        }
    }

    /// A block of a quarter of the least size of mappings, or more, takes a part of kept memory.
    /// (Windows keeps no mappings.)
    #[cfg(all(unix, target_pointer_width = "64"))]
    #[test]
    fn a_block_in_kept_memory_may_be_smaller() {
        alone::passes("global::native::requests::mapped::tests::part");
    }

    #[cfg(all(unix, target_pointer_width = "64"))]
    #[test]
    #[ignore = "in a process of its own"]
    fn part() {
        const FROM: usize = 16 << 20;
        registry::tuning(&Tuning::new().mapping_from(FROM));
        let in_heap = |size| {
            let block = PAGEWISE.allocate(size);
            let found = SPACE.contains(block);
            // SAFETY: the block is freed once.
            unsafe { PAGEWISE.free(block) };
            found
        };
        assert!(in_heap(FROM / 2), "nothing is kept");
        (0..4).for_each(|_| assert!(!in_heap(2 * FROM)));
        assert!(kept::bytes() >= 2 * FROM);
        assert!(!in_heap(FROM / 2) && !in_heap(FROM / 4));
        assert!(in_heap(FROM / 8));
    }

    /// Zeroed blocks use kept memory once the program has written all of the last ones, and only
    /// then; they are zeros either way. (Windows keeps no mappings.)
    #[cfg(target_os = "linux")]
    #[cfg_attr(pagewise_portable_os, ignore = "no mappings are kept there")]
    #[test]
    fn kept_memory_is_cleared_for_what_is_written() {
        alone::passes("global::native::requests::mapped::tests::cleared");
    }

    #[cfg(target_os = "linux")]
    #[test]
    #[ignore = "in a process of its own"]
    fn cleared() {
        const ROUNDS: usize = 40;
        let size = 6 << 20;
        registry::tuning(&Tuning::new().mapping_from(4 << 20));
        let rounds_with_kept = |written: usize| {
            let uses_kept = |_: &usize| {
                let block = NonNull::new(PAGEWISE.allocate_zeroed(size)).expect("there is memory");
                let uses_kept = crate::os::is_resident(block.as_ptr().wrapping_add(size / 2));
                // SAFETY: the block has as many bytes, and is freed once.
                unsafe {
                    // To read a page is to touch it.
                    assert!(is_zero(block, written));
                    block.write_bytes(1, written);
                    PAGEWISE.free(block.as_ptr());
                }
                uses_kept
            };
            (0..ROUNDS).filter(uses_kept).count()
        };
        assert_eq!(rounds_with_kept(16), 0, "nothing says that they will be written");
        // New ones at first, and one in sixteen as a sample.
        let used = rounds_with_kept(size);
        assert!((ROUNDS - 8..ROUNDS).contains(&used), "{used}");
        let used = rounds_with_kept(16);
        assert!(used <= 16, "{used}: the next sample says that they are not");
    }
}
