//! One trace, and how each competitor did on it: [`Compared`].

use super::row::Row;

/// One trace, and how each competitor did on it.
#[derive(Debug)]
pub(crate) struct Compared {
    pub(super) trace: String,
    /// The trace's requests, in a few words.
    pub(super) about: String,
    pub(crate) rows: Vec<Row>,
    /// How much slower the slower of two identical competitors was, as a fraction.
    pub(super) noise: f64,
}
