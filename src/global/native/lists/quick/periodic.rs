//! What a thread does once in a number of pops: it looks at the clock and gives memory back, and it
//! draws which blocks are guarded or sampled.

use super::super::countdown::{Due, NEVER};
use super::lists::Lists;
use crate::global::native::base::mode;
use crate::global::native::heaps::background;
use crate::os;

/// Milliseconds between two calls of `maintain`; while memory is going back, one.
const PAUSE: u32 = 64;

/// Most visits that a thread may catch up on while memory is going back: where a program sleeps for
/// most of the time, one for each millisecond in which it runs would take minutes.
const CATCH_UP: u32 = 8;

/// Returns the milliseconds by which the next visit is brought forward, at a visit that came
/// `since` milliseconds after the last one (at least [`PAUSE`]). None, unless there is `more` to
/// give back: then the next visit is due after a millisecond, and visits that were missed, up to
/// [`CATCH_UP`], are due at once.
fn since_visit(since: u32, more: bool) -> u32 {
    if more { (since - 1).min(PAUSE - 1 + CATCH_UP) } else { 0 }
}

impl Lists {
    /// Does what is due by the countdown: looks at the clock, gives memory back if that is due (and
    /// before that calls `follow`), and draws when the next block is guarded or sampled.
    /// `is_popped`: the block that is being allocated will be popped from a list. Returns whether
    /// that block must be [guarded](crate::global::native::guarded).
    pub(in crate::global::native) fn do_periodic_work(
        &self,
        is_popped: bool,
        follow: impl FnOnce(&Self),
    ) -> bool {
        /// Pops between two looks at the clock; and while memory is going back, when each look does
        /// a small part.
        const POPS: i32 = 1 << 11;
        const SOON: i32 = 1 << 7;
        if !self.countdown.is_over() {
            return false;
        }
        self.countdown.settle();
        if self.countdown.is_due(Due::Clock) {
            let more = self.look_at_clock(follow);
            self.countdown.set(Due::Clock, if more { SOON } else { POPS });
        }
        let guarded = self.countdown.is_due(Due::Guarded) && self.decide_guard();
        if self.countdown.is_due(Due::Sample) {
            // Whether this block is sampled was decided before this call. Drawing anew leaves a
            // trial out. That does no harm: any trial may be left out.
            let in_trials = mode::is_profiled() && !mode::is_hardened();
            let trials = if in_trials { self.sampler.draw() } else { NEVER - 1 };
            self.countdown.set(Due::Sample, trials + i32::from(is_popped));
        }
        self.countdown.arm();
        guarded
    }

    /// Looks at the clock, and gives memory back if that is due; returns whether there is more to
    /// give back.
    fn look_at_clock(&self, follow: impl FnOnce(&Self)) -> bool {
        let now = os::now() as u32;
        let since = now.wrapping_sub(self.last_clock_read.get());
        if since < PAUSE {
            return since == PAUSE - 1;
        }
        follow(self);
        let more = self.heap().maintain();
        self.last_clock_read.set(now.wrapping_sub(since_visit(since, more)));
        more
    }

    /// Creates the background thread, if it is wanted, after a slow free of a small block. The C
    /// library frees small blocks of a thread that is joined under the lock that the creation
    /// takes. So a thread's first such frees do not create it: periodic work does, or further
    /// frees.
    #[inline]
    pub(in crate::global::native) fn start_background_after_free(&self) {
        /// More frees than the C library does in a row.
        const MANY: u8 = 64;
        if background::is_wanted() {
            let frees = self.frees_while_wanted.get().wrapping_add(1);
            self.frees_while_wanted.set(frees);
            if frees.is_multiple_of(MANY) {
                background::start();
            }
        }
    }

    /// Called when a guarded block is due: returns whether to guard this one, and draws the
    /// distance to the next. The first time that it is due, only the distance is drawn.
    fn decide_guard(&self) -> bool {
        let one_in = mode::guarded();
        if one_in == 0 {
            self.countdown.set(Due::Guarded, NEVER);
            return false;
        }
        self.countdown.set(Due::Guarded, pops_to_guarded(one_in, os::random()));
        self.guard_drawn.replace(true)
    }

