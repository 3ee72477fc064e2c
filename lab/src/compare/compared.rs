//! One trace, and the results of each competitor on it: [`Compared`].

use super::row::Row;

/// One trace, and the results of each competitor on it.
#[derive(Debug)]
pub(crate) struct Compared {
    pub(super) trace: String,
    /// A short description of the trace's requests.
    pub(super) about: String,
    /// Number of threads that the trace's events are from; the replay has one.
    pub(super) threads: u32,
    pub(crate) rows: Vec<Row>,
    /// By how much the slower of two identical competitors was slower, as a fraction.
    pub(super) noise: f64,
}
