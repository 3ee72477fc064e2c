//! The timed pass: plain strategies with the empty meter, alone on one CPU.
//!
//! The competitors take turns, so that whatever slows the machine for a while slows them all, and
//! each round begins with another, so that none always follows the same. Every run starts with a
//! fresh strategy: what it costs to touch memory for the first time is part of its time.

use std::alloc::Layout;
use std::path::Path;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use pagewise::paged::Config;

use super::system;
use crate::affinity::Pinned;
use crate::competitor::{CAPACITY, Competitor};
use crate::progress::Progress;
use crate::workload::{Observer, Stop, Workload};

/// Time for the timed rounds of all traces together, unless a number of rounds is asked for. With
/// the metered pass and the tables the whole comparison stays below two minutes on two cores.
const BUDGET: Duration = Duration::from_secs(60);
/// Fewest and most rounds when their number is left to us.
const ROUNDS: std::ops::RangeInclusive<u32> = 3..=15;

/// How many rounds to run.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rounds {
    Exactly(u32),
    Within(Duration),
}

impl Rounds {
    /// `repeat` rounds, or what fits an equal share of the budget for each of `traces` traces.
    pub(super) fn new(repeat: Option<u32>, traces: usize) -> Self {
        match repeat {
            Some(rounds) => Self::Exactly(rounds),
            None => Self::Within(BUDGET / u32::try_from(traces.max(8)).unwrap_or(u32::MAX)),
        }
    }

    /// Rounds in all, now that `done` of them took `spent`.
    fn estimate(self, done: u32, spent: Duration) -> u32 {
        match self {
            Self::Exactly(rounds) => rounds,
            Self::Within(budget) => {
                let per_round = spent.as_secs_f64() / f64::from(done);
                ((budget.as_secs_f64() / per_round) as u32).clamp(*ROUNDS.start(), *ROUNDS.end())
            }
        }
    }
}

/// The times of one competitor's rounds, in nanoseconds, ascending.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Times(Vec<f64>);

impl Times {
    /// The times of at least one round.
    fn new(rounds: &[Duration]) -> Self {
        let mut times: Vec<_> = rounds.iter().map(|time| time.as_nanos() as f64).collect();
        times.sort_by(f64::total_cmp);
        Self(times)
    }

    pub(super) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Half the distance between the quartiles, as a fraction of the median.
    pub(super) fn spread(&self) -> f64 {
        (self.quantile(0.75) - self.quantile(0.25)) / 2.0 / self.median().max(1.0)
    }

    fn quantile(&self, q: f64) -> f64 {
        let place = q * (self.0.len() - 1) as f64;
        let (below, above) = (self.0[place.floor() as usize], self.0[place.ceil() as usize]);
        below + (above - below) * place.fract()
    }
}

/// What the timed pass found.
#[derive(Debug)]
pub(super) struct Timed {
    /// In the order of the competitors.
    pub(super) times: Vec<Result<Times, Stop>>,
    /// How much slower the slower of two identical competitors was, as a fraction.
    pub(super) noise: f64,
}

/// Times every competitor over a trace, and SYSTEM twice more as the gauge of noise.
///
/// # Errors
/// If the trace cannot be read any more, or the system's allocator not be run.
pub(super) fn all(
    workload: &Workload,
    path: &Path,
    competitors: &[Competitor],
    config: Config,
    rounds: Rounds,
    progress: &Progress,
) -> anyhow::Result<Timed> {
    let _pinned = Pinned::to_one_cpu();
    let twins = [Competitor::System, Competitor::System];
    let system = competitors.iter().any(|one| matches!(one, Competitor::System));
    // A SYSTEM that takes part is one of the twins.
    let twins = &twins[usize::from(system)..];
    let mut lanes: Vec<_> = competitors.iter().chain(twins).map(Lane::new).collect();

    let start = Instant::now();
    let steps = competitors.len() as u64;
    let mut shown = 0;
    let mut done = 0;
    let mut total = 1;
    while done < total {
        let first = done as usize % lanes.len();
        for place in 0..lanes.len() {
            let lane = (first + place) % lanes.len();
            lanes[lane].run(workload, path, config)?;
        }
        done += 1;
        total = rounds.estimate(done, start.elapsed());
        let reached = steps * u64::from(done) / u64::from(total.max(done));
        let step = reached.saturating_sub(shown);
        progress.step(step, || format!("{}: round {done} of {total}", workload.name));
        shown += step;
    }

    let mut times: Vec<_> = lanes.into_iter().map(Lane::times).collect();
    let twin = times.pop().expect("at least one twin runs");
    let other = if system {
        let place = competitors.iter().position(|one| matches!(one, Competitor::System));
        place.map(|place| &times[place])
    } else {
        times.last()
    };
    let noise = match (other, &twin) {
        (Some(Ok(a)), Ok(b)) => difference(a.median(), b.median()),
        _ => 0.0,
    };
    times.truncate(competitors.len());
    Ok(Timed { times, noise })
}

