//! Puts medium blocks that have been on a [list](super::medium) for a while back to their heaps,
//! and gives back [kept] mappings likewise. Any thread that enters the slow path may
//! do this: it visits a few threads' lists at a time, in a round through all of them. So a thread
//! that does nothing keeps no blocks for good.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicPtr};

use super::{ended, medium, quick, registry};
use crate::global::native::base::apart::Apart;
use crate::global::native::base::cooldown::Cooldown;
use crate::global::native::base::mode;
use crate::global::native::base::visit::Visit;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::heaps::{kept, mapping};
use crate::global::native::memory::refused;
use crate::os;

/// The current round through the lists of all threads.
#[derive(Debug)]
struct Round {
    /// The time until the next round.
    pause: Cooldown,
    /// The lists to visit next; null if the round has ended.
    at: AtomicPtr<quick::Lists>,
    /// Whether the last visit to the lists of ended threads was too short.
    ended_left: AtomicBool,
}

static ROUND: Apart<Round> = Apart::new(Round {
    pause: Cooldown::over(),
    at: AtomicPtr::new(ptr::null_mut()),
    ended_left: AtomicBool::new(false),
});

/// Threads whose lists one turn looks at: some tens of microseconds if none of them is in the
/// processor's cache.
const LOOKS: usize = 256;

/// Continues the round, or begins one if the purge delay is over since the last began, and puts
/// idle blocks back while the visit lasts.
pub(super) fn continue_round(visit: &mut Visit) {
    let delay = registry::purge_delay();
    if delay == u32::MAX {
        return;
    }
    let is_usual = !mode::is_hardened();
    if is_usual {
        kept::give_back_idle(visit, delay);
    }
    if ROUND.ended_left.load(Relaxed) {
        put_back_of_ended(delay, visit);
    }
    let mut at = ROUND.at.load(Relaxed);
    if at.is_null() {
        if !ROUND.pause.begin_again(os::now(), delay) {
            return;
        }
        refused::retry(visit);
        put_back_of_ended(delay, visit);
        if !is_usual {
            return;
        }
        at = registry::first_lists();
    }
    let next = put_back(at, has_used_medium, medium::Blocks::Idle, || !visit.is_over()).1;
    ROUND.at.store(next, Relaxed);
}

/// Puts back what lists of ended threads have, and notes whether this visit was too short.
fn put_back_of_ended(delay: u32, visit: &mut Visit) {
    registry::put_back_of_ended(delay, visit);
    ROUND.ended_left.store(ended::have_memory() && visit.is_over(), Relaxed);
}

/// Returns the milliseconds until there may be something to put back; `None` if no list has blocks
/// and nothing is kept, or everything stays for ever.
pub(super) fn due_in() -> Option<u64> {
    let delay = registry::purge_delay();
    if delay == u32::MAX {
        return None;
    }
    let has_medium = |lists| medium::of(lists).kept().blocks > 0;
    let some = refused::has_any()
        || ended::have_memory()
        || !mode::is_hardened() && registry::all_lists().any(has_medium);
    let on_lists = some.then(|| {
        let is_over = ROUND.at.load(Relaxed).is_null() && !ROUND.ended_left.load(Relaxed);
        if is_over { ROUND.pause.left(os::now()).into() } else { 0 }
    });
    on_lists.into_iter().chain(kept::due_in(delay)).min()
}

/// Returns whether a thread may have medium blocks on its lists.
fn has_used_medium(lists: *mut quick::Lists) -> bool {
    medium::of(lists).is_used()
}

/// Puts back the blocks on the medium lists of a heap's threads while the visit lasts; the next
/// visit goes on there. Returns whether it got to the end.
pub(super) fn put_back_of(heap: &Heap, visit: &mut Visit) -> bool {
    if mode::is_hardened() {
        return true;
    }
    // SAFETY: lists are never freed.
    let of_heap =
        |lists: *mut quick::Lists| unsafe { &*lists }.has_heap(heap) && has_used_medium(lists);
    let mut at = heap.lists_at.load(Relaxed).cast::<quick::Lists>();
    if at.is_null() {
        at = registry::first_lists();
    }
    while !at.is_null() && !visit.is_over() {
        at = put_back(at, of_heap, medium::Blocks::All, || !visit.is_over()).1;
    }
    heap.lists_at.store(at.cast(), Relaxed);
    at.is_null()
}

/// Has the next search for a heap's blocks begin with the first lists: the purge that this one was
/// made for begins, or is not due any more.
pub(super) fn end_search(heap: &Heap) {
    heap.lists_at.store(ptr::null_mut(), Relaxed);
}

/// Puts back the blocks on all threads' medium lists and on the quick lists of ended threads,
/// unmaps all kept and closed mappings, and retries what the system refused to take back. Returns
/// whether there was anything.
pub(in crate::global::native) fn put_back_all() -> bool {
    let is_usual = !mode::is_hardened();
    let mut any = is_usual && kept::give_back(usize::MAX);
    any |= mapping::give_back_closed();
    any |= refused::retry(&mut Visit::unbounded());
    any |= registry::put_back_of_ended(0, &mut Visit::unbounded());
    if !is_usual {
        return any;
    }
    let mut at = registry::first_lists();
    while !at.is_null() {
        let found;
        (found, at) = put_back(at, has_used_medium, medium::Blocks::All, || true);
        any |= found;
    }
    any
}