    /// Decides whether the small block of `size` bytes that the thread is about to take is sampled.
    /// Call only while there is a profile.
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    pub(in crate::global::native) fn decide_small_sample(&self, size: usize) -> bool {
        let is_stale = self.sampler.renew_if_stale();
        if !is_stale && !self.countdown.is_over() {
            return false;
        }
        self.countdown.settle();
        let due = self.countdown.is_due(Due::Sample);
        let sampled = if is_stale {
            // This block is the first trial.
            self.countdown.set(Due::Sample, NEVER);
            match self.sampler.draw() {
                0 => self.sampler.is_hit(size),
                trials => {
                    self.countdown.set(Due::Sample, trials);
                    self.countdown.arm();
                    return false;
                }
            }
        } else {
            due && self.sampler.is_hit(size)
        };
        if due || is_stale {
            self.countdown.set(Due::Sample, 1 + self.sampler.draw());
        }
        self.countdown.arm();
        sampled
    }

    /// Decides whether a block of `size` bytes that does not count as a pop is sampled. Call only
    /// while there is a profile.
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    pub(in crate::global::native) fn decide_other_sample(&self, size: usize) -> bool {
        if self.sampler.renew_if_stale() {
            self.countdown.settle();
            self.countdown.set(Due::Sample, self.sampler.draw());
            self.countdown.arm();
        }
        self.sampler.count_bytes(size)
    }

    /// Makes the thread take the slow path for its next block.
    #[cfg(all(feature = "profiler", target_os = "linux"))]
    pub(in crate::global::native) fn force_slow_path(&self) {
        self.countdown.settle();
    }
}

/// Returns the pops until the next guarded block, where one block in `one_in` is guarded: uniformly
/// random from 1 to twice the mean, so that it cannot be foreseen.
fn pops_to_guarded(one_in: u32, random: u64) -> i32 {
    let most = (2 * u64::from(one_in) - 2).max(1);
    (1 + random % most) as i32
}

#[cfg(test)]
mod tests {
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    use super::super::lists::make;
    use super::*;
    #[cfg(all(feature = "guarded", not(miri), target_pointer_width = "64"))]
    use crate::global::tuning::Tuning;

    /// All distances between guarded blocks are equally likely, up to twice the mean.
    #[test]
    fn distances_between_guarded_blocks_are_uniform() {
        for one_in in [1, 2, 3, 100, 1 << 10] {
            let most = (2 * one_in - 2).max(1);
            let pops: Vec<i32> =
                (0..2 * most).map(|random| pops_to_guarded(one_in, random.into())).collect();
            let all: Vec<i32> = (1..=most as i32).collect();
            assert_eq!(pops, [&all[..], &all[..]].concat(), "{one_in}");
        }
        assert!((1..i32::MAX).contains(&pops_to_guarded(1 << 30, u64::MAX)));
    }

