//! Quick lists (Hasan & Chang 2006, §3.10), one for each thread and size class: bounded arrays of
//! pointers to free blocks. Allocating pops, freeing pushes; neither touches the block, its page
//! header, or a lock.
//!
//! ```text
//! Lists  | dummy list | medium lists | heap, waiting, … | list | shadow | list | … | places |
//!  list  | top | last place | size, class, … | bottom |
//! places | null | block 0 | block 1 | … | block most − 1 | null | block 0 | … | wave places
//! ```
//! The lists' heads lie together, so that a thread writes few OS pages, and the places of an ended
//! thread can be given back.
//!
//! `top` is the *place* of the last block: its index, in pointers, from the start of the thread's
//! lists. The place of an empty list holds null. So popping loads the place, loads the block, and
//! stores the place minus one. (Decrementing `top` in memory would save an instruction, but takes
//! Zen 3 up to a fifth more time.)
//!
//! A list is named by its offset in words of eight bytes, which is the same in every thread; a
//! [table](crate::global::native::base::sizes) maps each size to an offset. Offset 0 names a dummy
//! list with count = capacity = 0: push and pop always fail on it, so sizes that are not small take
//! the slow path without a test of their own. A thread that has no lists yet uses [`EMPTY`], in
//! which every list is a dummy, so the first use needs no test either; the slow path tells these
//! cases apart.
//!
//! A [shadow] follows the head of each list: a dummy list of the same class. A block whose entry
//! names the shadow instead of the list takes the slow path when it is freed by its address.

mod ahead;
mod list;
mod lists;
mod periodic;
mod random;
mod waves;

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::compiler_fence;

use self::list::{List, LongStreak};
#[allow(unused_imports, reason = "only the assembly of some targets reads it")]
pub(super) use self::lists::EMPTY;
pub(super) use self::lists::pages_of_places;
#[cfg(all(feature = "profiler", target_os = "linux"))]
pub(in crate::global::native) use self::lists::shadow;
pub(in crate::global::native) use self::lists::{
    Lists, MEDIUM, OWN, Waiting, behind_face, empty, face, gone, is_none, make, medium, of_face,
    open, unshadowed,
};
use self::lists::{at, blocks, entry, wave_bottom};
pub(in crate::global::native) use self::random::{Low, deal, pop_any};
use super::listed::Listed;
use crate::global::native::base::lock::Wait;
use crate::global::native::base::mode;
use crate::global::native::base::sizes::for_each;
use crate::global::native::base::visit::Upkeep;
use crate::global::native::heaps::heap::Heap;
use crate::os;

/// Pops the block pushed last; `None` if the list is empty or [periodic
/// work](Lists::do_periodic_work) is due.
///
/// # Safety
/// `lists` are the calling thread's, and `offset` comes from the tables.
#[inline(always)]
pub(in crate::global::native) unsafe fn pop(lists: *mut Lists, offset: u32) -> Option<NonNull<u8>> {
    let list = at(lists, offset);
    // SAFETY: `offset` names a list, which only this thread changes; its top holds a block or null.
    unsafe {
        let top = (*list).top.load(Relaxed);
        let block = NonNull::new(entry(lists, top).read())?;
        // `EMPTY`, the stand-in for the lists of a thread that has none, must not be written. Its
        // lists have no blocks, so they never get here.
        if !(*lists).countdown.count_pop() {
            return None;
        }
        (*list).top.store(top - 1, Relaxed);
        compiler_fence(Release);
        Some(block)
    }
}

/// Lets the next pop pass even if periodic work is due. For a request that has just done this work:
/// a signal handler or an interposed function may have popped blocks since, so that it is due
/// again.
///
/// # Safety
/// As for [`pop`], and the thread has lists of its own.
pub(in crate::global::native) unsafe fn let_one_pass(lists: *mut Lists) {
    // SAFETY: the caller guarantees that the lists are its own, so nothing else uses them.
    unsafe { (*lists).countdown.let_one_pass() };
}

