//! The timed pass: strategies without metering, alone on one CPU.
//!
//! The competitors take [turns], so that a temporary slowdown of the machine affects all of them,
//! and none always follows the same one. Every run starts with a fresh strategy: the first touch of
//! memory is part of its time.

use std::path::Path;
use std::time::{Duration, Instant};

use pagewise_replay::lea::Lea;
use pagewise_replay::progress::Progress;
use pagewise_replay::system::affinity::Pinned;
use pagewise_replay::timing::{Times, Writes, turns};
use pagewise_replay::workload::{CAPACITY, Stop, Target, Workload};

use crate::competitor::{Competitor, Parameters};
use crate::served;

/// Time for the timed rounds of all traces together, unless a number of rounds is given. With the
/// metered pass and the tables, the whole comparison takes less than two minutes on two cores.
const BUDGET: Duration = Duration::from_secs(30);
/// The budget is divided by at least this number of traces: a single trace should not use all of
/// it.
const TRACES: usize = 8;
/// Minimum and maximum number of rounds, if none is given. A competitor gets the minimum unless it
/// has used its share of the budget twice, and [`PATIENCE`].
const ROUNDS: std::ops::Range<usize> = 3..15;
/// Time for the minimum number of rounds of a competitor, however small its share of the budget: a
/// single round may have met anything.
const PATIENCE: f64 = 3.0;

/// How many rounds to run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rounds {
    Exactly(u32),
    /// As many as fit into this time per trace, shared equally by the competitors.
    Within(Duration),
}

impl Rounds {
    /// Makes `repeat` rounds, or as many as fit into an equal share of the budget for each of
    /// `traces` traces.
    pub(super) fn new(repeat: Option<u32>, traces: usize) -> Self {
        match repeat {
            Some(rounds) => Self::Exactly(rounds),
            None => Self::Within(BUDGET / traces.max(TRACES) as u32),
        }
    }

    /// Returns the progress, as a fraction, of one of `lanes` competitors after `done` rounds in
    /// the time `spent`; 1 when it is done.
    fn progress(self, lanes: usize, done: usize, spent: Duration) -> f64 {
        match self {
            Self::Exactly(rounds) => done as f64 / f64::from(rounds),
            Self::Within(budget) => {
                let share = budget.as_secs_f64() / lanes as f64;
                let spent = spent.as_secs_f64();
                let with_another = spent + spent / done.max(1) as f64;
                let few = done < ROUNDS.start && spent <= PATIENCE.max(2.0 * share);
                if done == 0 || few || (done < ROUNDS.end && with_another <= share) {
                    (spent / share).max(done as f64 / ROUNDS.end as f64).min(0.99)
                } else {
                    1.0
                }
            }
        }
    }
}

/// The results of the timed pass.
#[derive(Debug)]
pub(super) struct Timed {
    /// In the order of the competitors.
    pub(super) times: Vec<Result<Times, Stop>>,
    /// By how much the slower of two identical competitors was slower, as a fraction; unknown if
    /// they did not finish, or there is nothing to time.
    pub(super) noise: Option<f64>,
}

