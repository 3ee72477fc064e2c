//! Gives free memory of all heaps back before the process as a whole grows, once there is too much
//! of it. Otherwise threads that take turns at allocating, each in a heap of its own, would each
//! keep a peak.
//!
//! Better than to give memory back, and fault it in again, is to use it. If one heap has as much
//! free as the process has in use, threads take turns: then the next thread that fills a list from
//! the heap that grew moves there. With less, its own threads will probably want it again.
//!
//! | free memory, relative to memory in use | goes back |
//! |---|---|
//! | up to an eighth, or 4 MiB | never |
//! | up to a sixth, or 16 MiB | at [`RATE`] on average: most of it is soon wanted again |
//! | more | at once |

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use super::heap::Heap;
use super::{mapping, pool};
use crate::global::native::base::apart::Apart;
use crate::global::native::base::cooldown::Cooldown;
use crate::global::native::base::visit::{RATE, Visit};
use crate::global::native::memory::purge::Granularity;
use crate::os;

/// Divisor: up to an eighth of the memory in use may be free.
const SHARE: usize = 8;

/// Bytes that may be free in any case.
const LEAST: usize = 4 << 20;

/// Divisor: what is free above a sixth of the memory in use goes back at once.
const LARGE_SHARE: usize = 6;

/// Bytes that may be free before any go back at once.
const LARGE: usize = 16 << 20;

/// A heap gives memory back if it has a fourth of the average free memory of all heaps. Where the
/// free memory of the heap that grows lies in many small pieces, a walk through it would take the
/// time from the heaps that have more.
const WORTH: usize = 4;

/// A thread does not move to a heap with this many more threads than its own: it would wait for
/// them.
const MORE_THREADS: u32 = 8;

/// A thread moves only to a heap that has more than this many times the free memory of its own:
/// with about as much, the other heap would probably serve the request no better.
const ROOMIER: usize = 2;

/// Heaps whose figures are read per mebibyte that the process grows by.
const READ: usize = 32;

/// Bytes that the process has grown by since the heaps were last looked at.
static GROWTH: Apart<AtomicUsize> = Apart::new(AtomicUsize::new(0));

/// The time until memory may go back again at the rate.
static PAUSE: Apart<Cooldown> = Apart::new(Cooldown::over());

/// Gives free memory back as the heap `grown` has grown by `bytes`, or as many were mapped beside
/// it. If more is free than may stay, twice the growth goes back, of each heap in turn, so that
/// free memory shrinks to the share while the process grows; and if one heap has much of it, a
/// thread of `grown` may move there. Returns whether any memory went back. O(bytes + heaps);
/// O(bytes) on average.
#[cold]
pub(in crate::global::native) fn give_back_for_growth(grown: &Heap, bytes: usize) -> bool {
    let Some(grown_by) = noted(&GROWTH, bytes, pool::all().len()) else { return false };
    let figures =
        pool::all().map(|heap| (heap.used.load(Relaxed), heap.most_resident.load(Relaxed)));
    let (free, in_use) = balance(figures, mapping::usage().bytes);
    let (mut wanted, is_large) = surplus(free, in_use, grown_by);
    if !goes_back(&PAUSE, os::now(), wanted, is_large) {
        return false;
    }
    if let Some(other) = roomier(grown, wanted.max(in_use)) {
        grown.set_roomier(other);
    }
    let mut visit = Visit::for_bytes(grown_by);
    let mut any = false;
    let least = free / (WORTH * pool::all().len());
    for _ in pool::all() {
        if wanted == 0 {
            break;
        }
        let heap = pool::next_after(grown);
        if heap.free() >= least {
            let bytes = heap.give_back(wanted, &mut visit, Granularity::OsPages);
            (wanted, any) = (wanted.saturating_sub(bytes), any || bytes != 0);
        }
    }
    any
}

/// Returns the near heap with most free memory, if that is `least` bytes or more, and a thread of
/// `grown` should move there.
fn roomier(grown: &Heap, least: usize) -> Option<&'static Heap> {
    pool::near(grown)
        .filter(|other| other.free() >= least && is_roomier(other, grown))
        .max_by_key(|other| other.free())
}

/// Returns whether a thread of `own` should move to `other`.
fn is_roomier(other: &Heap, own: &Heap) -> bool {
    let threads = |heap: &Heap| heap.threads.load(Relaxed);
    other.free() > ROOMIER * own.free() && threads(other) < threads(own) + MORE_THREADS
}