/// Counts a pop for a block that is taken from elsewhere; returns whether no
/// [periodic work](Lists::do_periodic_work) is due.
///
/// # Safety
/// As for [`pop`], and the thread has lists of its own.
#[inline(always)]
pub(super) unsafe fn count_pop(lists: *mut Lists) -> bool {
    // SAFETY: the caller guarantees that the lists are its own, so nothing else uses them.
    unsafe { (*lists).countdown.count_pop() }
}

/// Returns the size of a list's blocks in bytes.
#[inline(always)]
pub(in crate::global::native) fn block_size(lists: *mut Lists, offset: u32) -> usize {
    // SAFETY: `offset` names a list; its size does not change.
    usize::from(unsafe { (*at(lists, offset)).size })
}

/// Pushes a block; `false` if the list is full or [stopped](ahead), or the block is already the
/// last one on it.
///
/// # Safety
/// As for [`pop`]; the block is free and of the list's class, unless it is the last one on the
/// list.
#[inline(always)]
pub(in crate::global::native) unsafe fn push(
    lists: *mut Lists,
    offset: u32,
    block: NonNull<u8>,
) -> bool {
    let list = at(lists, offset);
    // SAFETY: as in `pop`; there is room up to the last place.
    unsafe {
        let top = (*list).top.load(Relaxed);
        if top == (*list).last_place.get() || entry(lists, top).read() == block.as_ptr() {
            return false;
        }
        entry(lists, top).wrapping_add(1).write(block.as_ptr());
        compiler_fence(Release);
        (*list).top.store(top + 1, Relaxed);
        true
    }
}

/// Returns whether a block is the last one on a list: the only block that a list with room refuses.
///
/// # Safety
/// As for [`pop`].
pub(in crate::global::native) unsafe fn is_last(
    lists: *mut Lists,
    offset: u32,
    block: NonNull<u8>,
) -> bool {
    // SAFETY: as in `pop`.
    unsafe { entry(lists, (*at(lists, offset)).top.load(Relaxed)).read() == block.as_ptr() }
}

/// Takes a batch of blocks from a heap for a list: half of the list's capacity; up to the full
/// capacity if the last two batches were taken as well. `wait`: whether to wait for the heap's
/// lock. Returns whether there were any: none for a list that is [shut](is_shut). The lowest
/// addresses are popped first.
///
/// # Safety
/// As for [`pop`].
pub(in crate::global::native) unsafe fn refill(
    lists: *mut Lists,
    offset: u32,
    heap: &Heap,
    wait: Wait,
) -> bool {
    let list = at(lists, offset);
    // SAFETY: as in `pop`. The heap gives free blocks of the list's class.
    unsafe {
        if (*list).is_shut() {
            return false;
        }
        let before = (*list).count() as usize;
        widen(lists, list);
        let capacity = (*list).capacity() as usize;
        if before > capacity / 2 {
            // A signal handler or an interposed function has freed blocks since the list had too
            // few.
            return true;
        }
        let wanted = if (*list).goes_on_taking() { capacity - before } else { capacity / 2 };
        let room = core::slice::from_raw_parts_mut(blocks(lists, list).add(before), wanted);
        (*list).shut();
        let count = heap.take(wait, (*list).class.into(), offset, room);
        (*list).open(capacity as u32, (before + count) as u32);
        if count > 0 {
            (*list).note_batch_taken();
        }
        count > 0
    }
}

/// Frees a block onto a list that is full or [stopped](ahead), after making room there; a list that
/// is [shut](is_shut) has none, and the block goes back to its heap.
///
/// # Safety
/// As for [`push`].
pub(in crate::global::native) unsafe fn push_slowly(
    lists: *mut Lists,
    offset: u32,
    block: NonNull<u8>,
) {
    // SAFETY: the callees have the same contract.
    unsafe {
        let list = at(lists, offset);
        if (*list).count() < (*list).capacity() {
            fetch_ahead(lists, list);
        } else {
            make_room(lists, list);
        }
        if !push(lists, offset, block) {
            Heap::put(&mut [block], Upkeep::IfDue);
        }
    }
}

