//! Usage over time: the peaks of bytes requested and held in each of equal parts of a trace.

use pagewise::Strategy;
use pagewise_replay::workload::Observer;
use serde::{Deserialize, Serialize};

/// Number of parts that fit a line of the terminal.
pub(crate) const LINE: u64 = 60;

/// Follows a strategy's usage.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Timeline {
    /// Peak of the bytes requested, by part.
    pub(crate) requested: Vec<u64>,
    /// Peak of the bytes held, by part.
    pub(crate) held: Vec<u64>,
    /// Total number of operations.
    #[serde(skip)]
    operations: u64,
    /// Operations done.
    #[serde(skip)]
    done: u64,
}

impl Timeline {
    /// For a replay of this many operations, in at most `parts` parts.
    pub(crate) fn new(operations: u64, parts: u64) -> Self {
        let parts = operations.clamp(1, parts) as usize;
        Self { requested: vec![0; parts], held: vec![0; parts], operations, done: 0 }
    }

    /// Returns the overall peak of the bytes held.
    pub(crate) fn most_held(&self) -> u64 {
        self.held.iter().copied().max().unwrap_or(0)
    }

    /// Records the bytes requested and held after the next operation. Operations beyond the
    /// announced number count for the last part.
    pub(crate) fn enter(&mut self, requested: u64, held: u64) {
        let parts = self.held.len();
        let part = u128::from(self.done) * parts as u128 / u128::from(self.operations.max(1));
        let part = (part as usize).min(parts - 1);
        self.requested[part] = self.requested[part].max(requested);
        self.held[part] = self.held[part].max(held);
        self.done += 1;
    }
}

impl<T: Strategy + ?Sized> Observer<T> for Timeline {
    fn done(&mut self, strategy: &T) -> Result<(), String> {
        let usage = strategy.usage();
        self.enter(usage.requested as u64, usage.held as u64);
        Ok(())
    }
}

/// Formats the values as a line of bars; `most` is the full height.
pub(crate) fn sparkline(values: &[u64], most: u64) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let height = |value: u64| (u128::from(value) * 8 / (u128::from(most) + 1)) as usize;
    values.iter().map(|&value| BARS[height(value.min(most))]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_spans_all_heights() {
        assert_eq!(sparkline(&[0, 1, 2, 3, 4, 5, 6, 7], 7), "▁▂▃▄▅▆▇█");
        assert_eq!(sparkline(&[u64::MAX, 0], u64::MAX), "█▁");
        assert_eq!(sparkline(&[], 0), "");
    }
}
