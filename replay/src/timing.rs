//! Timing: runs that take turns, alone on one CPU, and the minimum that a program does with its
//! blocks.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::time::Duration;

use crate::system::affinity::Pinned;
use crate::workload::{Observer, Outcome, Stop};

/// The times of one competitor's rounds, in nanoseconds, ascending.
#[derive(Clone, Debug, PartialEq)]
pub struct Times(Vec<f64>);

impl Times {
    /// Returns the times of at least one round.
    pub fn new(rounds: &[Duration]) -> Self {
        let mut times: Vec<_> = rounds.iter().map(|time| time.as_nanos() as f64).collect();
        times.sort_by(f64::total_cmp);
        Self(times)
    }

    /// Returns the least.
    pub fn least(&self) -> f64 {
        self.0[0]
    }

    /// Returns the median.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns half of the interquartile range, as a fraction of the median; `None` for a single
    /// round.
    pub fn spread(&self) -> Option<f64> {
        let quartiles = self.quantile(0.75) - self.quantile(0.25);
        (self.0.len() > 1).then(|| quartiles / 2.0 / self.median().max(1.0))
    }

    fn quantile(&self, q: f64) -> f64 {
        let place = q * (self.0.len() - 1) as f64;
        let (below, above) = (self.0[place.floor() as usize], self.0[place.ceil() as usize]);
        below + (above - below) * place.fract()
    }
}

/// Returns the order in which `runs` runs take their turns in a round: each round begins with the
/// next run, and every other one goes backwards. So the after-effects of a run, above all pages
/// that the kernel passes to the next one, do not always affect the same run. If all rounds went
/// forwards, nearly every run would always follow the same one, whichever came first.
pub fn turns(runs: usize, round: usize) -> impl Iterator<Item = usize> {
    let first = round % runs.max(1);
    (0..runs).map(move |place| {
        let on = if round.is_multiple_of(2) { place } else { runs - place };
        (first + on) % runs
    })
}

/// Times runs that take [turns], alone on one CPU, for `rounds` rounds. The first run that stops
/// ends everything.
///
/// # Errors
/// Why a run stopped.
pub fn in_turns(
    runs: usize,
    rounds: usize,
    mut run: impl FnMut(usize) -> Result<Outcome, Stop>,
) -> Result<Vec<Times>, Stop> {
    let _pinned = Pinned::to_one_cpu();
    let mut elapsed = vec![Vec::with_capacity(rounds); runs];
    for round in 0..rounds {
        for index in turns(runs, round) {
            elapsed[index].push(run(index)?.elapsed);
        }
    }
    Ok(elapsed.iter().map(|rounds| Times::new(rounds)).collect())
}

/// Writes the first and the last byte of every block, the minimum that a program would do.
///
/// Safe code cannot pass it memory that is not a block:
/// ```compile_fail,E0133
/// use std::alloc::Layout;
/// use std::ptr::NonNull;
/// use pagewise_replay::{timing::Writes, workload::Observer};
///
/// fn hostile(live: &Box<u64>) {
///     Observer::<()>::allocated(&mut Writes, NonNull::from(&**live).cast(), Layout::new::<u64>());
/// }
/// ```
pub struct Writes;

impl<T: ?Sized> Observer<T> for Writes {
    #[inline(always)]
    unsafe fn allocated(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller guarantees that the block is live and has this layout, so it is at
        // least one byte long. The writes are volatile so that the compiler keeps them although
        // they are never read.
        unsafe {
            block.write_volatile(1);
            block.add(layout.size() - 1).write_volatile(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn times(nanoseconds: &[u64]) -> Times {
        Times::new(&nanoseconds.iter().map(|&ns| Duration::from_nanos(ns)).collect::<Vec<_>>())
    }

    #[test]
    fn no_run_always_follows_the_same_one() {
        let orders = |runs, rounds| {
            (0..rounds).map(move |round| turns(runs, round).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        assert!(orders(0, 3).iter().all(Vec::is_empty));
        assert_eq!(orders(1, 2), [[0], [0]]);
        assert_eq!(orders(2, 4), [[0, 1], [1, 0], [0, 1], [1, 0]]);
        for runs in 3..20 {
            let mut before = vec![BTreeSet::new(); runs];
            for order in orders(runs, 2 * runs) {
                assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), runs, "each has a turn");
                for pair in order.windows(2) {
                    before[pair[1]].insert(pair[0]);
                }
            }
            assert!(before.iter().all(|before| before.len() > 1), "{runs} runs: {before:?}");
            let first = orders(runs, runs).into_iter().map(|order| order[0]);
            assert!(first.eq(0..runs), "each begins once");
        }
    }

    #[test]
    fn the_median_is_of_sorted_times() {
        assert_eq!(times(&[30, 10, 20]).median(), 20.0);
        assert_eq!(times(&[40, 10, 20, 30]).median(), 25.0);
        assert_eq!(times(&[10]).spread(), None);
        assert_eq!(times(&[10, 20, 30]).spread(), Some(0.25));
    }
}
