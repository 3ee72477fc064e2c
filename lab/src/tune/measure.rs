//! Measures candidates over traces: time, memory, page faults.

use std::path::{Path, PathBuf};

use pagewise_replay::timing::Writes;
use pagewise_replay::workload::{Stop, Workload};
use serde::{Deserialize, Serialize};

use crate::served::{self, Server};
use crate::simulate;
use crate::system::library::Library;

/// A server of a replay, and the library to preload for it, if any.
#[derive(Clone, Debug)]
pub(super) struct Allocator {
    pub(super) server: Server,
    pub(super) library: Option<Library>,
}

impl Allocator {
    /// Returns whether it is a process's own allocator.
    fn is_alone(&self) -> bool {
        matches!(self.server, Server::Global(_) | Server::Malloc)
    }
}

/// A trace, or a part of one, on which candidates are measured.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) path: PathBuf,
    pub(super) workload: Workload,
}

impl Course {
    /// # Errors
    /// If the trace cannot be read.
    pub(super) fn load(path: &Path) -> anyhow::Result<Self> {
        Ok(Self { path: path.to_owned(), workload: Workload::load(path)? })
    }

    /// Loads several.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub(super) fn load_all(paths: &[PathBuf]) -> anyhow::Result<Vec<Self>> {
        paths.iter().map(|path| Self::load(path)).collect()
    }

    /// Returns memory and page faults; `None` if memory did not suffice. For a process's allocator:
    /// peak resident memory, minor faults. For a strategy: the peak of the bytes held, and faults
    /// with memory for half of the peak (LRU).
    ///
    /// # Errors
    /// If the trace can no longer be read, or a process cannot be run.
    pub(super) fn exact(&self, allocator: &Allocator) -> anyhow::Result<Option<(u64, u64)>> {
        if allocator.is_alone() {
            let memory = served::memory(&self.path, &allocator.server, allocator.library.as_ref())?;
            return Ok(finished(memory)?.map(|memory| (memory.resident, memory.faults)));
        }
        let mut strategy = allocator.server.strategy()?;
        let faults = simulate::faults_at_half(&self.workload, &mut *strategy);
        let held = strategy.usage().peak_held as u64;
        Ok(finished(faults)?.map(|faults| (held, faults)))
    }

    /// Returns the nanoseconds of one replay; `None` if memory did not suffice.
    ///
    /// # Errors
    /// As [`exact`](Self::exact).
    pub(super) fn time(&self, allocator: &Allocator) -> anyhow::Result<Option<f64>> {
        if allocator.is_alone() {
            let time = served::time(&self.path, &allocator.server, allocator.library.as_ref())?;
            return Ok(finished(time)?.map(|time| time.as_nanos() as f64));
        }
        let mut strategy = allocator.server.strategy()?;
        let outcome = finished(self.workload.replay(&mut *strategy, &mut Writes))?;
        Ok(outcome.map(|outcome| outcome.elapsed.as_nanos() as f64))
    }
}

/// Returns the result of a replay that finished.
///
/// # Errors
/// If the trace could not be read.
pub(super) fn finished<T>(result: Result<T, Stop>) -> anyhow::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Stop::Trace(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// One candidate's measures on one trace, with the times of several rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) times: Vec<f64>,
    pub(super) memory: u64,
    pub(super) faults: u64,
}

impl Measured {
    /// Returns the median time, in nanoseconds.
    pub(super) fn time(&self) -> f64 {
        median(&self.times)
    }
}

/// Returns the median; NaN without values.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// Measures as multiples of the default's: geometric means over the traces.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Relative {
    pub(crate) time: f64,
    pub(crate) memory: f64,
    pub(crate) faults: f64,
}

impl Relative {
    /// Returns the ratio of one to another, averaged over the traces.
    pub(super) fn of(ours: &[Measured], theirs: &[Measured]) -> Self {
        let mean = |value: &dyn Fn(&Measured) -> f64| {
            mean_ratio(ours.iter().zip(theirs).map(|(a, b)| (value(a), value(b))))
        };
        Self {
            time: mean(&Measured::time),
            memory: mean(&|one| one.memory as f64),
            faults: mean(&|one| one.faults as f64),
        }
    }

    /// Returns the three measures as a cost.
    pub(super) fn cost(&self) -> [f64; 3] {
        [self.time, self.memory, self.faults]
    }
}

/// Returns the geometric mean of ratios.
pub(super) fn mean_ratio(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let logs: Vec<_> = pairs.map(|(a, b)| (a.max(1.0) / b.max(1.0)).ln()).collect();
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn ratios_are_means_over_the_traces() {
        let measured = |time, memory| Measured { times: vec![time], memory, faults: 10 };
        let ours = [measured(200.0, 100), measured(50.0, 100)];
        let theirs = [measured(100.0, 200), measured(100.0, 200)];
        let relative = Relative::of(&ours, &theirs);
        assert!((relative.time - 1.0).abs() < 1e-12 && (relative.memory - 0.5).abs() < 1e-12);
        assert_eq!(relative.faults, 1.0);
    }
}
