//! Blocks from heaps and mappings, where no list has one, and back: the slow half of every path, in the usual
//! mode and in [hardened mode](super::hardened).

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

use super::heap::Heap;
use super::huge::{self, HUGE};
use super::lock::Wait;
use super::purge::LARGE;
use super::quick::{self, Lists};
use super::space::SPACE;
use super::tuning::{SMALL_MAX, Tuning};
use super::{
    background, fork, guarded, heaps, idle, kept, mapping, mode, registry, relief, sizes, thread,
};
use crate::os::KeepErrno;

/// The quick list for a request; 0 if it is not small.
pub(super) fn list_for(tuning: &Tuning, size: usize, align: usize) -> u32 {
    match size {
        0..=SMALL_MAX => sizes::offset_aligned(size, align, tuning.pages.page_size),
        _ => 0,
    }
}

/// The least size that is a mapping of its own, bytes.
pub(super) fn mapping_from(tuning: &Tuning) -> usize {
    /// Where mappings lie between guard pages: less would have programs that copy such blocks often spend
    /// their time on mappings.
    const GUARDED: usize = 1 << 20;
    if mode::has_guards() { tuning.mapping_from.min(GUARDED) } else { tuning.mapping_from }
}

/// A block that is a mapping for its size.
pub(super) fn large(
    caller: thread::Caller,
    tuning: &Tuning,
    size: usize,
    align: usize,
) -> Option<NonNull<u8>> {
    let huge = tuning.huge_pages.advice();
    (size >= mapping_from(tuning)).then(|| mapped_beside(caller, size, align, huge)).flatten()
}

/// A mapping, beside the heaps.
fn mapped_beside(
    caller: thread::Caller,
    size: usize,
    align: usize,
    huge: Option<bool>,
) -> Option<NonNull<u8>> {
    let block = mapping::allocate(size, align, huge)?;
    was_mapped(caller, size);
    Some(block)
}

/// As [`large`], which may hold anything: in memory that is [kept](super::kept), if there is some, or of huge pages, if what
/// is kept would be written all over.
pub(super) fn large_kept(
    caller: thread::Caller,
    tuning: &Tuning,
    size: usize,
    align: usize,
) -> Option<NonNull<u8>> {
    let follows = tuning.huge_pages.follows();
    if size < mapping_from(tuning) {
        let fits = size >= grown_mapping_from(tuning) && kept::bytes() > size;
        return fits
            .then(|| mapping::allocate_kept(size, align, tuning.purge_delay, None))
            .flatten();
    }
    let kept = mapping::allocate_kept(size, align, tuning.purge_delay, Some(follows));
    kept.or_else(|| {
        let block = mapped_beside(caller, size, align, tuning.huge_pages.advice())?;
        if follows && kept::follows_dense(block.as_ptr(), size) {
            // SAFETY: it is a mapping that is in use.
            unsafe { mapping::advise_huge_pages(block.as_ptr()) };
        }
        Some(block)
    })
}

/// So many bytes were mapped beside the heaps: some of their free memory goes back, unless that was in vain the last time.
fn was_mapped(caller: thread::Caller, size: usize) {
    let is_in_vain = caller.heap.with(|state| state.purge_large(size)) == Some(false);
    if !is_in_vain && relief::grown(caller.heap, size) {
        let _ = caller.heap.with(|state| state.went_back_for(size));
    }
}

/// A block that is a mapping though it need not be: there is no heap for it. Null if there is no memory.
pub(super) fn mapped(tuning: &Tuning, size: usize, align: usize) -> *mut u8 {
    let huge = tuning.huge_pages.advice();
    mapping::allocate(size, align, huge).map_or(ptr::null_mut(), NonNull::as_ptr)
}

/// The least size that is a mapping of its own for a block that was large and grew, and that a mapping is resized to.
fn grown_mapping_from(tuning: &Tuning) -> usize {
    mapping_from(tuning) / 4
}

/// Moves a large block that grows from a heap to a mapping, where it can go on without being copied; `None`, and nothing
/// changed, if it is better off elsewhere: where it was not written all over.
///
/// # Safety
/// As for [`reallocate`](super::paths::reallocate); the block could not be resized where it is.
#[inline]
pub(super) unsafe fn outgrow(
    asked: &Tuning,
    block: *mut u8,
    size: usize,
    align: usize,
    new_size: usize,
) -> Option<NonNull<u8>> {
    if size < HUGE || new_size <= size {
        return None;
    }
    // SAFETY: passed on.
    unsafe { outgrow_heap(asked, block, size, align, new_size) }
}

