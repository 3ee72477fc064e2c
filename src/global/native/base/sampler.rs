//! Chooses the allocations that are sampled, by the points of a Poisson process on the line of all
//! allocated bytes. Whatever a program allocates, a block of s bytes is hit with probability
//! 1 − e^(−s/N), where N is the mean distance between points.
//!
//! ```text
//!  bytes       |──16──|────40────|─8─|──────100──────|   a point falls into the third block
//!                                 ×
//!  trials of   |16 ···|40 ·|8 ···|100|                   the same points, where each small block
//!  span bytes          ×     ×                           counts as a whole span: the first hits the
//!                                                        block of 40, the second hits no block
//! ```
//! A block of more than 1 KiB takes the slow path while there is a profile, as every block does in
//! hardened mode. It subtracts its bytes from a distance drawn beforehand, and is hit where the
//! distance ends. Smaller blocks stay on the fast path, which counts pops, not bytes. So each of
//! them is a *trial* of 1 KiB: a point that falls behind the block's own bytes hits nothing. This
//! is exact, because the process is memoryless: any piece of the line may be left out, and the
//! first bytes of all trials form a Poisson process again.
//!
//! Short trials rarely contain a point: one in 512, at 512 KiB per sample. A trial as long as the
//! largest small block, 16 KiB, would contain one in 32. So larger small blocks, which are few, are
//! not trials.
//!
//! Each sample of s bytes stands for 1/(1 − e^(−s/N)) blocks, so sums over samples are unbiased
//! estimates of the counts and bytes, of every size and place.

use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use super::apart::Apart;
use crate::os;
use crate::words::scatter;

/// Valid mean distances, in bytes.
pub(in crate::global::native) const MEANS: core::ops::RangeInclusive<usize> = 1..=1 << 30;

/// Binary logarithm of a trial's span.
const SPAN: u32 = 10;

/// Bytes of the largest block that is a trial. (A distance in spans is an `i32`.)
pub(in crate::global::native) const TRIAL: usize = 1 << SPAN;

/// The profile that all threads sample for.
#[derive(Debug)]
struct Rate {
    /// Bytes between two points, on average.
    mean: AtomicUsize,
    /// Number of the profile; 0: there was none.
    profile: AtomicU32,
}

/// The profile of this process.
static RATE: Apart<Rate> =
    Apart::new(Rate { mean: AtomicUsize::new(1), profile: AtomicU32::new(0) });

/// Makes all threads draw anew, with this mean. Called by one thread at a time.
pub(in crate::global::native) fn begin(mean: usize) {
    RATE.mean.store(mean, Relaxed);
    RATE.profile.store(RATE.profile.load(Relaxed).wrapping_add(1).max(1), Relaxed);
}

/// A thread's next points. All zeros is a valid value.
#[derive(Debug)]
#[repr(C)]
pub(in crate::global::native) struct Sampler {
    /// The profile that the fields below belong to; see `Rate::profile`.
    profile: Cell<u32>,
    /// Offset of the next point in its trial.
    place: Cell<u32>,
    /// Bytes to the next point, for blocks that are not trials.
    bytes: Cell<u64>,
    /// State of the thread's random numbers.
    random: Cell<u64>,
    /// Whether the thread is taking a sample: allocations made for that are not sampled.
    busy: Cell<bool>,
}

impl Sampler {
    /// Resets the state for a new thread, whose predecessor may have ended in the middle of a
    /// sample.
    pub(in crate::global::native) fn begin(&self) {
        self.busy.set(false);
    }

    /// Runs `action`, unless the thread is taking a sample already.
    pub(in crate::global::native) fn run_unless_busy(&self, action: impl FnOnce()) {
        if !self.busy.replace(true) {
            action();
            self.busy.set(false);
        }
    }

    /// Returns whether the thread is taking a sample.
    pub(in crate::global::native) fn is_busy(&self) -> bool {
        self.busy.get()
    }

    /// Returns whether the points drawn belong to an earlier profile. If so, draws `bytes` anew;
    /// the caller then draws a trial, starting with the current block.
    pub(in crate::global::native) fn renew_if_stale(&self) -> bool {
        let profile = RATE.profile.load(Relaxed);
        if self.profile.get() == profile {
            return false;
        }
        self.profile.set(profile);
        self.bytes.set(self.distance());
        true
    }

    /// Counts a block of `size` bytes that is not a trial; returns whether it is hit.
    #[inline]
    pub(in crate::global::native) fn count_bytes(&self, size: usize) -> bool {
        let size = size.max(1) as u64;
        match self.bytes.get().checked_sub(size) {
            Some(left) => {
                self.bytes.set(left);
                false
            }
            None => {
                self.bytes.set(self.distance());
                true
            }
        }
    }

    /// Draws the next point; returns the number of trials before the one that contains it.
    #[inline]
    pub(in crate::global::native) fn draw(&self) -> i32 {
        let distance = self.distance();
        self.place.set((distance & ((1 << SPAN) - 1)) as u32);
        i32::try_from(distance >> SPAN).unwrap_or(i32::MAX - 1)
    }

