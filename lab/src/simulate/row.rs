//! One strategy over one trace at one page size: the row of every report.

use pagewise_replay::workload::Stop;
use serde::Serialize;

use super::memory::{Faults, Found};
use super::setup::WorkingSet;

/// The figures of one trace at one page size.
#[derive(Debug)]
pub(crate) struct Simulated {
    pub(crate) trace: String,
    pub(crate) page_size: usize,
    /// Peak of the bytes requested.
    pub(crate) peak_requested: u64,
    /// The peak in pages.
    pub(crate) peak: usize,
    /// Each as requested, and its size in pages.
    pub(crate) working_sets: Vec<(WorkingSet, usize)>,
    pub(crate) rows: Vec<Row>,
}

/// The data of a row's trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct About<'a> {
    pub(super) peak_requested: u64,
    pub(super) peak: usize,
    pub(super) page_size: usize,
    /// Working sets, in pages.
    pub(super) pages: &'a [usize],
}

/// One strategy's row. These field names are those of `--json`; a missing value is null.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    trace: String,
    pub(crate) strategy: String,
    /// Bytes of a simulated page.
    page_size: usize,
    /// Bytes of the strategy's own pages; null for SYSTEM.
    pub(crate) strategy_page_size: Option<usize>,
    peak_requested_bytes: u64,
    /// The peak in simulated pages, to which percentages refer.
    peak_pages: usize,
    pub(crate) references: Option<u64>,
    pub(crate) pages_touched: Option<u64>,
    faults: Vec<AtWorkingSet>,
    /// The page-fault curve: pairs of working set and faults under LRU.
    pub(crate) curve: Vec<(usize, u64)>,
    /// Why there is no result.
    pub(crate) stopped: Option<String>,
}

/// Faults at one of the requested working sets.
#[derive(Debug, Serialize)]
struct AtWorkingSet {
    /// The working set.
    pages: usize,
    #[serde(flatten)]
    faults: Faults,
}

impl Row {
    pub(super) fn new(
        trace: &str,
        strategy: String,
        strategy_page_size: Option<usize>,
        about: About<'_>,
        found: Result<Found, Stop>,
    ) -> Self {
        let mut row = Self {
            trace: trace.to_owned(),
            strategy,
            page_size: about.page_size,
            strategy_page_size,
            peak_requested_bytes: about.peak_requested,
            peak_pages: about.peak,
            references: None,
            pages_touched: None,
            faults: Vec::new(),
            curve: Vec::new(),
            stopped: None,
        };
        match found {
            Ok(found) => {
                let faults = about.pages.iter().zip(found.faults);
                let faults = faults.map(|(&pages, faults)| AtWorkingSet { pages, faults });
                row.references = Some(found.references);
                row.pages_touched = Some(found.pages_touched);
                row.faults = faults.collect();
                row.curve = found.curve;
            }
            Err(stop) => row.stopped = Some(stop.to_string()),
        }
        row
    }

    /// Returns the LRU faults at the `index`-th requested working set.
    pub(crate) fn faults(&self, index: usize) -> Option<u64> {
        self.faults.get(index).map(|at| at.faults.lru)
    }

    /// Returns the CLOCK faults at the `index`-th requested working set.
    pub(super) fn clock_faults(&self, index: usize) -> Option<u64> {
        self.faults.get(index).and_then(|at| at.faults.clock)
    }

    /// Returns the LRU faults at a working set of the curve, or beyond its end.
    pub(super) fn on_curve(&self, working_set: usize) -> Option<u64> {
        let found = self.curve.iter().find(|(pages, _)| *pages == working_set);
        let end = self.curve.last().filter(|(pages, _)| *pages < working_set);
        found.or(end).map(|(_, faults)| *faults)
    }

    /// Returns the name; for a library, without its file.
    pub(super) fn short_name(&self) -> &str {
        self.strategy.split(" (lib").next().unwrap_or(&self.strategy)
    }

    /// Returns whether this is a strategy of the catalogue, not SYSTEM or a library.
    pub(super) fn is_strategy(&self) -> bool {
        self.strategy_page_size.is_some()
    }
}
