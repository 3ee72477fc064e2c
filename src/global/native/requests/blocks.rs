//! Blocks from heaps and mappings, and back: the slow half of every path, where no list serves, in
//! the usual mode and in [hardened mode](crate::global::native::hardened).

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use super::thread;
use crate::global::native::base::lock::Wait;
use crate::global::native::base::{mode, sizes, sync};
use crate::global::native::guarded;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::heaps::kept::Contents;
use crate::global::native::heaps::mapping::Lengthen;
use crate::global::native::heaps::{background, kept, mapping, pool, relief};
use crate::global::native::lists::quick::{self, Lists};
use crate::global::native::lists::{idle, registry};
use crate::global::native::memory::huge::{self, HUGE};
use crate::global::native::memory::purge::LARGE;
use crate::global::native::memory::space::SPACE;
use crate::global::native::process::fork;
use crate::global::tuning::{SMALL_MAX, Tuning, UNIT};
use crate::os::KeepErrno;

/// Returns the quick list for a request; 0 if it is not small.
pub(in crate::global::native) fn list_for(tuning: &Tuning, size: usize, align: usize) -> u32 {
    match size {
        0..=SMALL_MAX => sizes::offset_aligned(size, align, tuning.pages.page_size),
        _ => 0,
    }
}

/// Returns the least size that gets a mapping of its own, in bytes.
pub(in crate::global::native) fn mapping_from(tuning: &Tuning) -> usize {
    /// The least size if mappings are between guard pages. With a smaller one, programs that copy
    /// such blocks often would spend their time on mappings.
    const GUARDED: usize = 1 << 20;
    if mode::has_guards() { tuning.mapping_from.min(GUARDED) } else { tuning.mapping_from }
}