    /// Makes lists that no thread has, in which this is due at once, and nothing else ever.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    fn with_only(due: Option<Due>) -> &'static Lists {
        let heap = crate::global::native::lists::registry::heap_for_test();
        // SAFETY: they are never freed.
        let lists = unsafe {
            make(&crate::global::tuning::Tuning::new()).expect("there is memory").as_ref()
        };
        lists.set_heap(heap);
        lists.last_clock_read.set(os::now() as u32);
        for other in [Due::Clock, Due::Guarded, Due::Sample] {
            lists.countdown.set(other, if due == Some(other) { 0 } else { NEVER });
        }
        lists.countdown.arm();
        lists
    }

    /// Makes this due after some pops, whatever passed before.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    fn set(lists: &Lists, due: Due, pops: i32) {
        lists.countdown.settle();
        lists.countdown.set(due, pops);
        lists.countdown.arm();
    }

    /// Pops until something is due; returns how often that went well.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    fn pops(lists: &Lists) -> usize {
        (0..).find(|_| !lists.countdown.count_pop()).expect("something is due some time")
    }

    /// A thread looks at the clock once in 2,048 pops; while memory is going back, in 128.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn a_thread_looks_at_the_clock_now_and_then() {
        let lists = with_only(Some(Due::Clock));
        // The pops from a look to the next, where heaps were maintained `since` milliseconds ago.
        // Repeats until the clock stands still meanwhile.
        let pops_from = |since: u32| loop {
            let now = os::now();
            lists.last_clock_read.set((now as u32).wrapping_sub(since));
            set(lists, Due::Clock, 0);
            assert!(!lists.do_periodic_work(true, |_| ()));
            if os::now() == now {
                break pops(lists);
            }
        };
        assert_eq!([pops_from(0), pops_from(63)], [2048, 128]);
        // Not even a long time makes it look earlier.
        lists.last_clock_read.set((os::now() as u32).wrapping_sub(1 << 20));
        set(lists, Due::Clock, 1);
        assert!(!lists.do_periodic_work(true, |_| unreachable!("it is not due")));
        assert_eq!(pops(lists), 1);
    }

    /// While no block is sampled, it is not looked at often whether one should be.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn nothing_is_due_where_nothing_is_sampled() {
        let lists = with_only(Some(Due::Sample));
        for is_popped in [true, false] {
            set(lists, Due::Sample, 0);
            assert!(!lists.do_periodic_work(is_popped, |_| ()));
            assert!((0..100_000).all(|_| lists.countdown.count_pop()));
        }
    }

    #[cfg(all(feature = "profiler", target_os = "linux", not(miri), target_pointer_width = "64"))]
    #[test]
    fn blocks_are_sampled_where_they_contain_points() {
        crate::os::alone::passes("global::native::lists::quick::periodic::tests::sampled");
    }

    #[cfg(all(feature = "profiler", target_os = "linux", not(miri), target_pointer_width = "64"))]
    #[test]
    #[ignore = "in a process of its own, with a profile"]
    fn sampled() {
        use crate::global::native::base::sampler;
        let other = with_only(Some(Due::Sample));
        // Points are a byte apart, so that each block of 1,000 bytes has some.
        sampler::begin(1);
        assert!(mode::set_profiled(true));
        let lists = with_only(None);
        for _ in 0..10 {
            assert!(lists.decide_small_sample(1000), "the first at once, though nothing was due");
            assert!(!lists.decide_small_sample(1000), "the block at hand is not yet popped");
            assert_eq!(pops(lists), 1);
        }
        // The block at hand counts only if it will be popped.
        for (is_popped, left) in [(true, 1), (false, 0)] {
            set(other, Due::Sample, 0);
            assert!(!other.do_periodic_work(is_popped, |_| ()));
            assert_eq!(pops(other), left);
        }
        // A larger block of a thread that does not know of the profile draws for small ones as
        // well.
        let larger = with_only(None);
        assert!(larger.decide_other_sample(1000) && larger.countdown.is_over());

        // Points are so far apart that few blocks have one.
        sampler::begin(1 << 30);
        assert!((0..100).all(|_| !larger.decide_other_sample(1)));
        assert!(!lists.decide_small_sample(1000) && !lists.countdown.is_over());
        // The trial, of 1 KiB, has a point; a block of 100 bytes, a tenth as long, may have it.
        let hits = (0..400).filter(|_| {
            set(lists, Due::Sample, 0);
            let is_hit = lists.decide_small_sample(100);
            assert!(!lists.countdown.is_over(), "the next point is far");
            is_hit
        });
        let hits = hits.count();
        assert!((10..100).contains(&hits), "{hits} of 400");
        // If only something else is due, no block is sampled, and the trials go on.
        set(lists, Due::Sample, 5);
        set(lists, Due::Clock, 0);
        assert!(!lists.decide_small_sample(1024));
        set(lists, Due::Clock, NEVER);
        assert_eq!(pops(lists), 5);
    }

    /// A thread that must take the slow path for its next block has still counted those before.
    #[cfg(all(feature = "profiler", target_os = "linux", not(miri), target_pointer_width = "64"))]
    #[test]
    fn the_slow_path_can_be_forced() {
        let lists = with_only(None);
        set(lists, Due::Clock, 10);
        assert!((0..3).all(|_| lists.countdown.count_pop()));
        lists.force_slow_path();
        assert!(lists.countdown.is_over());
        lists.countdown.arm();
        assert_eq!(pops(lists), 7);
    }

    /// The first time that a guarded block is due, none is guarded, but the first distance is
    /// drawn. If none should be guarded, it is never due.
    #[cfg(all(feature = "guarded", not(miri), target_pointer_width = "64"))]
    #[test]
    fn a_thread_guards_from_the_second_time_on() {
        let lists = with_only(Some(Due::Guarded));
        assert_eq!([(); 3].map(|()| lists.decide_guard()), [false; 3]);
        lists.countdown.arm();
        lists.countdown.settle();
        assert!(!lists.countdown.is_due(Due::Guarded));
        crate::os::alone::passes("global::native::lists::quick::periodic::tests::guards");
    }

    #[cfg(all(feature = "guarded", not(miri), target_pointer_width = "64"))]
    #[test]
    #[ignore = "in a process of its own"]
    fn guards() {
        // The first block opens the allocator.
        let pagewise = crate::global::Pagewise { tuning: Tuning { guarded: 2, ..Tuning::new() } };
        assert!(!pagewise.allocate(1).is_null());
        let lists = with_only(Some(Due::Guarded));
        for round in 0..20 {
            let is_guarded = lists.do_periodic_work(true, |_| ());
            assert_eq!(is_guarded, round > 0);
            // Something else is due before that.
            set(lists, Due::Clock, 0);
            assert!(!lists.do_periodic_work(true, |_| ()));
            let pops = pops(lists);
            assert!(matches!(pops, 1 | 2), "{pops}");
        }
    }

    /// A thread maintains its heap every 64 ms, or at each look while memory goes back.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn a_thread_maintains_its_heap_every_64_ms() {
        let heap = crate::global::native::lists::registry::heap_for_test();
        // SAFETY: the lists belong to no thread, and are never freed.
        let lists = unsafe {
            make(&crate::global::tuning::Tuning::new()).expect("there is memory").as_ref()
        };
        lists.set_heap(heap);
        // Looks at the clock `since` milliseconds after the last look. Returns whether `follow` was
        // called, how long ago the last look was then, and whether there is more to do. Repeats
        // until the clock stands still meanwhile.
        let look = |since: u32| loop {
            let now = os::now();
            lists.last_clock_read.set((now as u32).wrapping_sub(since));
            let mut looks = false;
            let more = lists.look_at_clock(|_| looks = true);
            if os::now() == now {
                break (looks, (now as u32).wrapping_sub(lists.last_clock_read.get()), more);
            }
        };
        for since in [0, 1, 32, 62] {
            assert_eq!(look(since), (false, since, false));
        }
        assert_eq!(look(63), (false, 63, true), "memory was going back");
        // Other heaps may be maintained as well, and give memory back.
        for since in [64, 65, 1 << 20, u32::MAX] {
            let (looks, ago, more) = look(since);
            assert!(looks && ago == since_visit(since, more), "{since}: {ago}, {more}");
        }
    }

    /// While memory goes back, a thread visits once in a millisecond. After a sleep it catches up
    /// on eight visits, however long it slept.
    #[test]
    fn a_thread_catches_up_on_visits() {
        assert_eq!([PAUSE, PAUSE + 1, u32::MAX].map(|since| since_visit(since, false)), [0; 3]);
        assert_eq!(since_visit(PAUSE, true), PAUSE - 1, "the next millisecond");
        for slept in [CATCH_UP, 100, u32::MAX - PAUSE] {
            let mut since = PAUSE + slept;
            let visits = (0..100).take_while(|_| {
                let is_due = since >= PAUSE;
                since = if is_due { since_visit(since, true) } else { since };
                is_due
            });
            assert_eq!((visits.count(), since), (1 + CATCH_UP as usize, PAUSE - 1), "{slept}");
        }
    }
}