/// Returns the heap that the calling thread, whose heap is `own`, should move to. Another thread
/// chose it, perhaps long ago, so it must still do.
#[inline]
pub(in crate::global::native) fn heap_to_move_to(own: &Heap) -> Option<&'static Heap> {
    let chosen = own.take_roomier()?;
    (pool::is_near(chosen, own) && is_roomier(chosen, own)).then_some(chosen)
}

/// Adds `bytes` to the growth. Returns the growth since the `heaps` heaps were last looked at, if
/// it is enough to look again.
fn noted(growth: &AtomicUsize, bytes: usize, heaps: usize) -> Option<usize> {
    let grown_by = growth.fetch_add(bytes, Relaxed) + bytes;
    (grown_by >= (heaps / READ) << 20).then(|| growth.swap(0, Relaxed))
}

/// Returns the free bytes and the bytes in use. `heaps` yields the bytes in use of each heap, and
/// those that may be resident; `mapped` bytes are in use by mappings.
fn balance(heaps: impl Iterator<Item = (usize, usize)>, mapped: usize) -> (usize, usize) {
    heaps.fold((0, mapped), |(free, in_use), (used, most)| {
        // A heap whose figures are just changing may seem to have more in use than may be resident.
        (free + most.saturating_sub(used), in_use + used)
    })
}

/// Returns whether `bytes` go back now: at the rate, which then counts them, or `at_once`.
fn goes_back(pause: &Cooldown, now: u64, bytes: usize, at_once: bool) -> bool {
    let millis = u32::try_from(bytes / RATE).unwrap_or(u32::MAX);
    bytes > 0 && (pause.begin_again(now, millis) || at_once)
}

