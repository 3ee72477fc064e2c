//! The search for each program's settings: all points of a grid over the parameters of Table 7 and
//! three more of §3.
//!
//! 1. Every setting is replayed for its peak of bytes held, on all cores: exact, and the same in
//!    every run.
//! 2. Every setting is timed once, alone on one CPU.
//! 3. The finalists are timed again, taking turns: for least memory, the fastest of those that hold
//!    within [`NEAR`] of the least; for most speed, the fastest of all.
//! 4. HCmem is the fastest of the first group; HCperf the leanest of the second group whose time is
//!    within [`NEAR`] of the fastest's.
//!
//! Only the clock is random. The reported figures are measured again after the choice.

use pagewise::Strategy;
use pagewise::hybrid::{Hybrid, Settings};
use pagewise::source::Reserved;
use pagewise_replay::timing::in_turns;
use pagewise_replay::workload::{CAPACITY, Stop, Workload};
use rayon::prelude::*;

use super::program::replayed;
use crate::widened::Words;

/// The relative difference up to which figures count as equal.
const NEAR: f64 = 0.01;
/// Finalists of each kind, and their timed rounds.
const FINALISTS: usize = 6;
const ROUNDS: usize = 7;

/// Values of QL_HIGH, ours: the paper's 72 and 264, doubled; and larger ones.
const QL_HIGHS: [usize; 4] = [2 * 72, 2 * 264, 1024, 2032];

/// A program's settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuned {
    pub(super) memory: Settings,
    pub(super) performance: Settings,
}

/// Bytes that the heap keeps before each block.
pub(super) const HEADER: usize = 4;

/// Returns the heap with a setting for a program with words of this width, over its own memory.
/// QL_HIGH counts our words in every setting; the other sizes are as large as the paper's.
pub(super) fn heap(settings: Settings, words: Words) -> Hybrid<Settings, Reserved> {
    let factor = words.factor();
    let Settings { mmap_threshold, growth, much_held, .. } = settings;
    let settings = settings
        .mmap_threshold(mmap_threshold.saturating_mul(factor))
        .growth(growth * factor)
        .much_held(much_held * factor);
    Hybrid::new(settings, Reserved::new(CAPACITY), ())
}

/// Returns the points of the grid. A short search uses every other QL_HIGH, and only the parameters
/// of Table 7.
fn grid(quick: bool) -> Vec<Settings> {
    let mut grid = Vec::new();
    let further = if quick { 1 } else { 1 << 2 };
    for ql_high in QL_HIGHS.into_iter().take(if quick { 2 } else { 4 }) {
        for switches in 0..(1_u32 << 4) * further {
            let on = |switch: u32| switches >> switch & 1 == 1;
            let generic = Settings::generic();
            grid.push(
                generic
                    .monitor(false)
                    .coalesce(on(0))
                    .coalesce_ql(on(1))
                    .coalesce_in_free(on(2))
                    .split(on(3))
                    .mmap_threshold(if on(4) { usize::MAX } else { generic.mmap_threshold })
                    .preallocate(if on(5) { 0 } else { generic.preallocate })
                    .ql_high(ql_high),
            );
        }
    }
    grid
}

/// Finds a program's settings.
///
/// # Errors
/// If a replay stops, which does not depend on the settings.
pub(super) fn tune(workload: &Workload, words: Words, quick: bool) -> Result<Tuned, Stop> {
    let grid = grid(quick);
    let held = grid
        .par_iter()
        .map(|&config| {
            let mut heap = heap(config, words);
            replayed(workload, words, &mut heap, HEADER)?;
            Ok(heap.usage().peak_held as f64)
        })
        .collect::<Result<Vec<_>, Stop>>()?;
    let time = |settings: &[usize], rounds| {
        let times = in_turns(settings.len(), rounds, |index| {
            replayed(workload, words, &mut heap(grid[settings[index]], words), HEADER)
        })?;
        Ok(times.iter().map(|times| times.median()).collect::<Vec<f64>>())
    };
    let all: Vec<_> = (0..grid.len()).collect();
    let once = time(&all, 1)?;

    let fastest_of = |mut settings: Vec<usize>| {
        settings.sort_by(|&a, &b| once[a].total_cmp(&once[b]));
        settings.truncate(FINALISTS);
        settings
    };
    let least = held.iter().copied().fold(f64::INFINITY, f64::min);
    let lean = all.iter().copied().filter(|&one| held[one] <= least * (1.0 + NEAR));
    let (lean, fast) = (fastest_of(lean.collect()), fastest_of(all.clone()));
    let finalists = [lean.clone(), fast].concat();
    let times = time(&finalists, if quick { 1 } else { ROUNDS })?;
    let (lean_times, fast_times) = times.split_at(lean.len());

    let best = fast_times.iter().copied().fold(f64::INFINITY, f64::min);
    let near = |&(_, &time): &(&usize, &f64)| time <= best * (1.0 + NEAR);
    let memory = lean.iter().zip(lean_times).min_by(|a, b| a.1.total_cmp(b.1));
    let performance = finalists[lean.len()..].iter().zip(fast_times).filter(near);
    let performance = performance.min_by(|a, b| held[*a.0].total_cmp(&held[*b.0]));
    let chosen = |found: Option<(&usize, &f64)>| found.map_or(grid[0], |(&index, _)| grid[index]);
    Ok(Tuned { memory: chosen(memory), performance: chosen(performance) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grid_has_the_papers_settings_and_valid_parameters() {
        let grid = grid(false);
        assert_eq!(grid.len(), 256);
        assert!(grid.iter().all(|config| config.check().is_ok()));
        assert!(grid.contains(&Settings::memory()) && grid.contains(&Settings::performance()));
    }
}