/// # Safety
/// As for [`outgrow`].
#[cold]
#[inline(never)]
unsafe fn outgrow_heap(
    asked: &Tuning,
    block: *mut u8,
    size: usize,
    align: usize,
    new_size: usize,
) -> Option<NonNull<u8>> {
    let tuning = registry::tuning(asked);
    let fits = new_size >= grown_mapping_from(tuning) && new_size < mapping_from(tuning);
    if !fits || !tuning.huge_pages.follows() || !SPACE.contains(block) {
        return None;
    }
    let _errno = KeepErrno::new();
    if !huge::is_dense(block, size) {
        return None;
    }
    let caller = thread::enter(tuning)?;
    let kept = mapping::allocate_kept(new_size, align, tuning.purge_delay, Some(true));
    let moved = kept.or_else(|| mapping::allocate(new_size, align, None))?;
    if kept.is_none() {
        was_mapped(caller, new_size);
    }
    // SAFETY: both blocks are in use, hence disjoint, and at least this long; the old one is large, and not used after.
    unsafe {
        mapping::advise_huge_pages(moved.as_ptr());
        moved.as_ptr().copy_from_nonoverlapping(block, size);
        free_medium(NonNull::new_unchecked(block));
    }
    Some(moved)
}

/// A block that grows is moved to another before its contents are: a mapping is of huge pages if the block was written all
/// over.
///
/// # Safety
/// Both are in use, the old one with so many bytes.
#[cold]
pub(super) unsafe fn follow(asked: &Tuning, old: *mut u8, len: usize, moved: *mut u8) {
    let follows = registry::tuning(asked).huge_pages.follows();
    if follows && !SPACE.contains(moved) && huge::is_dense(old, len) {
        // SAFETY: what lies in no slot, and is so long, is a mapping.
        unsafe { mapping::advise_huge_pages(moved) };
    }
}

/// A small block, for which the thread's list is filled where it is empty.
pub(super) fn small(caller: thread::Caller, list: u32) -> Option<NonNull<u8>> {
    let Some(lists) = caller.lists else {
        let mut block = [MaybeUninit::uninit()];
        let class = sizes::class(list);
        from_any(caller, |heap| {
            (heap.take(Wait::Always, class, list, &mut block) == 1).then_some(())
        })?;
        // SAFETY: one block was taken.
        return Some(unsafe { block[0].assume_init() });
    };
    let lists = lists.as_ptr();
    // SAFETY: the lists are this thread's, the offset is from the tables.
    unsafe {
        if let Some(block) = quick::pop(lists, list) {
            return Some(block);
        }
        fill(caller, lists, list)?;
        quick::pop(lists, list)
    }
}

/// Fills a list of the caller's, which has few blocks. `None` if there is no memory.
///
/// # Safety
/// As for [`quick::pop`].
pub(super) unsafe fn fill(caller: thread::Caller, lists: *mut Lists, list: u32) -> Option<()> {
    // SAFETY: as below. It may have another heap meanwhile, to follow the thread.
    let caller = thread::Caller { heap: unsafe { (*lists).heap() }, ..caller };
    let fill = |heap: &'static Heap, wait| {
        // SAFETY: passed on; the lists are never given up.
        unsafe { quick::refill(lists, list, heap, wait).then(|| registry::move_to(&*lists, heap)) }
    };
    fill(caller.heap, Wait::Never).or_else(|| fill_elsewhere(caller, fill))
}

/// Fills a list whose heap is busy, or has nothing.
#[cold]
fn fill_elsewhere(
    caller: thread::Caller,
    fill: impl Fn(&'static Heap, Wait) -> Option<()>,
) -> Option<()> {
    let other = heaps::instead_of(caller.heap);
    other
        .and_then(|other| fill(other, Wait::Never))
        .or_else(|| from_any(caller, |heap| fill(heap, Wait::Always)))
}

/// A block that is neither small nor a mapping.
pub(super) fn medium(caller: thread::Caller, layout: Layout) -> Option<NonNull<u8>> {
    from_any(caller, |heap| heap.grow(|state| state.allocate(layout)).flatten())
}

/// What `take` gets from the caller's heap; where that is exhausted, or cannot be waited for, from
/// another, or from a new one.
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
    let mut others = heaps::all().filter(|heap| !ptr::eq(*heap, refused));
    if let Some(taken) = others.find_map(&mut take) {
        return Some(taken);
    }
    // Medium blocks on lists are better used than a limit reached.
    if idle::put_back_all()
        && let Some(taken) = heaps::all().find_map(&mut take)
    {
        return Some(taken);
    }
    if let Some(taken) = registry::open_another().and_then(&mut take) {
        return Some(taken);
    }
    // All locks may have been held for a fork.
    if fork::wait_for_end() { take(refused) } else { None }
}

/// A guarded block, if the caller's next one is to be one, which is to be popped from a list, or not. Does what else is due
/// from time to time.
pub(super) fn guarded(
    caller: thread::Caller,
    size: usize,
    align: usize,
    list: u32,
) -> Option<NonNull<u8>> {
    let is_popped = list > 0;
    // SAFETY: the lists are the caller's, and never given up.
    let lists = unsafe { caller.lists?.as_ref() };
    if !lists.look(is_popped, registry::follow_node) {
        return None;
    }
    let block = guarded::allocate(size, align)?;
    if is_popped && mode::is_profiled() {
        // For sampling, each block counts.
        lists.skips_pop();
    }
    Some(block)
}

/// Bytes of a block that lies in no heap.
///
/// # Safety
/// It is a mapping in use, or a guarded block.
pub(super) unsafe fn len_outside(block: *mut u8) -> usize {
    // SAFETY: the caller's promise.
    unsafe { if guarded::has(block) { guarded::len_of(block) } else { mapping::len_of(block) } }
}

