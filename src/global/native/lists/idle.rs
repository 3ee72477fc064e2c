//! Puts medium blocks that have been on a [list](super::medium) for a while back to their heaps,
//! and gives back [kept] mappings likewise. Any thread that enters the slow path may
//! do this: it visits a few threads' lists at a time, in a round through all of them. So a thread
//! that does nothing keeps no blocks for good.

use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU32};

use super::{ended, medium, quick, registry};
use crate::global::native::base::apart::Apart;
use crate::global::native::base::mode;
use crate::global::native::base::visit::Visit;
use crate::global::native::heaps::heap::Heap;
use crate::global::native::heaps::kept;
use crate::global::native::memory::refused;
use crate::os;

/// The current round through the lists of all threads.
#[derive(Debug)]
struct Round {
    /// When the next round begins: milliseconds, the lower 32 bits.
    next: AtomicU32,
    /// The lists to visit next; null if the round has ended.
    at: AtomicPtr<quick::Lists>,
}

static ROUND: Apart<Round> =
    Apart::new(Round { next: AtomicU32::new(0), at: AtomicPtr::new(ptr::null_mut()) });

/// The longest time between two rounds in milliseconds: twelve days.
const LONGEST: u32 = 1 << 30;

/// Continues the round, or begins one if the purge delay is over since the last began, and puts
/// idle blocks back while the visit lasts.
pub(super) fn continue_round(visit: &mut Visit) {
    let delay = registry::purge_delay();
    if mode::is_hardened() || delay == u32::MAX {
        return;
    }
    kept::give_back_idle(visit, delay);
    let mut at = ROUND.at.load(Relaxed);
    if at.is_null() {
        let next = ROUND.next.load(Relaxed);
        let after = (os::now() as u32).wrapping_add(delay.min(LONGEST));
        if until(next) > 0 || ROUND.next.compare_exchange(next, after, Relaxed, Relaxed).is_err() {
            return;
        }
        refused::retry(visit);
        registry::put_back_of_ended(delay, visit);
        at = registry::all_lists().next().unwrap_or(ptr::null_mut());
    }
    let next = put_back(at, |_| true, medium::Blocks::Idle, || !visit.is_over()).1;
    ROUND.at.store(next, Relaxed);
}

/// Returns the milliseconds until there may be something to put back; `None` if no list has blocks
/// and nothing is kept.
pub(super) fn due_in() -> Option<u64> {
    if mode::is_hardened() {
        return None;
    }
    let some = refused::has_any()
        || ended::has_any_blocks()
        || registry::all_lists().any(|lists| medium::of(lists).kept().0 > 0);
    let on_lists = some.then(|| {
        let is_over = ROUND.at.load(Relaxed).is_null();
        if is_over { until(ROUND.next.load(Relaxed)) } else { 0 }
    });
    on_lists.into_iter().chain(kept::due_in(registry::purge_delay())).min()
}

/// Returns the milliseconds until `time`, given by its lower 32 bits; 0 if it is past.
fn until(time: u32) -> u64 {
    let left = time.wrapping_sub(os::now() as u32);
    if left > u32::MAX / 2 { 0 } else { left.into() }
}

/// Puts all blocks on the lists of a heap's threads back, while the visit lasts; returns whether it
/// got to the end.
pub(super) fn put_back_of(heap: &Heap, visit: &mut Visit) -> bool {
    if mode::is_hardened() {
        return true;
    }
    // SAFETY: lists are never freed.
    let of_heap = |lists: *mut quick::Lists| unsafe { &*lists }.has_heap(heap);
    let mut at = registry::all_lists().next().unwrap_or(ptr::null_mut());
    let mut goes_on = true;
    while goes_on && !at.is_null() {
        let over = || {
            goes_on = !visit.is_over();
            goes_on
        };
        at = put_back(at, of_heap, medium::Blocks::All, over).1;
    }
    goes_on
}

/// Puts the blocks on the lists of all threads back, unmaps all kept mappings, and retries what the
/// system refused to take back; returns whether there was anything.
pub(in crate::global::native) fn put_back_all() -> bool {
    if mode::is_hardened() {
        return refused::retry(&mut Visit::unbounded());
    }
    let mut any = kept::give_back(usize::MAX);
    any |= refused::retry(&mut Visit::unbounded());
    any |= registry::put_back_of_ended(0, &mut Visit::unbounded());
    let mut at = registry::all_lists().next().unwrap_or(ptr::null_mut());
    while !at.is_null() {
        let found;
        (found, at) = put_back(at, |_| true, medium::Blocks::All, || true);
        any |= found;
    }
    any
}

/// Visits up to [`AT_ONCE`](medium::AT_ONCE) of the lists from `at` on for which `wants` is true,
/// and puts these of their blocks back. Returns whether there were any, and the next
/// lists to visit; null if there are no more.
fn put_back(
    mut at: *mut quick::Lists,
    wants: impl Fn(*mut quick::Lists) -> bool,
    blocks: medium::Blocks,
    goes_on: impl FnMut() -> bool,
) -> (bool, *mut quick::Lists) {
    let mut lists = [ptr::null_mut(); medium::AT_ONCE];
    let mut count = 0;
    while count < lists.len() && !at.is_null() {
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

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// A turn visits a few of the wanted lists. The next turn begins with the lists behind those,
    /// or with the first that this one did not get to.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn lists_are_looked_at_a_few_at_a_time() {
        const FEW: usize = medium::AT_ONCE;
        registry::heap_for_test();
        let make = || quick::make().expect("there is memory").as_ptr();
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

    /// A time counts as ahead if it is up to half of the `u32` range ahead, and else as past.
    #[test]
    fn a_time_is_ahead_or_past() {
        let from_now = |ahead: u32| until((os::now() as u32).wrapping_add(ahead));
        for ahead in [1 << 20, LONGEST, u32::MAX / 2] {
            let left = from_now(ahead);
            assert!(left > u64::from(ahead) / 2 && left <= ahead.into(), "{ahead}: {left}");
        }
        for ahead in [0, u32::MAX / 2 + (1 << 20), u32::MAX] {
            assert_eq!(from_now(ahead), 0, "{ahead}");
        }
    }
}
