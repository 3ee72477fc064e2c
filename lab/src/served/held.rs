//! What the C library's allocator says that it holds, and the OS pages that its blocks touch.

use std::alloc::Layout;
use std::ptr::NonNull;

use serde::{Deserialize, Serialize};

use crate::child::Job;
use crate::system::gauge::Gauge;
use crate::touched::{PageSet, os_page_size};
use crate::workload::{Observer, System, Workload};

/// Bytes of the C library's tag before a block.
const TAG: usize = if cfg!(target_env = "gnu") { size_of::<usize>() } else { 0 };

/// Asks the C library what it holds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Held;

/// What it said.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Holding {
    /// The most bytes held at one time, if the C library tells.
    pub(crate) peak_held: Option<u64>,
    /// Distinct OS pages in which a block or its tag lies.
    pub(crate) pages_touched: u64,
}

impl Job for Held {
    const NAME: &'static str = "held";
    type Found = Holding;

    fn run(&self, workload: &Workload) -> anyhow::Result<Holding> {
        let mut watch = Watch { pages: PageSet::new(os_page_size()), gauge: Gauge::new() };
        workload.replay(&mut System, &mut watch)?;
        Ok(Holding { peak_held: watch.gauge.peak(), pages_touched: watch.pages.count() })
    }
}

/// Marks the OS pages of blocks and tags, and follows what the C library holds.
struct Watch {
    pages: PageSet,
    gauge: Gauge,
}

impl<T: ?Sized> Observer<T> for Watch {
    fn allocated(&mut self, block: NonNull<u8>, layout: Layout) {
        self.pages.mark_range(block.addr().get() - TAG, layout.size() + TAG);
        self.gauge.read_after(layout.size());
    }
}