/// Makes room on a full list: widens it, or puts the older half of its blocks back to their heaps;
/// seven eighths if the last two batches were put back as well. A list that is [shut](is_shut) has
/// no room afterwards, either.
///
/// # Safety
/// As for [`pop`].
unsafe fn make_room(lists: *mut Lists, list: *mut List) {
    // SAFETY: as in `pop`.
    unsafe {
        if !(*list).is_shut() && !widen(lists, list) {
            let count = (*list).count() as usize;
            let kept = if (*list).note_batch_put_back() { count / 8 } else { count / 2 };
            put_back(lists, list, count - kept, Upkeep::IfDue);
            // In hardened mode a block gets here from the quarantine, long after the program freed
            // it.
            if let Some(streak) = (*list).long_streak_of_frees()
                && !mode::is_hardened()
            {
                let (blocks, is_first) = ((count - kept) as u32, streak == LongStreak::Begins);
                if (*lists).pace.note(blocks, is_first, os::thread_time) {
                    fetch_ahead(lists, list);
                }
            }
        }
    }
}

/// Has the processor fetch the blocks that are probably freed next, and makes the list stop once it
/// has taken as many. If nothing tells which blocks these are, the list stops only when it is full.
///
/// # Safety
/// As for [`pop`].
unsafe fn fetch_ahead(lists: *mut Lists, list: *mut List) {
    // SAFETY: as in `pop`; the first `count` places of the list hold blocks.
    unsafe {
        let count = (*list).count() as usize;
        let last = count.min(ahead::GROUP);
        let freed = blocks(lists, list).add(count - last).cast();
        let goes_on = ahead::fetch(core::slice::from_raw_parts(freed, last), (*list).size.into());
        (*list).stop_after(goes_on.then_some(ahead::GROUP as u32));
    }
}

/// Counts a batch, and widens the list if that is due; returns whether it was. A list that is to
/// take more than usual moves to its [wave places](waves) first.
///
/// # Safety
/// As for [`pop`]; the list is not shut.
unsafe fn widen(lists: *mut Lists, list: *mut List) -> bool {
    // SAFETY: as in `pop`. The wave places are the list's own, and have room for its blocks.
    unsafe {
        let Some(capacity) = (*list).count_batch() else { return false };
        let takes_more = capacity > u32::from((*list).most);
        match wave_bottom(&*list).filter(|_| takes_more) {
            Some(bottom) => {
                let (count, before) = ((*list).count(), blocks(lists, list));
                (*list).shut();
                (*list).move_to(bottom);
                ptr::copy_nonoverlapping(before, blocks(lists, list), count as usize);
                (*list).open(capacity, count);
            }
            None => (*list).set_capacity(capacity),
        }
        true
    }
}

/// Returns whether a list is shut: its thread is in the middle of taking or putting back a batch.
/// So the caller runs within an interposed function or a signal handler, or in the child of a fork.
///
/// # Safety
/// As for [`pop`].
pub(in crate::global::native) unsafe fn is_shut(lists: *mut Lists, offset: u32) -> bool {
    // SAFETY: as in `pop`.
    unsafe { (*at(lists, offset)).is_shut() }
}

/// Opens the lists that are shut, and leaves them empty: the blocks of the interrupted batch stay
/// in use.
///
/// # Safety
/// No thread of this process has the lists: theirs stayed behind in a fork.
pub(in crate::global::native) unsafe fn open_shut(lists: *mut Lists) {
    for_each(|offset| {
        let list = at(lists, offset);
        // SAFETY: no thread has these lists; `offset` names one.
        unsafe {
            if (*list).is_shut() {
                // It may have been moving to its wave places.
                (*list).set_count(0);
                (*list).narrow();
            }
        }
    });
}

/// Returns what is on all of these lists.
pub(super) fn all_kept(lists: *mut Lists) -> Listed {
    let mut all = Listed::default();
    for_each(|offset| all = all + kept(lists, offset));
    all
}