/// Whether so many bytes were asked for, as far as is known, for a block that lies in no heap.
///
/// # Safety
/// As for [`len_outside`].
pub(super) unsafe fn has_len(block: *mut u8, size: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        if guarded::has(block) {
            guarded::known_len(block).is_none_or(|len| len == size)
        } else {
            mapping::requested(block) == size
        }
    }
}

/// Frees a block that lies in no heap.
///
/// # Safety
/// As for [`free`](super::paths::free); the block lies in no slot.
pub(super) unsafe fn free_outside(asked: &Tuning, block: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        if guarded::has(block) {
            return guarded::free(block);
        }
        if mapping::deallocate(block, registry::purge_delay()) {
            background::due();
        }
    }
    if let Some(caller) = thread::enter(asked) {
        caller.heap.trim(thread::empty_lists);
    }
    background::start();
}

/// Frees a block that is neither small nor a mapping.
///
/// # Safety
/// As for [`free`](super::paths::free); the block lies in a slot, and is not small.
pub(super) unsafe fn free_medium(block: NonNull<u8>) {
    // SAFETY: the caller's promise.
    unsafe {
        let heap = Heap::of(block.as_ptr());
        if heap.deallocate(block) >= LARGE {
            heap.trim(thread::empty_lists);
        }
    }
    background::start();
}

/// Resizes a block that lies in no heap, without copying, if it is a mapping.
///
/// # Safety
/// As for [`reallocate`](super::paths::reallocate); the block lies in no slot.
pub(super) unsafe fn resize_outside(
    asked: &Tuning,
    block: *mut u8,
    align: usize,
    new_size: usize,
) -> Option<NonNull<u8>> {
    let tuning = registry::tuning(asked);
    if guarded::has(block) || new_size < grown_mapping_from(tuning) {
        return None;
    }
    // SAFETY: the caller's promise.
    let (len, resized) = unsafe {
        let len = mapping::len_of(block);
        (len, mapping::resize(block, align, new_size, tuning.huge_pages.follows())?)
    };
    let from = mapping_from(tuning);
    if len < from && new_size >= from {
        // As if it had been mapped for its size.
        if let Some(caller) = thread::enter(tuning) {
            was_mapped(caller, new_size);
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
    use crate::global::native::current;
    use crate::os::alone;

    const PAGEWISE: Pagewise = Pagewise::new();

    /// Whether a thread whose heap, that of many, is in use goes to another for its blocks, and stays there.
    fn hops() -> bool {
        let heap = registry::heap_for_test();
        let (answer, answered) = mpsc::channel();
        let hopped = heap.with(|_| {
            let thread = std::thread::spawn(move || {
                registry::heap_for_test();
                // SAFETY: now the thread has lists, which are its own.
                let lists = unsafe { &*current::lists() };
                registry::move_to(lists, heap);
                let block = PAGEWISE.allocate(3_000);
                let moved = !ptr::eq(lists.heap(), heap) && !ptr::eq(Heap::of(block), heap);
                let _ = answer.send(moved);
                // SAFETY: as above.
                unsafe { PAGEWISE.free(block) };
            });
            (answered.recv_timeout(Duration::from_secs(2)).unwrap_or(false), thread)
        });
        // It is not to be had while another test forks.
        hopped.is_some_and(|(hopped, thread)| {
            thread.join().expect("it ends");
            hopped
        })
    }

    /// A block is a mapping from the size on that is set, to the byte.
    #[test]
    fn blocks_are_mappings_from_a_size_on() {
        alone::passes("global::native::blocks::tests::from_size");
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

    /// A block that is about to be popped is no trial of its own for sampling; any other block is none at all.
    #[test]
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    fn trials_begin_behind_the_block_at_hand() {
        alone::passes("global::native::blocks::tests::trials");
    }

    #[test]
    #[ignore = "in a process of its own"]
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    fn trials() {
        use crate::global::native::countdown::{Due, NEVER};
        use crate::global::native::{sampler, thread};
        registry::heap_for_test();
        // Every trial has a point.
        sampler::begin(1);
        assert!(mode::set_profiled(true));
        for (list, pops) in [(0, 0), (1, 1), (sizes::offset(64), 1), (0, 0)] {
            let caller = thread::enter(&Tuning::new()).expect("there are heaps");
            // SAFETY: they are the thread's, and never given up.
            let lists = unsafe { caller.lists.expect("it has lists").as_ref() };
            let due = [(Due::Clock, NEVER), (Due::Guarded, NEVER), (Due::Sample, 0)];
            due.into_iter().for_each(|(due, pops)| lists.countdown.set(due, pops));
            lists.countdown.arm();
            assert!(guarded(caller, 64, 16, list).is_none());
            assert_eq!((0..).find(|_| !lists.countdown.pop()), Some(pops), "{list}");
        }
    }

    /// Other tests may use the other heaps at that moment, but not always.
    #[test]
    fn a_thread_leaves_a_heap_that_is_in_use() {
        assert!((0..20).any(|_| hops()));
    }
}
