//! The options of the experiments, and their results.

use std::sync::OnceLock;

use crate::table::Table;

/// How the experiments are run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options<'r> {
    pub(super) quick: bool,
    pub(super) seed: u64,
    /// The results of PQSIM at its usual load, once a table has needed them.
    pub(super) usual: &'r OnceLock<Vec<Measured>>,
}

/// The results of the runs over a strategy.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// Mean over the runs, in pages.
    pub(super) virtual_size: f64,
    /// Faults of each run.
    pub(super) faults: Vec<f64>,
}

/// A table, and its plot if it has one.
pub(super) struct Made {
    pub(super) table: Table,
    pub(super) svg: Option<String>,
}

impl From<Table> for Made {
    fn from(table: Table) -> Self {
        Self { table, svg: None }
    }
}
