//! Trials of algorithms on demands: metered on all cores, timed on one.

use pagewise_replay::progress::Progress;
use pagewise_replay::system::affinity::Pinned;
use rayon::prelude::*;

use super::levels::LEVELS;
use crate::experiments::nielsen::{Algorithm, Cost, Demand, Trial, clock};
use crate::table::Near;

/// Tolerance for costs: published in microseconds, ours in items, both relative to IV-1's.
pub(super) const COSTS: Near = Near::Percent(25.0);

/// Number of timed rounds of a trial.
pub(super) const ROUNDS: usize = 5;

/// An algorithm's results on a demand, by level; `None` where it failed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    pub(super) trials: [Option<Trial>; 3],
    /// Nanoseconds, minimum over the rounds. Not every demand is timed.
    pub(super) times: [Option<Cost>; 3],
}

/// Returns the steps of progress for `algorithms` on `demands`; `timed` of the demands are timed.
pub(super) fn count_steps(algorithms: usize, demands: usize, timed: usize) -> u64 {
    (algorithms * (demands + timed * ROUNDS)) as u64
}

/// Tries every algorithm on every demand, and times it on the first `timed` of them.
pub(super) fn all(
    algorithms: &[Algorithm],
    demands: &[Demand],
    timed: usize,
    progress: &Progress,
) -> Vec<Vec<Shown>> {
    let mut shown: Vec<Vec<Shown>> = algorithms
        .par_iter()
        .map(|algorithm| {
            let one = |demand| {
                let trials = LEVELS.map(|level| algorithm.tried(demand, level));
                progress.step(1, || format!("{}: metered", algorithm.name));
                Shown { trials, times: [None; 3] }
            };
            demands.par_iter().map(one).collect()
        })
        .collect();
    let _pinned = Pinned::to_one_cpu();
    let clock = clock();
    for (place, demand) in demands.iter().enumerate().take(timed) {
        let mut fastest = vec![[const { None }; 3]; algorithms.len()];
        // Algorithms take turns, so that a temporary slowdown of the machine affects all of them.
        for _ in 0..ROUNDS {
            for (algorithm, fastest) in algorithms.iter().zip(&mut fastest) {
                for (level, fastest) in LEVELS.into_iter().zip(fastest) {
                    *fastest = least(fastest.take(), algorithm.timed(demand, level));
                }
                progress.step(1, || format!("{}: timed", algorithm.name));
            }
        }
        for (shown, fastest) in shown.iter_mut().zip(fastest) {
            shown[place].times = fastest.map(|times: Option<Vec<u64>>| {
                times.map(|times| Cost::average(demand, &times, clock))
            });
        }
    }
    shown
}

/// Returns for each request the lesser of its times in two rounds: both do the same work, and extra
/// time is due to the machine.
pub(super) fn least(one: Option<Vec<u64>>, other: Option<Vec<u64>>) -> Option<Vec<u64>> {
    match (one, other) {
        (Some(one), Some(other)) => {
            Some(one.into_iter().zip(other).map(|(one, other)| one.min(other)).collect())
        }
        (one, other) => one.or(other),
    }
}

/// Returns the median; for an even number of figures, the mean of the middle two.
pub(super) fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    let upper = *figures.get(figures.len() / 2)?;
    Some(f64::midpoint(figures[(figures.len() - 1) / 2], upper))
}

/// Returns the mean; `None` without figures.
pub(super) fn mean(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for figure in figures {
        sum += figure;
        count += 1.0;
    }
    (count > 0.0).then(|| sum / count)
}
