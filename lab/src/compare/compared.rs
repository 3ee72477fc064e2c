//! One trace, and the results of each competitor on it: [`Compared`].

use super::row::Row;

/// One trace, and the results of each competitor on it.
#[derive(Debug)]
pub(crate) struct Compared {
    pub(super) trace: String,
    /// The trace as an argument of a command.
    pub(super) argument: String,
    /// A short description of the trace's requests.
    pub(super) about: String,
    /// Number of threads that the trace's events are from; the replay has one.
    pub(super) threads: u32,
    pub(crate) rows: Vec<Row>,
    /// By how much the slower of two identical competitors was slower, as a fraction; unknown if
    /// they were not timed.
    pub(super) noise: Option<f64>,
}

impl Compared {
    /// Returns whether the trace has no allocations: then there is nothing to time.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.iter().any(|row| row.stopped.is_none() && row.ns_per_pair.is_none())
    }
}
