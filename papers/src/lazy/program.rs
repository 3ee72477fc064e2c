//! The results for one trace: [`Program`].

use super::simulate::{Figures, Setting};

/// The results for one trace.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) name: String,
    /// The paper's program that it records, if any.
    pub(super) row: Option<String>,
    /// By setting and algorithm.
    pub(super) figures: Vec<((Setting, &'static str), Figures)>,
    /// Time by algorithm; empty if not requested.
    pub(super) times: Vec<(&'static str, f64)>,
}

impl Program {
    pub(super) fn figures(&self, setting: Setting, algorithm: &str) -> Option<Figures> {
        let found = self.figures.iter().find(|(key, _)| *key == (setting, algorithm));
        found.map(|&(_, figures)| figures)
    }

    pub(super) fn time(&self, algorithm: &str) -> Option<f64> {
        self.times.iter().find(|(name, _)| *name == algorithm).map(|&(_, time)| time)
    }
}
