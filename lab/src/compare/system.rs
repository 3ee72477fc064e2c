//! The system's allocator, each run in a process of its own, so that its heap is as new as a
//! strategy's.
//!
//! The lab's own data do not lie in that heap: the lab's global allocator is another one (see
//! `main.rs`). What the C library says it holds is therefore what the replay made it hold.
//!
//! ```text
//!  pagewise compare ──spawns──► pagewise system TRACE [--metered] ──one line of JSON──► compare
//! ```

use std::alloc::Layout;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::ptr::NonNull;
use std::time::Duration;

use anyhow::bail;
use serde::{Deserialize, Serialize};

use super::metered::Metered;
use super::timed::Writes;
use crate::output;
use crate::system::child;
use crate::system::gauge::Gauge;
use crate::touched::{PageSet, os_page_size};
use crate::workload::{Observer, Stop, System, Workload};

/// Bytes of the C library's tag before a block.
const TAG: usize = if cfg!(target_env = "gnu") { size_of::<usize>() } else { 0 };

/// Replays a trace with the system's allocator, for `compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    trace: PathBuf,
    /// Measure what is held and touched rather than time.
    #[arg(long)]
    metered: bool,
}

/// What a run reports to the process that started it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Report {
    Timed { nanoseconds: u64 },
    Metered { peak_held: Option<u64>, pages_touched: u64 },
    Exhausted { operation: u64, bytes: usize },
}

/// Runs the hidden subcommand.
///
/// # Errors
/// A trace that cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let workload = Workload::load(&args.trace)?;
    let report = if args.metered {
        let mut observer = Held::new();
        workload.replay(&mut System, &mut observer).map(|_| observer.report())
    } else {
        workload.replay(&mut System, &mut Writes).map(|outcome| {
            let nanoseconds = outcome.elapsed.as_nanos();
            Report::Timed { nanoseconds: u64::try_from(nanoseconds).unwrap_or(u64::MAX) }
        })
    };
    let report = match report {
        Ok(report) => report,
        Err(Stop::Exhausted { operation, bytes }) => Report::Exhausted { operation, bytes },
        Err(stop) => bail!(stop),
    };
    output::print_line(&serde_json::to_string(&report)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Time of one replay in a fresh process.
///
/// # Errors
/// If the process cannot be run or fails.
pub(super) fn timed(trace: &Path) -> anyhow::Result<Result<Duration, Stop>> {
    match spawn(trace, false)? {
        Report::Timed { nanoseconds } => Ok(Ok(Duration::from_nanos(nanoseconds))),
        Report::Exhausted { operation, bytes } => Ok(Err(Stop::Exhausted { operation, bytes })),
        Report::Metered { .. } => bail!("the system's allocator was metered, not timed"),
    }
}

/// What one replay in a fresh process holds and touches.
///
/// # Errors
/// If the process cannot be run or fails.
pub(super) fn metered(trace: &Path) -> anyhow::Result<Result<Metered, Stop>> {
    match spawn(trace, true)? {
        Report::Metered { peak_held, pages_touched } => {
            Ok(Ok(Metered { items: None, paged: None, peak_held, pages_touched }))
        }
        Report::Exhausted { operation, bytes } => Ok(Err(Stop::Exhausted { operation, bytes })),
        Report::Timed { .. } => bail!("the system's allocator was timed, not metered"),
    }
}

/// The most bytes held in one replay in a fresh process, if the C library tells.
///
/// # Errors
/// If the process cannot be run or fails.
pub(crate) fn peak_held(trace: &Path) -> anyhow::Result<Result<Option<u64>, Stop>> {
    Ok(metered(trace)?.map(|metered| metered.peak_held))
}

fn spawn(trace: &Path, metered: bool) -> anyhow::Result<Report> {
    let mut command = child::again("system")?;
    command.args(metered.then_some("--metered")).arg("--").arg(trace);
    child::answer(&mut command, "the system's allocator")
}

/// Marks the OS pages of blocks and tags, and follows what the C library holds.
struct Held {
    pages: PageSet,
    gauge: Gauge,
}

impl Held {
    fn new() -> Self {
        Self { pages: PageSet::new(os_page_size()), gauge: Gauge::new() }
    }

    fn report(&self) -> Report {
        Report::Metered { peak_held: self.gauge.peak(), pages_touched: self.pages.count() }
    }
}

impl<T: ?Sized> Observer<T> for Held {
    fn allocated(&mut self, block: NonNull<u8>, layout: Layout) {
        self.pages.mark_range(block.addr().get() - TAG, layout.size() + TAG);
        self.gauge.read_after(layout.size());
    }
}
