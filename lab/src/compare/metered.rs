//! The metered pass: what a strategy's bookkeeping visits, what it holds, which OS pages it touches.

use std::alloc::Layout;
use std::path::Path;
use std::ptr::NonNull;

use pagewise::Strategy;
use pagewise::paged::Config;
use rayon::prelude::*;

use crate::competitor::{CAPACITY, Competitor};
use crate::lea::Lea;
use crate::progress::Progress;
use crate::served;
use crate::touched::{PageMeter, os_page_size};
use crate::workload::{Observer, Stop, Workload};

/// What the metered pass found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Metered {
    /// Items visited in all; not known of SYSTEM.
    pub(super) items: Option<u64>,
    pub(super) paged: Option<Paged>,
    /// The most bytes held at one time; not known of every system's allocator.
    pub(super) peak_held: Option<u64>,
    /// Distinct OS pages in which a block or a visited item lies.
    pub(super) pages_touched: u64,
}

/// The part of the work that pages did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paged {
    pub(super) items: u64,
    /// Allocations and frees.
    pub(super) operations: u64,
}

/// Meters every competitor over a trace, on all cores. A competitor that runs out of memory has an
/// error in its place.
///
/// # Errors
/// If the trace cannot be read any more.
pub(super) fn all(
    workload: &Workload,
    path: &Path,
    competitors: &[Competitor],
    config: Config,
    progress: &Progress,
) -> anyhow::Result<Vec<Result<Metered, Stop>>> {
    let one = |competitor: &Competitor| {
        let metered = one(workload, path, *competitor, config)?;
        progress.step(1, || format!("{}: {}", workload.name, competitor.name()));
        Ok(metered)
    };
    competitors.par_iter().map(one).collect()
}

/// Meters one competitor, as [`all`] does.
///
/// # Errors
/// If the trace cannot be read any more.
pub(super) fn one(
    workload: &Workload,
    path: &Path,
    competitor: Competitor,
    config: Config,
) -> anyhow::Result<Result<Metered, Stop>> {
    let metered = match competitor {
        Competitor::System => served::holding(path)?.map(|holding| Metered {
            items: None,
            paged: None,
            peak_held: holding.peak_held,
            pages_touched: holding.pages_touched,
        }),
        Competitor::Lea => lea_over(workload),
        Competitor::Strategy(entry) => {
            let meter = PageMeter::new(os_page_size());
            let mut strategy = entry.build_metered(config, CAPACITY, &meter)?;
            strategy_over(workload, &mut *strategy, &meter)
        }
    };
    match metered {
        Err(Stop::Trace(error)) => Err(error),
        result => Ok(result),
    }
}

/// Meters one strategy, which reports to `meter`.
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
        pages_touched: meter.pages_touched(),
    })
}

/// Meters Lea's allocator, which reports nothing of its bookkeeping: pages are those of its blocks.
fn lea_over(workload: &Workload) -> Result<Metered, Stop> {
    let meter = PageMeter::new(os_page_size());
    let mut lea = Lea::new(CAPACITY);
    workload.replay(&mut lea, &mut Marks { meter: &meter })?;
    Ok(Metered {
        items: None,
        paged: None,
        peak_held: Some(lea.peak_held() as u64),
        pages_touched: meter.pages_touched(),
    })
}

/// Marks the OS pages that blocks cover.
struct Marks<'m> {
    meter: &'m PageMeter,
}

impl<T: ?Sized> Observer<T> for Marks<'_> {
    fn allocated(&mut self, block: NonNull<u8>, layout: Layout) {
        self.meter.mark_range(block.addr().get(), layout.size());
    }
}
