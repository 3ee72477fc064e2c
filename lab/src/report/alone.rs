//! A process's own allocator, watched in a fresh process: the C library's, a preloaded one, or
//! pagewise's global one.

use pagewise_replay::workload::{Stop, Target, Workload};
use serde::{Deserialize, Serialize};

use super::watch::{Asked, Watch, Watched};
use crate::child::Job;
use crate::served::{Replay, Server};
use crate::system::gauge::Gauge;

/// Watches a replay.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WatchedAlone {
    pub(super) server: Server,
    /// Only the C library's own allocator reports the bytes held.
    pub(super) is_c_library: bool,
}

impl Job for WatchedAlone {
    const NAME: &'static str = "watched";
    type Found = Watched;

    fn run(&self, workload: &Workload) -> anyhow::Result<Watched> {
        let asked = Asked(self.is_c_library.then(Gauge::new));
        let mut watching = Watching { workload, watch: Watch::new(workload.facts, asked) };
        self.server.serve(&mut watching)?;
        Ok(watching.watch.finish())
    }
}

/// The process's replay.
struct Watching<'w> {
    workload: &'w Workload,
    watch: Watch<Asked>,
}

impl Replay for Watching<'_> {
    fn of<T: Target + ?Sized>(&mut self, target: &mut T) -> Result<(), Stop> {
        self.workload.replay(target, &mut self.watch).map(drop)
    }
}
