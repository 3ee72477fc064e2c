//! The table of times: every algorithm over a trace, taking turns on one CPU.

use pagewise_replay::progress::Progress;
use pagewise_replay::timing::{Writes, in_turns};
use pagewise_replay::workload::{Stop, Workload};

use super::algorithms::ALGORITHMS;
use super::simulate::{HEADER, USUAL_GROWTH};
use crate::widened::{Widened, Words};

/// Rounds; the median counts.
pub(super) const ROUNDS: usize = 7;

/// Returns the nanoseconds of processor time that each algorithm takes for a trace, with explicit
/// frees.
///
/// # Errors
/// If one runs out of memory.
pub(super) fn all(
    workload: &Workload,
    words: Words,
    progress: &Progress,
) -> Result<Vec<(&'static str, f64)>, Stop> {
    let times = in_turns(ALGORITHMS.len(), ROUNDS, |which| {
        let algorithm = &ALGORITHMS[which];
        let mut strategy = (algorithm.timed)(USUAL_GROWTH);
        let mut widened = Widened::new(&mut *strategy, words, HEADER);
        let outcome = workload.replay(&mut widened, &mut Writes);
        progress.step(1, || format!("{}: timing {}", workload.name, algorithm.name));
        outcome
    })?;
    let names = ALGORITHMS.iter().map(|algorithm| algorithm.name);
    Ok(names.zip(times.iter().map(|rounds| rounds.median())).collect())
}