/// Allocates a mapping for a block, if its size calls for one.
pub(in crate::global::native) fn allocate_large(
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

/// As [`allocate_large`], where the block may hold anything: prefers memory that is [kept], and
/// uses it also for sizes from a quarter of [`mapping_from`] on. A new mapping is advised to be of
/// huge pages if earlier ones were written densely.
pub(super) fn allocate_large_kept(
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

/// As [`allocate_large`]. The block is zeros: kept memory that is cleared, if the program probably
/// writes all of it anyway, else a new mapping, which may get huge pages.
pub(super) fn allocate_large_zeroed(
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
    let block = allocate_large(caller, tuning, size, align)?;
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
pub(in crate::global::native) fn allocate_mapped(
    tuning: &Tuning,
    size: usize,
    align: usize,
) -> *mut u8 {
    let huge = tuning.huge_pages.advice();
    let block = mapping::allocate(size, align, huge).map_or(ptr::null_mut(), NonNull::as_ptr);
    if !block.is_null() && size <= SMALL_MAX && align <= UNIT && !mode::is_hardened() {
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
    let caller = thread::enter(tuning)?;
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
        free_medium(NonNull::new_unchecked(block));
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
        // SAFETY: so long a block outside of all slots is a mapping.
        unsafe { mapping::advise_huge_pages(moved, usize::MAX) };
    }
}

/// Allocates a small block; refills the thread's list if it is empty.
pub(in crate::global::native) fn allocate_small(
    caller: thread::Caller,
    list: u32,
) -> Option<NonNull<u8>> {
    // SAFETY: `lists` are this thread's; the offset is from the tables.
    let is_open = |lists: &NonNull<Lists>| unsafe { !quick::is_shut(lists.as_ptr(), list) };
    let Some(lists) = caller.lists.filter(is_open) else {
        let mut block = [MaybeUninit::uninit()];
        let class = sizes::class(list);
        from_any(caller, |heap| {
            (heap.take(Wait::Always, class, list, &mut block) == 1).then_some(())
        })?;
        // SAFETY: one block was taken.
        return Some(unsafe { block[0].assume_init() });
    };
    let lists = lists.as_ptr();
    // SAFETY: `lists` are this thread's; the offset is from the tables.
    unsafe {
        quick::let_one_pass(lists);
        if let Some(block) = quick::pop(lists, list) {
            return Some(block);
        }
        let _ = fill(caller, lists, list);
        quick::let_one_pass(lists);
        quick::pop(lists, list)
    }
}

/// Fills a list of the caller's that has few blocks. `None` if there is no memory.
///
/// # Safety
/// As for [`quick::pop`].
pub(in crate::global::native) unsafe fn fill(
    caller: thread::Caller,
    lists: *mut Lists,
    list: u32,
) -> Option<()> {
    // SAFETY: `lists` are this thread's, and have a heap. That may differ from `caller.heap` by
    // now: the thread may have moved to another NUMA node.
    let caller = thread::Caller { heap: unsafe { (*lists).heap() }, ..caller };
    let fill = |heap: &'static Heap, wait| {
        // SAFETY: the caller guarantees the contract of `refill`; lists are never freed.
        unsafe { quick::refill(lists, list, heap, wait).then(|| registry::move_to(&*lists, heap)) }
    };
    fill(caller.heap, Wait::Never).or_else(|| fill_elsewhere(caller, fill))
}

/// Fills a list whose heap is busy or has no memory.
#[cold]
fn fill_elsewhere(
    caller: thread::Caller,
    fill: impl Fn(&'static Heap, Wait) -> Option<()>,
) -> Option<()> {
    let other = pool::alternative_to(caller.heap);
    other
        .and_then(|other| fill(other, Wait::Never))
        .or_else(|| from_any(caller, |heap| fill(heap, Wait::Always)))
}

/// Allocates a block that is neither small nor a mapping.
pub(in crate::global::native) fn allocate_medium(
    caller: thread::Caller,
    layout: Layout,
) -> Option<NonNull<u8>> {
    from_any(caller, |heap| heap.with_relief(|state| state.allocate(layout)).flatten())
}

/// Returns what `take` gets from the caller's heap; if that is exhausted, or its lock cannot be
/// waited for, from another heap or a new one.
#[inline]
pub(super) fn from_any<R>(
    caller: thread::Caller,
    mut take: impl FnMut(&'static Heap) -> Option<R>,
) -> Option<R> {
    take(caller.heap).or_else(|| from_others(caller.heap, take))
}

#[cold]
fn from_others<R>(
    refused: &'static Heap,
    mut take: impl FnMut(&'static Heap) -> Option<R>,
) -> Option<R> {
    let mut others = pool::all().filter(|heap| !ptr::eq(*heap, refused));
    if let Some(taken) = others.find_map(&mut take) {
        return Some(taken);
    }
    // Memory kept on medium lists is reused before another heap is opened.
    if idle::put_back_all()
        && let Some(taken) = pool::all().find_map(&mut take)
    {
        return Some(taken);
    }
    if let Some(taken) = registry::open_another().and_then(&mut take) {
        return Some(taken);
    }
    // All locks may have been held for a fork, which waits for those that this thread holds.
    if !sync::holds_a_lock(sync::token()) && fork::wait_for_end() { take(refused) } else { None }
}

/// Returns a guarded block, if the caller's next one is to be guarded, and does the other periodic
/// work that is due. `list` is the list that the block would be popped from, or 0.
pub(in crate::global::native) fn allocate_guarded_if_due(
    caller: thread::Caller,
    size: usize,
    align: usize,
    list: u32,
) -> Option<NonNull<u8>> {
    let is_popped = list > 0;
    // SAFETY: `lists` are the caller's, and never freed.
    let lists = unsafe { caller.lists?.as_ref() };
    if !lists.do_periodic_work(is_popped, registry::follow_node) {
        return None;
    }
    let block = guarded::allocate(size, align)?;
    if is_popped && mode::is_profiled() {
        // Sampling counts the block, though it is not popped.
        lists.countdown.count_pop();
    }
    Some(block)
}

/// Returns the bytes of a block that is in no heap.
///
/// # Safety
/// It is a mapping in use, or a guarded block.
pub(in crate::global::native) unsafe fn len_outside(block: *mut u8) -> usize {
    // SAFETY: the block is guarded, or else a mapping in use.
    unsafe {
        if guarded::contains(block) { guarded::len_bound(block) } else { mapping::len_of(block) }
    }
}

/// Checks whether `size` is the requested size of a block that is in no heap; `true` if that is
/// unknown.
///
/// # Safety
/// As for [`len_outside`].
pub(in crate::global::native) unsafe fn has_len(block: *mut u8, size: usize) -> bool {
    // SAFETY: the block is guarded, or else a mapping in use.
    unsafe {
        if guarded::contains(block) {
            guarded::known_len(block).is_none_or(|len| len == size)
        } else {
            mapping::requested(block) == size
        }
    }
}

/// Frees a block that is in no heap.
///
/// # Safety
/// As for [`free`](super::paths::free); the block is in no slot.
pub(in crate::global::native) unsafe fn free_outside(asked: &Tuning, block: *mut u8) {
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
    if let Some(caller) = thread::enter(asked) {
        caller.heap.trim(thread::flush_lists);
    }
    background::start();
}

/// Frees a block that is neither small nor a mapping.
///
/// # Safety
/// As for [`free`](super::paths::free); the block is in a slot, and is not small.
pub(in crate::global::native) unsafe fn free_medium(block: NonNull<u8>) {
    // SAFETY: the caller guarantees that the block is in use, and does not use it afterwards.
    unsafe {
        let heap = Heap::of(block.as_ptr());
        if heap.deallocate(block) >= LARGE {
            heap.trim(thread::flush_lists);
        }
    }
    background::start();
}

/// Resizes a block that is in no heap, if it is a mapping, without copying.
///
/// # Safety
/// As for [`reallocate`](super::paths::reallocate); the block is in no slot.
pub(in crate::global::native) unsafe fn resize_outside(
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
        if let Some(caller) = thread::enter(tuning) {
            give_back_for_mapping(caller, new_size);
        }
    }
    Some(resized)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::global::Pagewise;
    use crate::global::native::lists::current;
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

    /// A small block comes from a list whether or not periodic work is due. The list once was
    /// filled beyond its end, or the request failed.
    #[test]
    fn a_small_block_is_allocated_whatever_is_due() {
        let work = || {
            let caller = thread::enter(&PAGEWISE.tuning).expect("there are heaps");
            let lists = caller.lists.expect("there is memory").as_ptr();
            let list = sizes::offset(100);
            // SAFETY: the lists are this thread's, the offset is from the tables, and each block is
            // freed once.
            unsafe {
                let blocks = [(); 40].map(|()| PAGEWISE.allocate(100));
                blocks.into_iter().for_each(|block| PAGEWISE.free(block));
                let kept = quick::kept(lists, list).0;
                assert!(kept >= 20, "{kept}");
                let blocks: Vec<_> = (0..kept + 1)
                    .map(|taken| {
                        while (*lists).countdown.count_pop() {}
                        let block = allocate_small(caller, list).expect("there is memory");
                        let is_filled = taken == kept;
                        assert!(is_filled || quick::kept(lists, list).0 == kept - taken - 1);
                        block
                    })
                    .collect();
                blocks.into_iter().for_each(|block| PAGEWISE.free(block.as_ptr()));
            }
        };
        std::thread::spawn(work).join().expect("it ends");
    }

    /// Checks whether a thread goes to another heap for its blocks, and stays there, while a test
    /// holds its heap's lock.
    fn hops() -> bool {
        let heap = registry::heap_for_test();
        let (answer, answered) = mpsc::channel();
        let hopped = heap.with(|_| {
            let thread = std::thread::spawn(move || {
                registry::heap_for_test();
                // SAFETY: the thread has lists by now, which are its own.
                let lists = unsafe { &*current::lists() };
                registry::move_to(lists, heap);
                let block = PAGEWISE.allocate(3_000);
                let moved = !ptr::eq(lists.heap(), heap) && !ptr::eq(Heap::of(block), heap);
                let _ = answer.send(moved);
                // SAFETY: the block is in use, and freed once.
                unsafe { PAGEWISE.free(block) };
            });
            (answered.recv_timeout(Duration::from_secs(2)).unwrap_or(false), thread)
        });
        // The lock cannot be taken while another test forks.
        hopped.is_some_and(|(hopped, thread)| {
            thread.join().expect("it ends");
            hopped
        })
    }

    /// A block is a mapping from the configured size on, to the byte.
    #[test]
    fn blocks_are_mappings_from_a_size_on() {
        alone::passes("global::native::requests::blocks::tests::from_size");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn from_size() {
        const FROM: usize = 3 << 20;
        registry::tuning(&Tuning::new().mapping_from(FROM));
        for (size, mappings) in [(FROM - 1, 0), (FROM, 1), (FROM + 1, 1), (FROM / 2, 0)] {
            let blocks = [PAGEWISE.allocate(size), PAGEWISE.allocate_zeroed(size)];
            assert_eq!(mapping::usage().0, 2 * mappings, "{size}");
            // SAFETY: the blocks are freed once.
            blocks.into_iter().for_each(|block| unsafe { PAGEWISE.free(block) });
            assert_eq!(mapping::usage().0, 0);
        }
    }

    /// A block of a quarter of the least size of mappings, or more, takes a part of kept memory.
    /// (Windows keeps no mappings.)
    #[cfg(all(unix, target_pointer_width = "64"))]
    #[test]
    fn a_block_in_kept_memory_may_be_smaller() {
        alone::passes("global::native::requests::blocks::tests::part");
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
        alone::passes("global::native::requests::blocks::tests::cleared");
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

    /// What its own heap refuses a thread, any other may give it.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn other_heaps_are_asked() {
        let other = registry::heap_for_test();
        let caller = thread::enter(&Tuning::new()).expect("there are heaps");
        let mut asked = 0;
        let found = from_any(caller, |heap| {
            asked += 1;
            ptr::eq(heap, other).then_some(heap)
        });
        assert!(found.is_some_and(|heap| ptr::eq(heap, other)));
        assert!(!ptr::eq(caller.heap, other) && asked >= 2);
    }

    /// Trials begin behind the current block: one that is about to be popped counts as a pop but as
    /// no trial, and any other counts as neither.
    #[test]
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    fn trials_begin_behind_the_block_at_hand() {
        alone::passes("global::native::requests::blocks::tests::trials");
    }

    #[test]
    #[ignore = "in a process of its own"]
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    fn trials() {
        use crate::global::native::base::sampler;
        use crate::global::native::lists::countdown::{Due, NEVER};
        use crate::global::native::requests::thread;
        registry::heap_for_test();
        // Every trial has a point.
        sampler::begin(1);
        assert!(mode::set_profiled(true));
        for (list, pops) in [(0, 0), (1, 1), (sizes::offset(64), 1), (0, 0)] {
            let caller = thread::enter(&Tuning::new()).expect("there are heaps");
            // SAFETY: `lists` are the thread's, and never freed.
            let lists = unsafe { caller.lists.expect("it has lists").as_ref() };
            let due = [(Due::Clock, NEVER), (Due::Guarded, NEVER), (Due::Sample, 0)];
            due.into_iter().for_each(|(due, pops)| lists.countdown.set(due, pops));
            lists.countdown.arm();
            assert!(allocate_guarded_if_due(caller, 64, 16, list).is_none());
            assert_eq!((0..).find(|_| !lists.countdown.count_pop()), Some(pops), "{list}");
        }
    }

    /// Runs `action` while the calling thread holds the locks of these heaps.
    #[cfg(unix)]
    fn holding<R>(heaps: &[&'static Heap], action: &mut dyn FnMut() -> R) -> R {
        match heaps {
            [first, others @ ..] => first.with(|_| holding(others, action)).expect("it is free"),
            [] => action(),
        }
    }

    /// Runs `action` while the calling thread holds the locks of all heaps, and the registry's.
    #[cfg(unix)]
    fn holding_all<R>(mut action: impl FnMut() -> R) -> R {
        registry::heap_for_test();
        let heaps: Vec<_> = pool::all().collect();
        registry::with_opener(|_| holding(&heaps, &mut action))
    }

    /// A small block that no heap could serve is a mapping, which is freed and resized as one by a
    /// caller that knows its size. (Regression: it went onto the list of its size.)
    #[cfg(unix)]
    #[test]
    fn a_small_block_may_be_a_mapping() {
        alone::passes("global::native::requests::blocks::tests::mapped");
    }

    #[cfg(unix)]
    #[test]
    #[ignore = "in a process of its own"]
    fn mapped() {
        use std::alloc::GlobalAlloc;
        let layout = Layout::from_size_align(100, 8).expect("it is one");
        // SAFETY: the layout has bytes.
        let allocate = || unsafe { PAGEWISE.alloc(layout) };
        let blocks = holding_all(|| [(); 500].map(|()| allocate()));
        let mappings = blocks.iter().filter(|block| !SPACE.contains(**block)).count();
        assert!(mappings > 10 && mapping::usage().0 == mappings);
        // SAFETY: each block is in use, has the size of its layout, and is freed once.
        unsafe {
            for mut block in blocks {
                assert!(!block.is_null());
                block.write_bytes(7, layout.size());
                let mut old = layout;
                for size in [105, 1_000, 90] {
                    block = PAGEWISE.realloc(block, old, size);
                    assert!((0..90).all(|at| block.add(at).read() == 7));
                    old = Layout::from_size_align(size, 8).expect("it is one");
                }
                PAGEWISE.dealloc(block, old);
            }
        }
        assert_eq!(mapping::usage().0, 0);
        assert!((0..500).all(|_| SPACE.contains(allocate())));
    }

    /// In a child of the system call `clone` small blocks are mappings where all locks are lost.
    /// (Regression: null.)
    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_without_heaps_allocates() {
        alone::passes("global::native::requests::blocks::tests::bereft");
    }

    #[cfg(target_os = "linux")]
    #[test]
    #[ignore = "in a process of its own"]
    fn bereft() {
        let (held, are_held) = mpsc::channel();
        let (done, is_done) = mpsc::channel::<()>();
        registry::heap_for_test();
        let holder = std::thread::spawn(move || {
            registry::heap_for_test();
            holding_all(|| {
                held.send(()).expect("the test waits");
                let _ = is_done.recv();
            });
        });
        are_held.recv().expect("the thread has the locks");
        let mut status = 0;
        // SAFETY: without flags the call is a fork; the child only allocates, and ends.
        unsafe {
            let none = 0_usize;
            let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, none, none, none, none);
            if child == 0 {
                let is_null = (0..500).any(|_| PAGEWISE.allocate(100).is_null());
                libc::_exit(i32::from(is_null));
            }
            assert_eq!(libc::waitpid(child as libc::pid_t, &raw mut status, 0), child as i32);
        }
        assert_eq!(status, 0);
        drop(done);
        holder.join().expect("it ends");
    }

    /// Other tests may use the other heaps at some moment, but not always.
    #[test]
    fn a_thread_leaves_a_heap_that_is_in_use() {
        assert!((0..20).any(|_| hops()));
    }
}
