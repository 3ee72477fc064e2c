//! Counts down a thread's pops to the things that it does from time to time: it looks at the clock,
//! has a block [guarded](crate::global::native::guarded), or has one
//! [sampled](crate::global::native::profile).
//!
//! ```text
//!  pops   4 3 2 1 0   │ the pop that finds 0 takes the slow path,
//!  clock          2048│ which subtracts the pops since then from each
//!  guarded           5│ number of pops left; at 0 or less it is due;
//!  sample          ...│ `pops` begins again with the least number left
//! ```
//! The fast path counts down a single number, whatever is due next. An item that is off is never
//! due, and costs nothing.

use core::cell::Cell;

/// The items that may be due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::global::native) enum Due {
    Clock,
    Guarded,
    Sample,
}

const ALL: usize = 3;

/// Pops until an item that is off is due; then it is checked again.
pub(in crate::global::native) const NEVER: i32 = i32::MAX;

/// A thread's countdown. All zeros is a valid value: everything is due at once, for the first time.
#[derive(Debug)]
#[repr(C)]
pub(in crate::global::native) struct Countdown {
    /// Pops until something is due. Negative after a pop that was refused.
    pops: Cell<i32>,
    /// What `pops` began with; 0 once it is settled.
    stride: Cell<i32>,
    /// For each item, the pops until it is due, as of when `pops` began.
    left: [Cell<i32>; ALL],
}

impl Countdown {
    /// Counts a pop; returns whether nothing is due.
    #[inline(always)]
    pub(in crate::global::native) fn count_pop(&self) -> bool {
        let pops = self.pops.get() - 1;
        self.pops.set(pops);
        pops >= 0
    }

    /// Lets the next pop pass, whatever is due: it stays due.
    pub(super) fn let_one_pass(&self) {
        if self.is_over() {
            self.pops.set(1);
            self.stride.set(self.stride.get() + 1);
        }
    }

    /// Returns whether something is due.
    #[inline(always)]
    pub(in crate::global::native) fn is_over(&self) -> bool {
        self.pops.get() <= 0
    }

    /// Subtracts the pops since [`arm`](Self::arm) from what is left of each item. A second call in
    /// a row changes nothing.
    pub(super) fn settle(&self) {
        let passed = self.stride.get() - self.pops.get().max(0);
        for left in &self.left {
            left.set(left.get() - passed);
        }
        self.pops.set(0);
        self.stride.set(0);
    }

    /// Returns whether an item is due. Call only once [settled](Self::settle).
    pub(super) fn is_due(&self, due: Due) -> bool {
        self.left[due as usize].get() <= 0
    }

    /// Makes an item due after `pops` pops; 0: at once.
    pub(in crate::global::native) fn set(&self, due: Due, pops: i32) {
        self.left[due as usize].set(pops);
    }

    /// Begins counting anew; `pops` stays 0 while something is still due.
    pub(in crate::global::native) fn arm(&self) {
        let least = self.left.iter().map(Cell::get).min().unwrap_or(NEVER).max(0);
        self.pops.set(least);
        self.stride.set(least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a countdown with these numbers of pops until each of the two is due.
    fn armed(clock: i32, guarded: i32) -> Countdown {
        let countdown =
            Countdown { pops: Cell::new(0), stride: Cell::new(0), left: Default::default() };
        countdown.set(Due::Clock, clock);
        countdown.set(Due::Guarded, guarded);
        countdown.set(Due::Sample, NEVER);
        countdown.arm();
        countdown
    }

    /// A pop that passes although something is due is counted, and what is due stays so.
    #[test]
    fn a_pop_that_must_pass_does() {
        let countdown = armed(9, 2);
        countdown.let_one_pass();
        let passes = [(); 4].map(|()| countdown.count_pop());
        assert_eq!(passes, [true, true, false, false]);
        for _ in 0..2 {
            countdown.let_one_pass();
            assert!(countdown.count_pop() && countdown.is_over());
        }
        countdown.settle();
        assert_eq!(countdown.left[Due::Clock as usize].get(), 9 - 4, "pops that passed");
        assert!(countdown.is_due(Due::Guarded));
    }

    /// Two items with different periods are each due exactly when they would be alone.
    #[test]
    fn each_is_due_in_its_time() {
        let countdown = armed(7, 3);
        let (mut clock, mut guarded) = (7, 3);
        for pop in 1..1000 {
            if !countdown.count_pop() {
                countdown.settle();
                countdown.settle();
                assert_eq!(countdown.is_due(Due::Clock), pop == clock + 1, "{pop}");
                assert_eq!(countdown.is_due(Due::Guarded), pop == guarded + 1, "{pop}");
                assert!(!countdown.is_due(Due::Sample));
                if countdown.is_due(Due::Clock) {
                    countdown.set(Due::Clock, 7);
                    clock = pop + 6;
                }
                countdown.arm();
                assert_eq!(
                    countdown.is_over(),
                    countdown.is_due(Due::Guarded),
                    "what is due stays so"
                );
                if countdown.is_due(Due::Guarded) {
                    countdown.set(Due::Guarded, 3);
                    guarded = pop + 2;
                    countdown.arm();
                }
                assert!(countdown.count_pop(), "the block at hand is popped now");
            } else {
                assert!(pop <= clock && pop <= guarded, "{pop}");
            }
        }
    }
}