/// Times one competitor, once.
///
/// # Errors
/// As [`all`].
pub(super) fn one(
    workload: &Workload,
    path: &Path,
    competitor: Competitor,
    config: Config,
) -> anyhow::Result<Result<Times, Stop>> {
    let _pinned = Pinned::to_one_cpu();
    let mut lane = Lane::new(&competitor);
    lane.run(workload, path, config)?;
    Ok(lane.times())
}

/// How much larger the larger of two numbers is, as a fraction of the smaller.
fn difference(a: f64, b: f64) -> f64 {
    a.max(b) / a.min(b).max(1.0) - 1.0
}

/// A competitor in its turns.
struct Lane {
    competitor: Competitor,
    rounds: Vec<Duration>,
    stopped: Option<Stop>,
}

impl Lane {
    fn new(competitor: &Competitor) -> Self {
        Self { competitor: *competitor, rounds: Vec::new(), stopped: None }
    }

    /// One more round, unless an earlier one ended early.
    fn run(&mut self, workload: &Workload, path: &Path, config: Config) -> anyhow::Result<()> {
        if self.stopped.is_some() {
            return Ok(());
        }
        let elapsed = match self.competitor {
            Competitor::System => system::timed(path)?,
            Competitor::Strategy(entry) => {
                let mut strategy = entry.build(config, CAPACITY)?;
                workload.replay(&mut *strategy, &mut Writes).map(|outcome| outcome.elapsed)
            }
        };
        match elapsed {
            Ok(elapsed) => self.rounds.push(elapsed),
            Err(Stop::Trace(error)) => return Err(error),
            Err(stop) => self.stopped = Some(stop),
        }
        Ok(())
    }

    fn times(self) -> Result<Times, Stop> {
        match self.stopped {
            Some(stop) => Err(stop),
            None => Ok(Times::new(&self.rounds)),
        }
    }
}

/// Writes the first and the last byte of every block, as the least a program would do.
pub(super) struct Writes;

impl<T: ?Sized> Observer<T> for Writes {
    #[inline(always)]
    fn allocated(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: the block is live and at least one byte long; the writes are volatile so that
        // the compiler keeps them although nobody reads them.
        unsafe {
            block.write_volatile(1);
            block.add(layout.size() - 1).write_volatile(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(nanoseconds: &[u64]) -> Times {
        Times::new(&nanoseconds.iter().map(|&ns| Duration::from_nanos(ns)).collect::<Vec<_>>())
    }

    #[test]
    fn the_median_is_of_sorted_times() {
        assert_eq!(times(&[30, 10, 20]).median(), 20.0);
        assert_eq!(times(&[40, 10, 20, 30]).median(), 25.0);
        assert_eq!(times(&[10]).spread(), 0.0);
        assert_eq!(times(&[10, 20, 30]).spread(), 0.25);
    }

    #[test]
    fn rounds_fill_the_budget_within_bounds() {
        let within = Rounds::Within(Duration::from_secs(4));
        assert_eq!(within.estimate(1, Duration::from_secs(10)), 3);
        assert_eq!(within.estimate(2, Duration::from_secs(1)), 8);
        assert_eq!(within.estimate(1, Duration::from_nanos(1)), 15);
        assert_eq!(Rounds::Exactly(7).estimate(1, Duration::from_secs(10)), 7);
    }

    #[test]
    fn a_difference_is_relative_to_the_smaller() {
        assert!((difference(110.0, 100.0) - 0.1).abs() < 1e-9);
        assert_eq!(difference(5.0, 5.0), 0.0);
    }
}