/// Times every competitor over a trace, and SYSTEM twice more to measure the noise.
///
/// # Errors
/// If the trace can no longer be read, or the system's allocator cannot be run.
pub(super) fn all(
    workload: &Workload,
    path: &Path,
    competitors: &[Competitor],
    parameters: &Parameters,
    rounds: Rounds,
    progress: &Progress,
) -> anyhow::Result<Timed> {
    let _pinned = Pinned::to_one_cpu();
    let twins = [Competitor::System, Competitor::System];
    let system = competitors.iter().any(|one| matches!(one, Competitor::System));
    // If SYSTEM takes part, it is one of the twins.
    let twins = &twins[usize::from(system)..];
    let mut lanes: Vec<_> = competitors.iter().chain(twins).map(Lane::new).collect();

    let steps = competitors.len() as u64;
    let mut shown = 0;
    for round in 0.. {
        let count = lanes.len();
        for index in turns(count, round) {
            let lane = &mut lanes[index];
            if lane.progress(rounds, count) < 1.0 {
                lane.run(workload, path, parameters)?;
            }
        }
        let progresses = lanes.iter().map(|lane| lane.progress(rounds, count));
        let average = progresses.sum::<f64>() / count as f64;
        let step = (average * steps as f64 + 1e-9) as u64 - shown;
        progress.step(step, || format!("{}: timing, round {}", workload.name, round + 1));
        shown += step;
        if average >= 1.0 {
            break;
        }
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
        (Some(Ok(a)), Ok(b)) if workload.facts.pairs() > 0 => {
            Some(difference(a.median(), b.median()))
        }
        _ => None,
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
    parameters: &Parameters,
) -> anyhow::Result<Result<Times, Stop>> {
    let _pinned = Pinned::to_one_cpu();
    let mut lane = Lane::new(&competitor);
    lane.run(workload, path, parameters)?;
    Ok(lane.times())
}

/// Returns by how much the larger of two numbers exceeds the smaller, as a fraction of the smaller.
fn difference(a: f64, b: f64) -> f64 {
    a.max(b) / a.min(b).max(1.0) - 1.0
}

/// A competitor and its rounds.
struct Lane {
    competitor: Competitor,
    rounds: Vec<Duration>,
    /// Time of all rounds, including preparation.
    spent: Duration,
    stopped: Option<Stop>,
}

impl Lane {
    fn new(competitor: &Competitor) -> Self {
        let competitor = *competitor;
        Self { competitor, rounds: Vec::new(), spent: Duration::ZERO, stopped: None }
    }

    /// Returns its progress, as a fraction.
    fn progress(&self, rounds: Rounds, lanes: usize) -> f64 {
        match self.stopped {
            Some(_) => 1.0,
            None => rounds.progress(lanes, self.rounds.len(), self.spent),
        }
    }

    /// Runs one more round.
    fn run(
        &mut self,
        workload: &Workload,
        path: &Path,
        parameters: &Parameters,
    ) -> anyhow::Result<()> {
        let start = Instant::now();
        let elapsed = match self.competitor {
            Competitor::Global | Competitor::System | Competitor::Library(_) => {
                let server = self.competitor.server(parameters);
                served::time(path, &server, self.competitor.library())?
            }
            Competitor::Lea => {
                // Called through a vtable, as the strategies are.
                let lea: &mut dyn Target = &mut Lea::new(CAPACITY);
                workload.replay(lea, &mut Writes).map(|outcome| outcome.elapsed)
            }
            Competitor::Strategy(_) | Competitor::Hybrid => {
                let mut strategy = self.competitor.server(parameters).strategy()?;
                workload.replay(&mut *strategy, &mut Writes).map(|outcome| outcome.elapsed)
            }
        };
        self.spent += start.elapsed();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rounds of one of 10 competitors if each round takes `seconds`.
    fn rounds(rule: Rounds, seconds: f64) -> usize {
        let spent = |done: usize| Duration::from_secs_f64(seconds * done as f64);
        (0..).find(|&done| rule.progress(10, done, spent(done)) >= 1.0).unwrap()
    }

    #[test]
    fn rounds_fill_the_budget_within_bounds() {
        let within = Rounds::Within(Duration::from_secs(10));
        assert_eq!(rounds(within, 0.125), 8);
        assert_eq!(rounds(within, 1e-6), 15);
        assert_eq!(rounds(within, 0.9), 3);
        assert_eq!(rounds(within, 60.0), 1);
        // On a busy machine, the share of one of many traces may be less than a round.
        assert_eq!(rounds(Rounds::Within(Duration::from_secs(2)), 0.9), 3);
        assert_eq!(rounds(Rounds::Exactly(7), 60.0), 7);
    }

    #[test]
    fn a_difference_is_relative_to_the_smaller() {
        assert!((difference(110.0, 100.0) - 0.1).abs() < 1e-9);
        assert_eq!(difference(5.0, 5.0), 0.0);
    }
}
