//! Paging simulated under an allocator that is a process's own: the C library's, one loaded in its
//! place, pagewise's global one.
//!
//! The simulation runs in that process, so that no addresses have to be carried over. The lab's own
//! data, the simulation's included, come from another allocator (see `main.rs`) that takes memory from
//! the kernel in mappings of its own: no block of the replay shares a page with them.

use pagewise_replay::workload::{Stop, Target, Workload};
use serde::{Deserialize, Serialize};

use super::memory::{Found, Memory, Program};
use super::setup::Touch;
use crate::child::Job;
use crate::served::{Replay, Server};

/// Simulates paging under an allocator that is the process's own.
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

/// The replay of the process.
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
