//! The system's allocator, watched in a process of its own, so that its heap is as new as a
//! strategy's.
//!
//! ```text
//!  pagewise report ──spawns──► pagewise watch-system TRACE ──one line of JSON──► report
//! ```

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;

use super::watch::{Watch, Watched};
use crate::output;
use crate::system::child;
use crate::system::gauge::Gauge;
use crate::workload::{Stop, System, Workload};

/// Watches a replay with the system's allocator, for `report`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    trace: PathBuf,
}

/// Runs the hidden subcommand. What it prints is null if there was not enough memory.
///
/// # Errors
/// A trace that cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let workload = Workload::load(&args.trace)?;
    let mut watch = Watch::new(workload.facts, Gauge::new());
    let watched = match workload.replay(&mut System, &mut watch) {
        Ok(_) => Some(watch.finish()),
        Err(Stop::Exhausted { .. }) => None,
        Err(stop) => bail!(stop),
    };
    output::print_line(&serde_json::to_string(&watched)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Watches one replay in a fresh process; none if there was not enough memory.
///
/// # Errors
/// If the process cannot be run or fails.
pub(super) fn watch(trace: &Path) -> anyhow::Result<Option<Watched>> {
    let mut command = child::again("watch-system")?;
    child::answer(command.arg("--").arg(trace), "the system's allocator")
}