/// Puts the blocks of all these lists back to their heaps, and [narrows](List::narrow) the lists;
/// `upkeep` as for [`Heap::put`]. Does nothing to a list that is [shut](is_shut), nor to the dummy
/// lists of [`EMPTY`](lists::EMPTY), which all threads share.
///
/// # Safety
/// They are the calling thread's, or those of a thread without lists, or no thread has them and the
/// caller alone uses them.
pub(in crate::global::native) unsafe fn flush_all(lists: *mut Lists, upkeep: Upkeep) {
    for_each(|offset| {
        let list = at(lists, offset);
        // SAFETY: the caller guarantees that no other thread uses the lists, unless they are the
        // dummy lists, which have room for no block and are not written.
        unsafe {
            if (*list).most > 0 && !(*list).is_shut() {
                flush(lists, list, upkeep);
                (*list).narrow();
            }
        }
    });
}

/// Gives back the memory of the places of these lists, where it then reads as zeros, if all of the
/// lists are empty and none is shut.
///
/// # Safety
/// As for [`flush_all`].
pub(in crate::global::native) unsafe fn give_back_places(lists: NonNull<Lists>) {
    let (start, len) = pages_of_places(lists);
    if len == 0 {
        return;
    }
    let lists = lists.as_ptr();
    let mut all_empty = true;
    // SAFETY: the caller guarantees that no other thread uses the lists. They are shut while their
    // places go back: a signal handler may free blocks. The null before the blocks of each list
    // reads as zeros afterwards, as before.
    unsafe {
        for_each(|offset| {
            let list = at(lists, offset);
            all_empty &= (*list).count() == 0 && !(*list).is_shut();
        });
        if !all_empty {
            return;
        }
        for_each(|offset| {
            (*at(lists, offset)).narrow();
            (*at(lists, offset)).shut();
        });
        let _ = os::discard_to_zeros(start, len);
        for_each(|offset| (*at(lists, offset)).narrow());
    }
}

/// As [`flush_all`], without upkeep, but the lists keep their capacities.
///
/// # Safety
/// As for [`flush_all`].
pub(super) unsafe fn put_all_back(lists: *mut Lists) {
    for_each(|offset| {
        // SAFETY: the caller guarantees that no other thread uses the lists.
        unsafe { flush(lists, at(lists, offset), Upkeep::Never) };
    });
}

/// Puts all blocks of a list back to their heaps; none if it is [shut](is_shut).
///
/// # Safety
/// As for [`pop`].
unsafe fn flush(lists: *mut Lists, list: *mut List, upkeep: Upkeep) {
    // SAFETY: as in `pop`.
    unsafe {
        let count = (*list).count() as usize;
        if count > 0 {
            put_back(lists, list, count, upkeep);
        }
    }
}

/// Puts the `older` oldest blocks of a list back to their heaps; `upkeep` as for [`Heap::put`].
/// The list is shut meanwhile: the child of a fork must not find blocks on it that are in their
/// heaps already.
///
/// # Safety
/// As for [`pop`]; the list has at least `older` blocks.
unsafe fn put_back(lists: *mut Lists, list: *mut List, older: usize, upkeep: Upkeep) {
    // SAFETY: as in `pop`; blocks on a list are free, and these are not on it afterwards.
    unsafe {
        let (capacity, count) = ((*list).capacity(), (*list).count() as usize);
        (*list).shut();
        let first = blocks(lists, list);
        Heap::put(core::slice::from_raw_parts_mut(first.cast(), older), upkeep);
        ptr::copy(first.add(older), first, count - older);
        (*list).open(capacity, (count - older) as u32);
    }
}

