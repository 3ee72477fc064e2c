//! A replay in a process of its own, whoever serves it: a strategy, the global allocator, whose heap
//! is the process's and whose tuning is fixed at its first use, Lea's allocator, or `malloc`, the C
//! library's or a library's that is loaded in its place.
//!
//! ```text
//!  pagewise tune ──spawns──► [LD_PRELOAD=LIB] pagewise serve-alone TRACE --server JSON [--metered]
//!                ◄──────────────────────── one line of JSON ────────────────────┘
//! ```
//! The lab's own data come from another allocator (see `main.rs`), so what grows is what serves.
//! As everywhere in the lab, what is metered is not timed: see [`resident`](super::resident).

use std::alloc::{GlobalAlloc, Layout};
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::ptr::NonNull;
use std::str::FromStr;

use anyhow::bail;
use pagewise::global::Pagewise;
use serde::{Deserialize, Serialize};

use super::candidate::Candidate;
use super::resident::Watched;
use crate::compare::Writes;
use crate::competitor::CAPACITY;
use crate::lea::Lea;
use crate::output;
use crate::system::child;
use crate::system::library::{Library, malloc_file};
use crate::workload::{Observer, Stop, System, Target, Workload};

/// Whether a variable of the environment would change what is measured: another library, or a setting of
/// the allocator.
fn meddles(name: &OsStr) -> bool {
    name == "LD_PRELOAD" || name.as_encoded_bytes().starts_with(b"PAGEWISE_")
}

/// Replays a trace in a process of its own, for `tune`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    trace: PathBuf,
    /// Who serves, as JSON.
    #[arg(long)]
    server: Server,
    /// Measure memory rather than time.
    #[arg(long)]
    metered: bool,
}

/// Who serves a replay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Server {
    Candidate(Candidate),
    Lea,
    /// What the process's `malloc` is.
    Malloc,
}

impl FromStr for Server {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(text)
    }
}

/// What a run reports to the process that started it.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    /// File that `malloc` lies in, if that can be told.
    malloc: Option<PathBuf>,
    /// None if there was not enough memory.
    found: Option<Found>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Found {
    Nanoseconds(u64),
    Memory(Memory),
}

/// What a replay takes of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Memory {
    /// The most bytes that were resident at one time, beyond those that were before.
    pub(super) resident: u64,
    /// Minor page faults.
    pub(super) faults: u64,
}

/// Runs the hidden subcommand.
///
/// # Errors
/// A trace that cannot be read, parameters that make no sense.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let workload = Workload::load(&args.trace)?;
    let found = match &args.server {
        Server::Candidate(Candidate::Global(global)) => {
            global.tuning().check()?;
            measure(&workload, &mut Direct(Pagewise::with(global.tuning())), args.metered)
        }
        Server::Candidate(candidate) => measure(&workload, &mut *candidate.build()?, args.metered),
        Server::Lea => {
            // Called as the strategies are: through a table of functions.
            let lea: &mut dyn Target = &mut Lea::new(CAPACITY);
            measure(&workload, lea, args.metered)
        }
        Server::Malloc => measure(&workload, &mut System, args.metered),
    };
    let found = match found {
        Ok(found) => Some(found),
        Err(Stop::Exhausted { .. }) => None,
        Err(stop) => bail!(stop),
    };
    output::print_line(&serde_json::to_string(&Report { malloc: malloc_file(), found })?)?;
    Ok(ExitCode::SUCCESS)
}

fn measure<T: Target + ?Sized>(
    workload: &Workload,
    target: &mut T,
    metered: bool,
) -> Result<Found, Stop> {
    if metered {
        let mut watched = Watched::new(target, workload.facts.pairs());
        workload.replay(&mut watched, &mut Nobody)?;
        watched.finish().map(Found::Memory).map_err(Stop::Trace)
    } else {
        let outcome = workload.replay(target, &mut Writes)?;
        Ok(Found::Nanoseconds(u64::try_from(outcome.elapsed.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Watches nothing.
struct Nobody;

impl<T: ?Sized> Observer<T> for Nobody {}

/// The global allocator, called as a program calls it.
struct Direct(Pagewise);

// SAFETY: the contract is `GlobalAlloc`'s own; sizes are not 0.
unsafe impl Target for Direct {
    #[inline(always)]
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the layout's size is not 0.
        NonNull::new(unsafe { self.0.alloc(layout) })
    }

    #[inline(always)]
    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<u8>> {
        // SAFETY: passed on; the new size is not 0.
        NonNull::new(unsafe { self.0.realloc(block.as_ptr(), layout, new_size) })
    }

    #[inline(always)]
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        // SAFETY: passed on.
        unsafe { self.0.dealloc(block.as_ptr(), layout) };
    }
}

/// Nanoseconds of one replay; none if there was not enough memory.
///
/// # Errors
/// If the process cannot be run or fails, or the library was not loaded.
pub(super) fn time(
    trace: &Path,
    server: &Server,
    library: Option<&Library>,
) -> anyhow::Result<Option<f64>> {
    match spawn(trace, server, library, false)? {
        None => Ok(None),
        Some(Found::Nanoseconds(time)) => Ok(Some(time as f64)),
        Some(Found::Memory(_)) => bail!("a replay was metered, not timed"),
    }
}

/// What one replay takes of the system; none if there was not enough memory.
///
/// # Errors
/// As [`time`]; if the system does not tell.
pub(super) fn memory(
    trace: &Path,
    server: &Server,
    library: Option<&Library>,
) -> anyhow::Result<Option<Memory>> {
    match spawn(trace, server, library, true)? {
        None => Ok(None),
        Some(Found::Memory(memory)) => Ok(Some(memory)),
        Some(Found::Nanoseconds(_)) => bail!("a replay was timed, not metered"),
    }
}

fn spawn(
    trace: &Path,
    server: &Server,
    library: Option<&Library>,
    metered: bool,
) -> anyhow::Result<Option<Found>> {
    let mut command = child::again("serve-alone")?;
    env::vars_os().map(|(name, _)| name).filter(|name| meddles(name)).for_each(|name| {
        command.env_remove(name);
    });
    command.arg("--server").arg(serde_json::to_string(server)?);
    command.args(metered.then_some("--metered")).arg("--").arg(trace);
    if let Some(library) = library {
        library.preload(&mut command);
    }
    child::fix_layout(&mut command);
    let report: Report = child::answer(&mut command, "a replay in a process of its own")?;
    if let Some(library) = library {
        library.check_loaded(report.malloc.as_deref())?;
    }
    Ok(report.found)
}