/// Visits up to [`AT_ONCE`](medium::AT_ONCE) of the next [`LOOKS`] lists from `at` on, if `wants`
/// is true for them, and puts the `blocks` of these lists back. Returns whether there were any, and
/// the next lists to visit; null if there are no more.
fn put_back(
    mut at: *mut quick::Lists,
    wants: impl Fn(*mut quick::Lists) -> bool,
    blocks: medium::Blocks,
    goes_on: impl FnMut() -> bool,
) -> (bool, *mut quick::Lists) {
    if registry::has_orphans() {
        return (false, ptr::null_mut());
    }
    let mut lists = [ptr::null_mut(); medium::AT_ONCE];
    let mut count = 0;
    for _ in 0..LOOKS {
        if count == lists.len() || at.is_null() {
            break;
        }
        if wants(at) {
            lists[count] = at;
            count += 1;
        }
        // SAFETY: lists are never freed.
        at = unsafe { &*at }.next.load(Relaxed);
    }
    let (looked, any) = medium::visit(&lists[..count], blocks, goes_on);
    (any, lists[..count].get(looked).copied().unwrap_or(at))
}

#[cfg(all(test, not(miri), target_pointer_width = "64"))]
mod tests {
    use super::*;
    use crate::global::tuning::Tuning;

    /// A turn visits a few of the wanted lists. The next turn begins with the lists behind those,
    /// or with the first that this one did not get to.
    #[test]
    fn lists_are_looked_at_a_few_at_a_time() {
        const FEW: usize = medium::AT_ONCE;
        registry::heap_for_test();
        let make = || quick::make(&Tuning::new()).expect("there is memory").as_ptr();
        let all: Vec<_> = (0..2 * FEW + 3).map(|_| make()).collect();
        // SAFETY: lists are never freed, and these belong to no thread.
        let next = |at: usize| unsafe { &(*all[at]).next };
        (1..all.len()).for_each(|at| next(at - 1).store(all[at], Relaxed));
        let turn = |from: usize, wants: &dyn Fn(usize) -> bool, looks: usize| {
            let mut left = looks;
            let goes_on = || {
                left = left.wrapping_sub(1);
                left < looks
            };
            let number = |lists| all.iter().position(|&other| other == lists);
            let wants = |lists| wants(number(lists).expect("it is one"));
            let (any, at) = put_back(all[from], wants, medium::Blocks::All, goes_on);
            assert!(!any, "nothing lies there");
            number(at)
        };
        let many = 100;
        assert_eq!(turn(0, &|_| true, many), Some(FEW));
        assert_eq!(turn(FEW, &|_| true, many), Some(2 * FEW));
        assert_eq!(turn(2 * FEW, &|_| true, many), None);
        assert_eq!(turn(0, &|number| number % 2 == 0, many), Some(2 * FEW - 1));
        assert_eq!(turn(0, &|_| false, many), None);
        assert_eq!(turn(3, &|_| true, 2), Some(5));
        assert_eq!(turn(3, &|number| number > 7, 1), Some(9));
        assert_eq!(turn(2 * FEW + 1, &|_| true, 0), Some(2 * FEW + 1));
    }

    /// The search for a heap's blocks before a purge goes on where the last visit ended, a bounded
    /// number of lists at a time, so that it ends however many threads there are.
    #[test]
    fn the_search_before_a_purge_goes_on() {
        let heap = registry::heap_for_test();
        let make = || quick::make(&Tuning::new()).expect("there is memory").as_ptr();
        let all: Vec<_> = (0..2 * LOOKS + 1).map(|_| make()).collect();
        for pair in all.windows(2) {
            // SAFETY: lists are never freed, and these belong to no thread.
            unsafe { &*pair[0] }.next.store(pair[1], Relaxed);
        }
        let turn = |at: usize| put_back(all[at], |_| false, medium::Blocks::All, || true).1;
        assert_eq!([turn(0), turn(LOOKS)], [all[LOOKS], all[2 * LOOKS]]);
        assert!(turn(2 * LOOKS).is_null());

        heap.lists_at.store(all[5].cast(), Relaxed);
        let mut visit = Visit::in_passing();
        while !visit.is_over() {}
        assert!(!put_back_of(heap, &mut visit));
        assert_eq!(heap.lists_at.load(Relaxed), all[5].cast());
        assert!(put_back_of(heap, &mut Visit::unbounded()));
        assert!(heap.lists_at.load(Relaxed).is_null(), "the next search begins anew");

        // A heap without free memory has no purge due. (Regression: the search for one that was not
        // due any more stayed where it was, and the next went on there.)
        heap.lists_at.store(all[5].cast(), Relaxed);
        let ends = |_| {
            heap.do_due_purge(&mut Visit::unbounded());
            heap.lists_at.load(Relaxed).is_null()
        };
        assert!((0..1_000).any(ends), "another test may have the heap's lock for a while");
    }
}