/// Returns what is on a list, which may be another thread's.
pub(in crate::global::native) fn kept(lists: *mut Lists, offset: u32) -> Listed {
    // SAFETY: `offset` names a list; its `top` is atomic.
    let count = unsafe { (*at(lists, offset)).count() };
    Listed::of_size(count as usize, block_size(lists, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dummy lists are not written, whoever flushes them. (Regression: a thread without lists
    /// wrote zeros there as it freed a large block, while other threads read them.)
    #[cfg(all(not(miri), target_os = "linux"))]
    #[test]
    fn dummy_lists_are_not_written() {
        crate::os::alone::passes("global::native::lists::quick::tests::dummies");
    }

    #[cfg(all(not(miri), target_os = "linux"))]
    #[test]
    #[ignore = "in a process of its own"]
    fn dummies() {
        use crate::global::native::lists::registry;
        registry::heap_for_test();
        let (page, dummies) = (crate::os::page_size(), &raw const lists::EMPTY);
        let first = dummies.addr().next_multiple_of(page);
        let end = (dummies.addr() + size_of_val(&lists::EMPTY)) & !(page - 1);
        assert!(end - first > 10 * page);
        // SAFETY: these pages hold only the dummy lists, which no test of this process changes.
        unsafe {
            crate::os::forbid_writes(dummies.cast_mut().cast::<u8>().with_addr(first), end - first);
            flush_all(empty(), Upkeep::Never);
            put_all_back(empty());
        }
    }

    /// A list that a fork found on its way to its wave places is empty there, and takes blocks.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn a_list_that_was_moving_is_opened() {
        use crate::global::native::base::sizes;
        use crate::global::native::lists::registry;
        use crate::global::tuning::Tuning;
        registry::heap_for_test();
        let lists = make(&Tuning::new()).expect("there is memory").as_ptr();
        let offset = sizes::offset(64);
        // SAFETY: the lists were just made, and no thread has them.
        unsafe {
            let list = &*at(lists, offset);
            list.set_count(3);
            list.shut();
            let bottom = wave_bottom(list).expect("it is in its usual places");
            let before = list.top.load(Relaxed);
            list.move_to(bottom);
            // The fork came between the first and the second of its writes.
            list.top.store(before, Relaxed);
            list.last_place.set(before);
            open_shut(lists);
            assert_eq!((list.bottom(), list.top.load(Relaxed)), (bottom, bottom));
            assert!(!list.is_shut() && list.capacity() > 0 && wave_bottom(list).is_none());
            assert!(entry(lists, bottom).read().is_null());
        }
    }

    /// A list stops on the way if its thread frees many neighbours slowly, and only then; it still
    /// takes as many blocks.
    #[cfg(not(miri))]
    #[test]
    fn lists_stop_while_neighbours_are_freed_slowly() {
        crate::os::alone::passes("global::native::lists::quick::tests::stops");
    }

    #[cfg(not(miri))]
    #[test]
    #[ignore = "in a process of its own"]
    fn stops() {
        use crate::global::Pagewise;
        use crate::global::native::base::sizes;
        use crate::global::native::lists::current;
        const COUNT: usize = 20_000;
        let pagewise = Pagewise::new();
        let stops_after = |slow: bool, order: &dyn Fn(&mut Vec<NonNull<u8>>)| {
            let allocated = (0..COUNT).map(|_| pagewise.allocate(48));
            let mut blocks: Vec<_> = allocated.filter_map(NonNull::new).collect();
            blocks.sort();
            order(&mut blocks);
            let lists = current::lists();
            let (mut stops, mut most) = (0, 0);
            for block in blocks {
                // SAFETY: the lists are the thread's, and have a list of this size; the block is in
                // use, and freed once.
                unsafe {
                    // The pace is set before each free, so it is not the test's.
                    (*lists).pace.set(slow);
                    pagewise.free(block.as_ptr());
                    let list = &*at(lists, sizes::offset(48));
                    stops += u32::from(list.last_place.get() < list.bottom() + list.capacity());
                    most = list.count().max(most);
                    assert!(list.count() <= list.capacity());
                }
            }
            assert!(most >= 256, "{most}");
            stops
        };
        let mix = |blocks: &mut Vec<NonNull<u8>>| {
            (0..COUNT).for_each(|at| blocks.swap(at, at * 7_001 % COUNT));
        };
        assert!(stops_after(true, &|_| ()) > 1_000);
        assert!(stops_after(true, &|blocks| blocks.reverse()) > 1_000);
        assert_eq!(stops_after(false, &|_| ()), 0);
        assert_eq!(stops_after(true, &mix), 0);
        assert!(stops_after(true, &|blocks| blocks.truncate(COUNT)) > 1_000);
    }
}
