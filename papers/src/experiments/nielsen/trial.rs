//! A trial: one algorithm serves one load from a fixed memory (Nielsen §3).
//!
//! "The amount of memory provided on each trial was adjusted so that the maximum space requested
//! (excluding pointers and internal fragmentation) would constitute 50, 66.7 and 80 percent,
//! respectively, of the available memory space." The first request that cannot be served ends a
//! trial: the algorithm fails. Costs are averages over all periods but the first.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;
use std::time::Instant;

use pagewise::Strategy;
use pagewise::meter::{Meter, Part};
use pagewise::walk::SpanKind;

use super::algorithm::{Algorithm, Listed, WORD};
use super::demand::{Demand, Request};

/// Cost of an allocation and of a deallocation, on average, compaction included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    pub(crate) allocate: f64,
    pub(crate) deallocate: f64,
}

/// The results of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trial {
    /// The most words in blocks at one time, overhead included, ÷ words of memory.
    pub(crate) space: f64,
    /// Items visited and pointers written.
    pub(crate) items: Cost,
}

/// Counts items.
#[derive(Debug, Default)]
struct Items(Cell<u64>);

// SAFETY: it counts, without a check for overflow.
unsafe impl Meter for Items {
    fn item(&self, _: usize, weight: u32) {
        self.0.set(self.0.get().wrapping_add(u64::from(weight)));
    }
    fn served(&self, _: Part) {}
}

impl Cost {
    /// Returns the averages of the costs of a demand's requests, each minus `least`.
    pub(crate) fn average(demand: &Demand, costs: &[u64], least: u64) -> Self {
        let first = demand.periods[0];
        Self::of(&demand.requests[first..], &costs[first..], least)
    }

    /// Returns the averages in each period but the first.
    fn by_period(demand: &Demand, costs: &[u64]) -> Vec<Self> {
        let ends = demand.periods[1..].iter().copied().chain([demand.requests.len()]);
        let periods = demand.periods.iter().zip(ends).map(|(&start, end)| start..end);
        periods.map(|of| Self::of(&demand.requests[of.clone()], &costs[of], 0)).collect()
    }

    fn of(requests: &[Request], costs: &[u64], least: u64) -> Self {
        let (mut allocate, mut deallocate) = ((0, 0), (0, 0));
        for (request, cost) in requests.iter().zip(costs) {
            let (sum, count) = match request {
                Request::Allocate { .. } => &mut allocate,
                Request::Deallocate { .. } => &mut deallocate,
            };
            *sum += cost.saturating_sub(least);
            *count += 1;
        }
        let mean = |(sum, count): (u64, u64)| sum as f64 / count.max(1) as f64;
        Self { allocate: mean(allocate), deallocate: mean(deallocate) }
    }
}

impl Algorithm {
    /// Tries the algorithm on a load that asks for `level` of its memory at most, and meters it.
    /// `None` if it fails.
    pub(crate) fn tried(&self, demand: &Demand, level: f64) -> Option<Trial> {
        let words = memory(demand, level);
        let items = Items::default();
        let mut strategy = (self.metered)(words, &items);
        let mut most = 0;
        let mut header = None;
        let gauge = || items.0.get();
        let costs = replay(&mut *strategy, demand, gauge, |strategy| {
            let usage = strategy.usage();
            let header = *header.get_or_insert_with(|| header_of(strategy));
            most = most.max(usage.block / WORD + usage.blocks * header);
        })?;
        let items = Cost::average(demand, &costs, 0);
        Some(Trial { space: most as f64 / words as f64, items })
    }

    /// Returns the items that allocations and deallocations cost on average in each period but the
    /// first. `None` if the algorithm fails.
    pub(crate) fn by_period(&self, demand: &Demand, level: f64) -> Option<Vec<Cost>> {
        let items = Items::default();
        let mut strategy = (self.metered)(memory(demand, level), &items);
        let costs = replay(&mut *strategy, demand, || items.0.get(), |_| ())?;
        Some(Cost::by_period(demand, &costs))
    }

    /// Returns the nanoseconds that each request takes, and the clock with it. `None` if the
    /// algorithm fails.
    pub(crate) fn timed(&self, demand: &Demand, level: f64) -> Option<Vec<u64>> {
        let mut strategy = (self.plain)(memory(demand, level));
        let start = Instant::now();
        replay(&mut *strategy, demand, || start.elapsed().as_nanos() as u64, |_| ())
    }
}

impl Listed {
    /// How often the algorithm collects free blocks while it serves a load that asks for `level` of its memory
    /// at most. `None` if it fails.
    pub(crate) fn collections(&self, demand: &Demand, level: f64) -> Option<u64> {
        let mut strategy = (self.build)(memory(demand, level));
        replay(&mut *strategy, demand, || 0, |_| ())?;
        Some(strategy.collections())
    }
}

/// Returns the nanoseconds that [`Algorithm::timed`] takes where nothing is done.
pub(crate) fn clock() -> u64 {
    let start = Instant::now();
    let gauge = || start.elapsed().as_nanos() as u64;
    let differences = (0..1000).map(|_| {
        let before = gauge();
        gauge() - before
    });
    differences.min().unwrap_or_default()
}

/// Returns the words of memory such that a load asks for `level` of them at most.
pub(super) fn memory(demand: &Demand, level: f64) -> usize {
    (f64::from(demand.most_words) / level).round() as usize
}

/// Returns the words of a block's header.
fn header_of(strategy: &dyn Strategy) -> usize {
    let mut header = None;
    strategy.walk(&mut |span| {
        if span.kind == SpanKind::Header {
            header.get_or_insert(span.len / WORD);
        }
    });
    header.unwrap_or_default()
}

/// Has a strategy serve all requests. The cost of each is the advance of `gauge` meanwhile. `None`
/// if the strategy fails.
fn replay(
    strategy: &mut dyn Strategy,
    demand: &Demand,
    gauge: impl Fn() -> u64,
    mut allocated: impl FnMut(&dyn Strategy),
) -> Option<Vec<u64>> {
    let mut blocks = vec![(NonNull::dangling(), Layout::new::<()>()); demand.blocks as usize];
    let mut costs = Vec::with_capacity(demand.requests.len());
    for request in &demand.requests {
        match *request {
            Request::Allocate { block, words } => {
                let layout = Layout::from_size_align(words as usize * WORD, WORD).ok()?;
                let before = gauge();
                let memory = strategy.allocate(layout);
                costs.push(gauge() - before);
                blocks[block as usize] = (memory.ok()?.cast(), layout);
                allocated(strategy);
            }
            Request::Deallocate { block } => {
                let (memory, layout) = blocks[block as usize];
                let before = gauge();
                // SAFETY: a demand deallocates blocks that were allocated, and once.
                unsafe { strategy.deallocate(memory, layout) };
                costs.push(gauge() - before);
            }
        }
    }
    Some(costs)
}