/// Returns how many bytes of the free memory should go back, and whether at once.
fn surplus(free: usize, in_use: usize, grown_by: usize) -> (usize, bool) {
    let wanted = free.saturating_sub(LEAST.max(in_use / SHARE)).min(2 * grown_by);
    (wanted, free > LARGE.max(in_use / LARGE_SHARE))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory goes back at the rate, for any amounts and times, also where the clock wraps.
    #[test]
    fn memory_goes_back_at_the_rate() {
        for start in [0, 1_000, (1 << 32) - 500] {
            let (pause, mut gone) = (Cooldown::over(), 0);
            for at in 0..1_000 {
                let bytes = (1 + at as usize % 7) << 20;
                if goes_back(&pause, start + at, bytes, false) {
                    gone += bytes;
                }
            }
            assert!((1_000 * RATE..=1_000 * RATE + (7 << 20)).contains(&gone), "{gone} bytes");
        }
    }

    /// The table in the module's docs: what stays, goes back at the rate, or at once; at most twice
    /// the growth.
    #[test]
    fn free_memory_goes_back_beyond_a_share() {
        const MIB: usize = 1 << 20;
        // MiB in use; MiB that may stay; MiB that go back only at the rate.
        for (in_use, stays, longer) in [(0, 4, 16), (32, 4, 16), (80, 10, 16), (240, 30, 40)] {
            let surplus = |free, grown| surplus(free, in_use * MIB, grown);
            assert_eq!(surplus(0, MIB), (0, false));
            assert_eq!(surplus(stays * MIB, MIB), (0, false));
            assert_eq!(surplus(stays * MIB + 1, MIB), (1, false));
            assert_eq!(surplus(stays * MIB + 5 * MIB, 100 * MIB), (5 * MIB, false));
            assert_eq!(surplus(longer * MIB, MIB), (2 * MIB, false));
            assert_eq!(surplus(longer * MIB + 1, 3 * MIB), (6 * MIB, true));
            assert_eq!(surplus(1000 * MIB, 1000 * MIB), ((1000 - stays) * MIB, true));
        }
    }

    /// The figures of few heaps are read each time, those of many less often: 32 heaps per
    /// mebibyte. No growth is lost.
    #[test]
    fn heaps_are_looked_at_as_the_process_grows() {
        const MIB: usize = 1 << 20;
        for (heaps, mib) in
            [(0, 0), (1, 0), (31, 0), (32, 1), (63, 1), (64, 2), (100, 3), (1000, 31)]
        {
            let growth = AtomicUsize::new(0);
            for _ in 0..2 {
                for grown in 0..4 * mib {
                    let noted = noted(&growth, MIB / 4, heaps);
                    let all = (grown + 1) * (MIB / 4);
                    assert_eq!(noted, (all == mib * MIB).then_some(all), "{heaps}, {grown}");
                }
            }
            assert_eq!(noted(&growth, mib * MIB + 7, heaps), Some(mib * MIB + 7));
            assert_eq!(noted(&growth, 0, heaps), (mib == 0).then_some(0));
        }
    }

    /// Free memory is summed over the heaps, also where one seems to have less than nothing.
    /// Mappings count as in use.
    #[test]
    fn free_memory_is_balanced_against_what_is_in_use() {
        assert_eq!(balance([].into_iter(), 5), (0, 5));
        let heaps = [(3, 10), (20, 20), (30, 7), (0, 100)];
        assert_eq!(balance(heaps.into_iter(), 1000), (107, 1053));
    }

    /// Much free memory goes back at any time, and counts if the rate allowed it. Zero bytes never
    /// go back, and do not count.
    #[test]
    fn much_free_memory_goes_back_at_once() {
        let pause = Cooldown::over();
        assert!(!goes_back(&pause, 0, 0, false) && !goes_back(&pause, 0, 0, true));
        assert!(goes_back(&pause, 0, 10 * RATE, false));
        assert!(!goes_back(&pause, 9, RATE, false));
        assert!(goes_back(&pause, 9, RATE, true));
        assert!(goes_back(&pause, 10, RATE, false), "what went back at once does not delay");
        assert!(!goes_back(&pause, 10, RATE, false));
        assert!(goes_back(&pause, 11, 4 * RATE, true));
        assert!(!goes_back(&pause, 14, RATE, false), "but counts where it was time");
    }

    #[cfg(all(not(miri), not(pagewise_portable_os), target_pointer_width = "64"))]
    mod alone {
        use core::alloc::Layout;

        use super::super::*;
        use crate::global::Tuning;
        use crate::global::native::lists::registry;
        use crate::os::alone;

        const MIB: usize = 1 << 20;

        /// Returns a heap with `bytes` of free memory that was written.
        fn with_free(bytes: usize) -> &'static Heap {
            let heap = registry::heap_for_test();
            add_free(heap, bytes);
            heap
        }

        /// Takes `bytes` of memory for a heap, writes them, and frees them again.
        fn add_free(heap: &Heap, bytes: usize) {
            let layout = Layout::from_size_align(bytes, 16).expect("it is one");
            let freed = heap.with(|state| {
                let block = state.allocate(layout).expect("there is memory");
                state.take_growth();
                // SAFETY: the block has as many bytes, and is freed once.
                unsafe {
                    block.write_bytes(1, bytes);
                    state.deallocate(block).expect("it is in use").bytes
                }
            });
            assert!(freed >= Some(bytes));
        }

        /// A heap with little free memory keeps it while another has much, and loses no time to it.
        #[test]
        fn heaps_with_little_free_memory_keep_it() {
            alone::passes("global::native::heaps::relief::tests::alone::little");
        }

        #[test]
        #[ignore = "in a process of its own"]
        fn little() {
            let own = registry::heap_for_test();
            let [little, much] = [2, 64].map(|mib| with_free(mib * MIB));
            let [before, before_much] = [little, much].map(Heap::free);
            for _ in 0..3 {
                assert!(give_back_for_growth(own, 4 * MIB));
            }
            assert!(little.free() == before && much.free() < before_much);
        }

        /// As the process grows, the heaps in turn give back twice as much free memory, until no
        /// more is free than may stay for longer.
        #[test]
        fn heaps_give_memory_back_as_the_process_grows() {
            alone::passes("global::native::heaps::relief::tests::alone::grows");
        }

        #[test]
        #[ignore = "in a process of its own"]
        fn grows() {
            let own = registry::heap_for_test();
            let heaps = [(); 3].map(|()| with_free(24 * MIB));
            let sum = || heaps.iter().map(|heap| heap.free()).sum::<usize>();
            let before = sum();
            assert!(give_back_for_growth(own, 4 * MIB));
            // At most a step of one huge page more than wanted; less where the system is slow, but
            // at least one step.
            let gone = before - sum();
            assert!((1..=12 * MIB).contains(&gone), "{gone} bytes");
            // While that much is free, at least a step goes back each time.
            let is_little = |_| {
                let _ = give_back_for_growth(own, 30 * MIB);
                sum() <= LARGE
            };
            assert!((0..10_000).any(is_little), "{} bytes", sum());
            assert!(!give_back_for_growth(own, 0), "nothing is wanted");
        }

        /// As a heap grows, one of its threads may move to the heap with most free memory, unless
        /// that has too little, or many threads.
        #[test]
        fn threads_move_to_free_memory() {
            alone::passes("global::native::heaps::relief::tests::alone::roomier");
        }

        #[test]
        #[ignore = "in a process of its own"]
        fn roomier() {
            registry::tuning(&Tuning::new().purge_delay(u32::MAX));
            let own = registry::heap_for_test();
            let [most, some] = [48, 24].map(|mib| with_free(mib * MIB));
            // Unlike a test's own heaps, these are for any thread.
            [own, most, some].iter().for_each(|heap| heap.threads.store(1, Relaxed));
            let roomier_for = |mib: usize| {
                let _ = give_back_for_growth(own, mib * MIB);
                let found = own.take_roomier();
                assert!(own.take_roomier().is_none(), "only one thread moves");
                found.map(Heap::slot)
            };
            assert_eq!(roomier_for(4), Some(most.slot()));
            assert_eq!(roomier_for(30), None, "twice as much is wanted");
            most.threads.store(1 + MORE_THREADS, Relaxed);
            assert_eq!(roomier_for(4), Some(some.slot()));
            assert_eq!(roomier_for(0), None);
        }

        /// A thread does not move to a heap that has changed since it was chosen, nor from one that
        /// has much free memory itself. (Regression: it did.)
        #[test]
        fn threads_move_only_where_it_is_roomier_still() {
            alone::passes("global::native::heaps::relief::tests::alone::changed");
        }

        #[test]
        #[ignore = "in a process of its own"]
        fn changed() {
            registry::tuning(&Tuning::new().purge_delay(u32::MAX));
            let [own, other] = [8, 48].map(|mib| with_free(mib * MIB));
            [own, other].iter().for_each(|heap| heap.threads.store(1, Relaxed));
            let moves_after = |change: &dyn Fn()| {
                let _ = give_back_for_growth(own, 4 * MIB);
                change();
                let moves = heap_to_move_to(own).map(Heap::slot) == Some(other.slot());
                assert!(own.take_roomier().is_none(), "only one thread moves");
                moves
            };
            assert!(moves_after(&|| ()));
            assert!(!moves_after(&|| other.threads.store(1 + MORE_THREADS, Relaxed)));
            other.threads.store(1, Relaxed);
            assert!(!moves_after(&|| other.node.store(own.node.load(Relaxed) + 1, Relaxed)));
            other.node.store(own.node.load(Relaxed), Relaxed);
            assert!(moves_after(&|| ()));
            add_free(own, 24 * MIB);
            assert!(!moves_after(&|| ()), "it has half as much itself");
        }

        /// The heaps also give memory back when a block is mapped beside them.
        #[test]
        fn heaps_give_memory_back_as_blocks_are_mapped() {
            alone::passes("global::native::heaps::relief::tests::alone::maps");
        }

        #[test]
        #[ignore = "in a process of its own"]
        fn maps() {
            let heaps = [(); 3].map(|()| with_free(24 * MIB));
            let sum = || heaps.iter().map(|heap| heap.free()).sum::<usize>();
            let before = sum();
            let pagewise = crate::global::Pagewise::new();
            let block = pagewise.allocate(40 * MIB);
            assert!(!block.is_null() && mapping::usage().count == 1);
            assert!(sum() < before);
            // SAFETY: the block is freed once.
            unsafe { pagewise.free(block) };
        }

        /// Where nothing may go back, nothing does, and the caller is told so.
        #[test]
        fn nothing_goes_back_with_the_largest_delay() {
            alone::passes("global::native::heaps::relief::tests::alone::keeps");
        }

        #[test]
        #[ignore = "in a process of its own"]
        fn keeps() {
            registry::tuning(&Tuning::new().purge_delay(u32::MAX));
            let (own, heap) = (registry::heap_for_test(), with_free(24 * MIB));
            let before = heap.free();
            for _ in 0..8 {
                assert!(!give_back_for_growth(own, 30 * MIB));
            }
            assert_eq!(heap.free(), before);
        }
    }
}
