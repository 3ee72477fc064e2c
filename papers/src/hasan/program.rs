//! The programs of the experiments, and how they are run.

use std::path::PathBuf;

use pagewise_replay::timing::Writes;
use pagewise_replay::workload::{Outcome, Stop, Target, Workload};

use super::published::{self, Published};

/// How the experiments are run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) quick: bool,
}

/// A program with a trace.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) trace: String,
    pub(super) path: PathBuf,
}

impl Program {
    pub(super) fn published(&self) -> Option<&'static Published> {
        published::of(&self.trace)
    }

    /// What its rows are called.
    pub(super) fn row(&self) -> String {
        match self.published().and_then(|published| published.stands_for) {
            Some(theirs) => format!("{}, for {theirs}", self.trace),
            None => self.trace.clone(),
        }
    }
}

/// Replays a workload, writing each block's first and last byte.
pub(super) fn replayed<T: Target + ?Sized>(
    workload: &Workload,
    target: &mut T,
) -> Result<Outcome, Stop> {
    workload.replay(target, &mut Writes)
}
