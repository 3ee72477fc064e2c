//! The C library's allocator, or one loaded in its place, in a process of its own.
//!
//! A fresh process has a fresh heap, and the simulation runs in it, so that no addresses have to be
//! carried over. The lab's own data, the simulation's included, come from another allocator (see
//! `main.rs`) that takes memory from the kernel in mappings of its own: no block of the replay
//! shares a page with them.
//!
//! ```text
//!  pagewise simulate ──spawns──► [LD_PRELOAD=LIB] pagewise simulate-system TRACE …
//!                    ◄──────────────── one line of JSON ────────────────┘
//! ```
//! `LIB` may be any library that defines `malloc`. The loader only warns of a library it cannot
//! load, so the process tells in which file its `malloc` lies.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::memory::{Found, Memory, Program};
use super::setup::{Touch, parse_page_size};
use crate::output;
use crate::system::child;
use crate::system::library::{Library, malloc_file};
use crate::workload::{Stop, System, Workload};

/// Simulates paging under the process's own `malloc`, for `simulate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    trace: PathBuf,
    #[arg(long, value_parser = parse_page_size)]
    page_size: usize,
    /// In pages.
    #[arg(long)]
    working_set: Vec<usize>,
    #[arg(long)]
    clock: bool,
    #[arg(long)]
    touch: Touch,
}

/// What a run reports to the process that started it.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    /// File that `malloc` lies in, if that can be told.
    malloc: Option<PathBuf>,
    outcome: Outcome,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Found(Found),
    Exhausted { operation: u64, bytes: usize },
}

/// Runs the hidden subcommand.
///
/// # Errors
/// A trace that cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let workload = Workload::load(&args.trace)?;
    let memory = Memory::new(args.page_size, args.clock.then_some(&args.working_set));
    let mut program = Program { memory: &memory, touch: args.touch };
    let outcome = match workload.replay(&mut System, &mut program) {
        Ok(_) => Outcome::Found(memory.found(&args.working_set)),
        Err(Stop::Exhausted { operation, bytes }) => Outcome::Exhausted { operation, bytes },
        Err(stop) => bail!(stop),
    };
    output::print_line(&serde_json::to_string(&Report { malloc: malloc_file(), outcome })?)?;
    Ok(ExitCode::SUCCESS)
}

/// Simulates paging under the C library's allocator, or under a library's, in a fresh process.
///
/// # Errors
/// If the process cannot be run or fails; if the library was not loaded.
pub(super) fn simulate(
    trace: &Path,
    library: Option<&Library>,
    page_size: usize,
    working_sets: &[usize],
    clock: bool,
    touch: Touch,
) -> anyhow::Result<Result<Found, Stop>> {
    let mut command = child::again("simulate-system")?;
    command.arg(format!("--page-size={page_size}"));
    command.args(working_sets.iter().map(|pages| format!("--working-set={pages}")));
    command.args(clock.then_some("--clock"));
    command.args(touch.to_possible_value().map(|touch| format!("--touch={}", touch.get_name())));
    command.arg("--").arg(trace);
    if let Some(library) = library {
        library.preload(&mut command);
    }
    child::fix_layout(&mut command);
    let report: Report = child::answer(&mut command, "the system's allocator")?;
    if let Some(library) = library {
        library.check_loaded(report.malloc.as_deref())?;
    }
    Ok(match report.outcome {
        Outcome::Found(found) => Ok(found),
        Outcome::Exhausted { operation, bytes } => Err(Stop::Exhausted { operation, bytes }),
    })
}
