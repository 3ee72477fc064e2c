//! Measures how much a process's own allocator holds, if it reports that, and the OS pages that its
//! blocks touch.

use std::alloc::Layout;
use std::ptr::NonNull;

use pagewise_replay::workload::{Observer, Stop, Target, Workload};
use serde::{Deserialize, Serialize};

use super::server::{Replay, Server};
use crate::child::Job;
use crate::system::gauge::Gauge;
use crate::touched::{PageSet, os_page_size};

/// Bytes of the C library's tag before a block.
const TAG: usize = if cfg!(target_env = "gnu") { size_of::<usize>() } else { 0 };

/// A replay that measures the bytes held.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(super) server: Server,
    /// Only the C library's own allocator reports it, and has tags of known length.
    pub(super) is_c_library: bool,
}

/// The findings.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Holding {
    /// Peak of the bytes held, if the allocator reports it.
    pub(crate) peak_held: Option<u64>,
    /// Distinct OS pages that contain a block, or the C library's tag of one.
    pub(crate) pages_touched: u64,
}

impl Job for Held {
    const NAME: &'static str = "held";
    type Found = Holding;

    fn run(&self, workload: &Workload) -> anyhow::Result<Holding> {
        let pages = PageSet::new(os_page_size());
        let gauge = self.is_c_library.then(Gauge::new);
        let mut watching = Watching { workload, watch: Watch { pages, gauge } };
        self.server.serve(&mut watching)?;
        let Watch { pages, gauge } = watching.watch;
        let peak_held = gauge.and_then(|gauge| gauge.peak());
        Ok(Holding { peak_held, pages_touched: pages.count() })
    }
}

/// The process's replay.
struct Watching<'w> {
    workload: &'w Workload,
    watch: Watch,
}

impl Replay for Watching<'_> {
    fn of<T: Target + ?Sized>(&mut self, target: &mut T) -> Result<(), Stop> {
        self.workload.replay(target, &mut self.watch).map(drop)
    }
}

/// Marks the OS pages of blocks and tags, and follows the bytes that the C library holds.
struct Watch {
    pages: PageSet,
    gauge: Option<Gauge>,
}

impl<T: ?Sized> Observer<T> for Watch {
    unsafe fn allocated(&mut self, block: NonNull<u8>, layout: Layout) {
        let (address, size) = (block.addr().get(), layout.size());
        match &mut self.gauge {
            Some(gauge) => {
                self.pages.mark_range(address - TAG, size + TAG);
                gauge.read_after(size);
            }
            None => self.pages.mark_range(address, size),
        }
    }
}
