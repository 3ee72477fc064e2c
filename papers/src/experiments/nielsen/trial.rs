//! A trial: one algorithm serves one load from a fixed memory (Nielsen §3).
//!
//! "The amount of memory provided on each trial was adjusted so that the maximum space requested
//! (excluding pointers and internal fragmentation) would constitute 50, 66.7 and 80 percent,
//! respectively, of the available memory space." The first request that cannot be served ends a
//! trial: the algorithm fails. Costs are averages over all periods except the first.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;
use std::time::Instant;

use pagewise::Strategy;
use pagewise::meter::{Meter, Part};
use pagewise::walk::SpanKind;

use super::algorithm::{Algorithm, Listed, WORD};
use super::demand::{Demand, Request};

/// Mean cost of an allocation and of a deallocation, compaction included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    pub(crate) allocate: f64,
    pub(crate) deallocate: f64,
}

/// The results of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trial {
    /// Peak of the words in blocks, overhead included, ÷ words of memory.
    pub(crate) space: f64,
    /// Items visited and pointers written.
    pub(crate) items: Cost,
}

/// Counts items.
#[derive(Debug, Default)]
struct Items(Cell<u64>);

// SAFETY: it only counts, with arithmetic that wraps.
unsafe impl Meter for Items {
    fn item(&self, _: usize, weight: u32) {
        self.0.set(self.0.get().wrapping_add(u64::from(weight)));
    }
    fn served(&self, _: Part) {}
}

impl Cost {
    /// Returns the mean costs of a demand's requests, each minus `least`.
    pub(crate) fn average(demand: &Demand, costs: &[u64], least: u64) -> Self {
        let first = demand.periods[0];
        Self::of(&demand.requests[first..], &costs[first..], least)
    }

    /// Returns the means in each period except the first.
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
    /// Tries the algorithm on a load that uses at most `level` of the memory, and meters it. `None`
    /// if it fails.
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

    /// Returns the mean items per allocation and deallocation in each period except the first.
    /// `None` if the algorithm fails.
    pub(crate) fn by_period(&self, demand: &Demand, level: f64) -> Option<Vec<Cost>> {
        let items = Items::default();
        let mut strategy = (self.metered)(memory(demand, level), &items);
        let costs = replay(&mut *strategy, demand, || items.0.get(), |_| ())?;
        Some(Cost::by_period(demand, &costs))
    }

    /// Returns each request's nanoseconds, including the clock's own. `None` if the algorithm
    /// fails.
    pub(crate) fn timed(&self, demand: &Demand, level: f64) -> Option<Vec<u64>> {
        let mut strategy = (self.plain)(memory(demand, level));
        let start = Instant::now();
        replay(&mut *strategy, demand, || start.elapsed().as_nanos() as u64, |_| ())
    }
}

impl Listed {
    /// Returns the number of collections while the algorithm serves a load that uses at most
    /// `level` of the memory. `None` if it fails.
    pub(crate) fn collections(&self, demand: &Demand, level: f64) -> Option<u64> {
        let mut strategy = (self.build)(memory(demand, level));
        replay(&mut *strategy, demand, || 0, |_| ())?;
        Some(strategy.collections())
    }
}

/// Returns the nanoseconds that [`Algorithm::timed`] measures for an empty operation.
pub(crate) fn clock() -> u64 {
    let start = Instant::now();
    let gauge = || start.elapsed().as_nanos() as u64;
    let differences = (0..1000).map(|_| {
        let before = gauge();
        gauge() - before
    });
    differences.min().unwrap_or_default()
}

/// Returns the size of the memory, in words, at which a load's peak fills the share `level`.
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

/// Makes a strategy serve all requests. A request's cost is the increase of `gauge`. `None` if the
/// strategy fails.
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
                // SAFETY: a demand deallocates each block once, after allocating it.
                unsafe { strategy.deallocate(memory, layout) };
                costs.push(gauge() - before);
            }
        }
    }
    Some(costs)
}
