//! The metered pass: the items that a strategy's bookkeeping visits, the bytes that it holds, and
//! the OS pages that it touches.

use std::alloc::Layout;
use std::path::Path;
use std::ptr::NonNull;

use pagewise::Strategy;
use pagewise::hybrid::Hybrid;
use pagewise::source::Reserved;
use pagewise_replay::lea::Lea;
use pagewise_replay::progress::Progress;
use pagewise_replay::workload::{CAPACITY, Observer, Stop, Workload, capacity};
use rayon::prelude::*;

use crate::competitor::{Competitor, Parameters};
use crate::served;
use crate::touched::{PageMeter, os_page_size};

/// The results of the metered pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Metered {
    /// Items visited in total; unknown for SYSTEM.
    pub(super) items: Option<u64>,
    pub(super) paged: Option<Paged>,
    /// Peak of the bytes held; only some allocators report this.
    pub(super) peak_held: Option<u64>,
    /// Peak of the resident bytes, in its own process.
    pub(super) peak_resident: u64,
    /// Distinct OS pages that contain a block or a visited item.
    pub(super) pages_touched: u64,
}

/// The part of the work done by pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paged {
    pub(super) items: u64,
    /// Allocations and frees.
    pub(super) operations: u64,
}

/// Meters every competitor on a trace, on all cores. A competitor that runs out of memory has an
/// error in its place.
///
/// # Errors
/// If the trace can no longer be read.
pub(super) fn all(
    workload: &Workload,
    path: &Path,
    competitors: &[Competitor],
    parameters: &Parameters,
    progress: &Progress,
) -> anyhow::Result<Vec<Result<Metered, Stop>>> {
    let one = |competitor: &Competitor| {
        let metered = one(workload, path, *competitor, parameters)?;
        progress.step(1, || format!("{}: {}", workload.name, competitor.name()));
        Ok(metered)
    };
    competitors.par_iter().map(one).collect()
}

/// Meters one competitor, as [`all`] does.
///
/// # Errors
/// If the trace can no longer be read.
pub(super) fn one(
    workload: &Workload,
    path: &Path,
    competitor: Competitor,
    parameters: &Parameters,
) -> anyhow::Result<Result<Metered, Stop>> {
    let (server, library) = (competitor.server(parameters), competitor.library());
    let found = match competitor {
        Competitor::Lea => lea_over(workload),
        Competitor::Strategy(entry) => {
            let meter = PageMeter::new(os_page_size());
            let mut strategy =
                entry.build_metered(parameters.of(entry), capacity(entry), &meter)?;
            strategy_over(workload, &mut *strategy, &meter)
        }
        Competitor::Hybrid => {
            let meter = PageMeter::new(os_page_size());
            let mut strategy = Hybrid::new(parameters.hc, Reserved::new(CAPACITY), &meter);
            strategy_over(workload, &mut strategy, &meter)
        }
        Competitor::Global | Competitor::System | Competitor::Library(_) => {
            served::holding(path, &server, library)?.map(|holding| Metered {
                items: None,
                paged: None,
                peak_held: holding.peak_held,
                peak_resident: 0,
                pages_touched: holding.pages_touched,
            })
        }
    };
    let found = match found {
        Err(Stop::Trace(error)) => return Err(error),
        Err(stop) => return Ok(Err(stop)),
        Ok(found) => found,
    };
    let memory = served::memory(path, &server, library)?;
    Ok(memory.map(|memory| Metered { peak_resident: memory.resident, ..found }))
}

/// Meters one strategy that reports to `meter`.
fn strategy_over(
    workload: &Workload,
    strategy: &mut (dyn Strategy + '_),
    meter: &PageMeter,
) -> Result<Metered, Stop> {
    workload.replay(strategy, &mut Marks { meter })?;
    let counter = &meter.counter;
    Ok(Metered {
        items: Some(counter.items()),
        paged: Some(Paged { items: counter.paged_items(), operations: counter.paged_operations() }),
        peak_held: Some(strategy.usage().peak_held as u64),
        peak_resident: 0,
        pages_touched: meter.pages_touched(),
    })
}

/// Meters Lea's allocator, which does not report its bookkeeping: only pages of its blocks count.
fn lea_over(workload: &Workload) -> Result<Metered, Stop> {
    let meter = PageMeter::new(os_page_size());
    let mut lea = Lea::new(CAPACITY);
    workload.replay(&mut lea, &mut Marks { meter: &meter })?;
    Ok(Metered {
        items: None,
        paged: None,
        peak_held: Some(lea.peak_held() as u64),
        peak_resident: 0,
        pages_touched: meter.pages_touched(),
    })
}

/// Marks the OS pages covered by blocks.
struct Marks<'m> {
    meter: &'m PageMeter,
}

impl<T: ?Sized> Observer<T> for Marks<'_> {
    unsafe fn allocated(&mut self, block: NonNull<u8>, layout: Layout) {
        self.meter.mark_range(block.addr().get(), layout.size());
    }
}
