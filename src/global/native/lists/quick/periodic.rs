//! What a thread does once in a number of pops: it looks at the clock and gives memory back, and it
//! draws which blocks are guarded or sampled.

use super::super::countdown::{Due, NEVER};
use super::lists::Lists;
use crate::global::native::base::mode;
use crate::os;

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
            // Whether this block is sampled was decided before this call. To draw anew leaves a
            // trial out, which does no harm: any may be left out.
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
        /// Milliseconds between two calls of `maintain`; while memory is going back, one.
        const PAUSE: u32 = 64;
        let now = os::now() as u32;
        let since = now.wrapping_sub(self.last_clock_read.get());
        if since < PAUSE {
            return since == PAUSE - 1;
        }
        follow(self);
        let more = self.heap().maintain();
        self.last_clock_read.set(if more { now.wrapping_sub(PAUSE - 1) } else { now });
        more
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

    /// Makes lists that no thread has, in which neither sampling nor the clock is ever due.
    #[cfg(all(feature = "guarded", not(miri), target_pointer_width = "64"))]
    fn with_guarded_blocks_only() -> &'static Lists {
        // SAFETY: they are never freed.
        let lists = unsafe { make().expect("there is memory").as_ref() };
        [Due::Clock, Due::Sample].iter().for_each(|&due| lists.countdown.set(due, NEVER));
        lists
    }

    /// The first time that a guarded block is due, none is guarded, but the first distance is
    /// drawn. If none should be guarded, it is never due.
    #[cfg(all(feature = "guarded", not(miri), target_pointer_width = "64"))]
    #[test]
    fn a_thread_guards_from_the_second_time_on() {
        super::super::super::registry::heap_for_test();
        let lists = with_guarded_blocks_only();
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
        let lists = with_guarded_blocks_only();
        assert_eq!([(); 3].map(|()| lists.decide_guard()), [false, true, true]);
        lists.countdown.arm();
        let pops = (0..).find(|_| !lists.countdown.count_pop());
        assert!(matches!(pops, Some(1 | 2)), "{pops:?}");
    }

    /// A thread maintains its heap every 64 ms, or at each look while memory goes back.
    #[cfg(all(not(miri), target_pointer_width = "64"))]
    #[test]
    fn a_thread_maintains_its_heap_every_64_ms() {
        let heap = super::super::super::registry::heap_for_test();
        // SAFETY: the lists belong to no thread, and are never freed.
        let lists = unsafe { make().expect("there is memory").as_ref() };
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
            assert!(looks && ago == if more { 63 } else { 0 }, "{since}: {ago}, {more}");
        }
    }
}
