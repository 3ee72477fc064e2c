//! The allocators that serve replays in child processes, and the measurements made there. A server
//! is a strategy; the global allocator, whose heap is the process's and whose tuning is fixed at
//! its first use; Lea's allocator; or `malloc`, the C library's or a preloaded one.
//!
//! As everywhere in the lab, metered runs are not timed.

mod held;
mod json;
mod resident;
mod server;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use pagewise_replay::timing::Writes;
use pagewise_replay::workload::{Observer, Outcome, Stop, Target, Workload};
use serde::{Deserialize, Serialize};

use self::resident::Watched;
use crate::child::{self, Job};
use crate::system::library::Library;

pub(crate) use self::held::{Held, Holding};
pub(crate) use self::resident::Memory;
pub(crate) use self::server::{Replay, Server};

/// Measures processor time, in nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Timed(Server);

impl Job for Timed {
    const NAME: &'static str = "timed";
    type Found = u64;

    fn run(&self, workload: &Workload) -> anyhow::Result<u64> {
        struct Timing<'w>(&'w Workload, Option<Outcome>);
        impl Replay for Timing<'_> {
            fn of<T: Target + ?Sized>(&mut self, target: &mut T) -> Result<(), Stop> {
                self.1 = Some(self.0.replay(target, &mut Writes)?);
                Ok(())
            }
        }
        let mut timing = Timing(workload, None);
        self.0.serve(&mut timing)?;
        let elapsed = timing.1.map_or(Duration::ZERO, |outcome| outcome.elapsed);
        Ok(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Measures the system's resources used by a replay.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Metered(Server);

impl Job for Metered {
    const NAME: &'static str = "metered";
    type Found = Memory;

    fn run(&self, workload: &Workload) -> anyhow::Result<Memory> {
        struct Metering<'w>(&'w Workload, Option<anyhow::Result<Memory>>);
        impl Replay for Metering<'_> {
            fn of<T: Target + ?Sized>(&mut self, target: &mut T) -> Result<(), Stop> {
                let mut watched = Watched::new(target, self.0.facts.pairs());
                self.0.replay(&mut watched, &mut Nobody)?;
                self.1 = Some(watched.finish());
                Ok(())
            }
        }
        let mut metering = Metering(workload, None);
        self.0.serve(&mut metering)?;
        metering.1.context("nothing was replayed")?
    }
}

/// Observes nothing.
struct Nobody;

impl<T: ?Sized> Observer<T> for Nobody {}

/// Returns the processor time of one replay in a fresh process.
///
/// # Errors
/// If the process cannot be run or fails, or the library was not loaded.
pub(crate) fn time(
    trace: &Path,
    server: &Server,
    library: Option<&Library>,
) -> anyhow::Result<Result<Duration, Stop>> {
    let found = child::run_in_child(&Timed(server.clone()), trace, library)?;
    Ok(found.map(Duration::from_nanos))
}

/// Returns the system's resources used by one replay in a fresh process.
///
/// # Errors
/// As [`time`]; if the system does not report them.
pub(crate) fn memory(
    trace: &Path,
    server: &Server,
    library: Option<&Library>,
) -> anyhow::Result<Result<Memory, Stop>> {
    child::run_in_child(&Metered(server.clone()), trace, library)
}

/// Returns the bytes that `malloc` holds in one replay in a fresh process, if it reports that, and
/// the OS pages touched.
///
/// # Errors
/// As [`time`].
pub(crate) fn holding(
    trace: &Path,
    server: &Server,
    library: Option<&Library>,
) -> anyhow::Result<Result<Holding, Stop>> {
    let is_c_library = *server == Server::Malloc && library.is_none();
    child::run_in_child(&Held { server: server.clone(), is_c_library }, trace, library)
}
