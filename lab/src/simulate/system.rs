//! Paging simulated under the C library's allocator, or one loaded in its place, in a process of its
//! own.
//!
//! The simulation runs in that process, so that no addresses have to be carried over. The lab's own
//! data, the simulation's included, come from another allocator (see `main.rs`) that takes memory from
//! the kernel in mappings of its own: no block of the replay shares a page with them.

use serde::{Deserialize, Serialize};

use super::memory::{Found, Memory, Program};
use super::setup::Touch;
use crate::child::Job;
use crate::workload::{System, Workload};

/// Simulates paging under the process's own `malloc`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Paged {
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
        let mut program = Program { memory: &memory, touch: self.touch };
        workload.replay(&mut System, &mut program)?;
        Ok(memory.found(&self.working_sets))
    }
}
