//! The system's allocator, watched in a process of its own, so that its heap is as new as a
//! strategy's.

use serde::{Deserialize, Serialize};

use super::watch::{Watch, Watched};
use crate::child::Job;
use crate::system::gauge::Gauge;
use crate::workload::{System, Workload};

/// Watches a replay with the system's allocator.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SystemWatched;

impl Job for SystemWatched {
    const NAME: &'static str = "watched";
    type Found = Watched;

    fn run(&self, workload: &Workload) -> anyhow::Result<Watched> {
        let mut watch = Watch::new(workload.facts, Gauge::new());
        workload.replay(&mut System, &mut watch)?;
        Ok(watch.finish())
    }
}