    /// Returns whether the point in the current trial hits a block of `size` bytes.
    #[inline]
    pub(in crate::global::native) fn is_hit(&self, size: usize) -> bool {
        size.max(1) > self.place.get() as usize
    }

    /// Draws the whole bytes from any place to the next point.
    fn distance(&self) -> u64 {
        let mut state = self.random.get();
        if state == 0 {
            state = os::random() | 1;
        }
        let (number, next) = scatter::random(state);
        self.random.set(next);
        // In (0, 1]: 53 bits and a half.
        let uniform = ((number >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        (-ln(uniform) * RATE.mean.load(Relaxed) as f64) as u64
    }
}

/// Returns the natural logarithm of a normal positive number, to 12 digits. The C library's is in a
/// separate library, which a preloaded one should not need.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if mantissa > core::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    // ln m = 2 artanh s, |s| < 0.172.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    const SERIES: [f64; 8] =
        [1.0 / 15.0, 1.0 / 13.0, 1.0 / 11.0, 1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0, 1.0];
    let series = SERIES.into_iter().fold(0.0, |sum, coefficient| sum * square + coefficient);
    exponent as f64 * core::f64::consts::LN_2 + 2.0 * s * series
}

/// Returns the probability that a block of `size` bytes is hit: 1 − e^(−s/N).
#[cfg(any(test, all(feature = "profiler", target_os = "linux")))]
pub(in crate::global::native) fn chance(size: usize, mean: usize) -> f64 {
    fn chance(x: f64) -> f64 {
        if x > 40.0 {
            1.0
        } else if x > 0.25 {
            // A block is hit if either of its halves is.
            let half = chance(x / 2.0);
            half * (2.0 - half)
        } else {
            // x − x²/2! + x³/3! − …
            (1..=12).rev().fold(0.0, |sum, n| (1.0 - sum) * x / f64::from(n))
        }
    }
    chance(size.max(1) as f64 / mean as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(seed: u64) -> Sampler {
        let sampler: Sampler = Sampler {
            profile: Cell::new(0),
            place: Cell::new(0),
            bytes: Cell::new(0),
            random: Cell::new(seed),
            busy: Cell::new(false),
        };
        sampler.renew_if_stale();
        sampler
    }

    #[test]
    fn logarithms_and_chances_are_the_c_librarys() {
        for n in 0..10_000 {
            let x = 1.0 / (1.0 + f64::from(n) * f64::from(n) * 0.37);
            assert!((ln(x) - x.ln()).abs() < 1e-12, "{x}");
        }
        for mean in [1, 100, 512 << 10, 1 << 30] {
            for log in 0..34.min(usize::BITS as usize) {
                let size = (1_usize << log) + log;
                let expected = -(-(size as f64) / mean as f64).exp_m1();
                let relative = chance(size, mean) / expected - 1.0;
                assert!(relative.abs() < 1e-12, "{size} of {mean}: {relative}");
            }
        }
        assert_eq!(chance(0, 100), chance(1, 100));
    }

    /// A thread's points follow from its seed. It draws one if it has none.
    #[test]
    fn a_seed_determines_the_points() {
        let state_after_draws = |seed| {
            let sampler = sampler(seed);
            sampler.random.set(seed);
            (0..4).for_each(|_| _ = sampler.distance());
            sampler.random.get()
        };
        assert_eq!(state_after_draws(7), state_after_draws(7));
        assert_ne!(state_after_draws(7), state_after_draws(8));
        assert_ne!(state_after_draws(0), state_after_draws(0));
    }

    /// Sizes in a repeating pattern, as trials and one at a time, with fixed seeds: the number of
    /// samples of each size is within 4.5 standard deviations of the expected number.
    #[test]
    fn every_size_is_sampled_with_its_chance() {
        const SIZES: [usize; 7] = [1, 16, 100, 700, 1024, 5000, 16384];
        const TRIALS: usize = 5;
        const ROUNDS: u32 = 60_000;
        for mean in [3_000, 40_000] {
            for small in [true, false] {
                begin(mean);
                let sampler = sampler(mean as u64);
                let mut left = sampler.draw();
                let mut hit = [0_u32; SIZES.len()];
                for round in 0..ROUNDS as usize {
                    let sizes = if small { TRIALS } else { SIZES.len() };
                    for index in 0..sizes {
                        // The order of the sizes changes from round to round.
                        let index = (index + round % 3) % sizes;
                        let is_hit = if small {
                            left -= 1;
                            left < 0 && {
                                let is_hit = sampler.is_hit(SIZES[index]);
                                left = sampler.draw();
                                is_hit
                            }
                        } else {
                            sampler.count_bytes(SIZES[index])
                        };
                        hit[index] += u32::from(is_hit);
                    }
                }
                let sizes = if small { TRIALS } else { SIZES.len() };
                for (size, hit) in SIZES.into_iter().zip(hit).take(sizes) {
                    let chance = chance(size, mean);
                    let expected = chance * f64::from(ROUNDS);
                    let deviation = (expected * (1.0 - chance)).sqrt();
                    let off = (f64::from(hit) - expected) / deviation;
                    assert!(
                        off.abs() < 4.5,
                        "{size} of {mean}: {hit}, {expected} expected ({off})"
                    );
                }
            }
        }
    }
}
