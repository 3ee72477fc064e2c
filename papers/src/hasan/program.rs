//! The programs of the experiments, and how they are run.

use pagewise_replay::timing::Writes;
use pagewise_replay::workload::{Outcome, Stop, Target, Workload};

use super::published::{self, Published};
use crate::recorded::Recorded;
use crate::widened::{Widened, Words};

/// How the experiments are run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) quick: bool,
}

/// A program with a trace.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) trace: Recorded,
    /// The paper's figures for it, or for the program that it stands in for.
    pub(super) published: Option<&'static Published>,
}

impl Program {
    pub(super) fn new(trace: Recorded) -> Self {
        let published = published::of(trace.row_of(published::PAPER), &trace.name);
        Self { trace, published }
    }

    /// Returns whether it has rows in the tables: recordings for other papers are left out.
    pub(super) fn has_rows(&self) -> bool {
        self.published.is_some() || self.trace.words == Words::Whole
    }

    /// Returns the name of its rows.
    pub(super) fn row(&self) -> String {
        let name = &self.trace.name;
        match self.published {
            Some(Published { program, stand_in: Some(_), .. }) => format!("{name}, for {program}"),
            Some(Published { program, .. }) => format!("{name} ({program})"),
            None => name.clone(),
        }
    }
}

/// Replays a program's workload with words of this width, writing each block's first and last byte.
/// The allocator keeps `header` bytes before each block.
pub(super) fn replayed<T: Target + ?Sized>(
    workload: &Workload,
    words: Words,
    target: &mut T,
    header: usize,
) -> Result<Outcome, Stop> {
    match words {
        Words::Whole => workload.replay(target, &mut Writes),
        Words::Half => workload.replay(&mut Widened::new(target, words, header), &mut Writes),
    }
}
