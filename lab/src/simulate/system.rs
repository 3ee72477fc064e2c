//! Paging simulated under a process's own allocator: the C library's, a preloaded one, or
//! pagewise's global one.
//!
//! The simulation runs in that process, so that no addresses have to be transferred. The lab's own
//! data, including the simulation's, use another allocator (see `main.rs`) with its own mappings:
//! no block of the replay shares a page with them.

use pagewise_replay::workload::{Stop, Target, Workload};
use serde::{Deserialize, Serialize};

use super::memory::{Found, Memory, Program};
use super::setup::Touch;
use crate::child::Job;
use crate::served::{Replay, Server};

/// Simulates paging under the process's own allocator.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Paged {
    pub(super) server: Server,
    pub(super) page_size: usize,
    /// In pages.
    pub(super) working_sets: Vec<usize>,
    pub(super) clock: bool,
    pub(super) touch: Touch,
}

impl Job for Paged {
    const NAME: &'static str = "paged";
    type Found = Found;

    fn run(&self, workload: &Workload) -> anyhow::Result<Found> {
        let memory = Memory::new(self.page_size, self.clock.then_some(&self.working_sets));
        self.server.serve(&mut Simulation { workload, memory: &memory, touch: self.touch })?;
        Ok(memory.found(&self.working_sets))
    }
}

/// The process's replay.
struct Simulation<'s> {
    workload: &'s Workload,
    memory: &'s Memory,
    touch: Touch,
}

impl Replay for Simulation<'_> {
    fn of<T: Target + ?Sized>(&mut self, target: &mut T) -> Result<(), Stop> {
        let mut program = Program { memory: self.memory, touch: self.touch };
        self.workload.replay(target, &mut program).map(drop)
    }
}
