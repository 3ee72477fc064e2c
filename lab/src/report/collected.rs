//! Collects a report's data on one trace, in four passes: the requests (`info`), the comparison of
//! the strategies (`compare`), their page faults (`simulate`), and a watched replay each. A trace
//! with call stacks takes two more: the callers (`who`), and a replay each up to the peak.

use std::path::Path;
use std::time::Duration;

use pagewise_replay::lea::Lea;
use pagewise_replay::progress::Progress;
use pagewise_replay::workload::{CAPACITY, Facts, Stop, Workload};
use rayon::prelude::*;
use serde::Serialize;

use super::alone::WatchedAlone;
use super::course::{self, Course};
use super::flame::Flame;
use super::heap_map::HeapMap;
use super::sites::{Areas, Sites};
use super::watch::{LeaUsage, Usage, Watch, Watched};
use crate::child;
use crate::compare::{self, Compared, Rounds};
use crate::competitor::{Competitor, ConfigArgs, Parameters};
use crate::info::Info;
use crate::simulate::{self, Simulated};

/// Time for the timed rounds of one trace.
const TIMED: Duration = Duration::from_millis(2500);
/// Steps of progress per competitor: two of the comparison, a simulation, two watched replays.
pub(super) const STEPS: usize = 5;

/// Everything about one trace.
#[derive(Debug)]
pub(super) struct Collected {
    pub(super) info: Info,
    pub(super) facts: Facts,
    pub(super) compared: Compared,
    pub(super) simulated: Simulated,
    /// In the order of the competitors; `None` for one that ran out of memory.
    pub(super) watched: Vec<Option<Watched>>,
    /// The allocating call sites, if the trace has call stacks.
    pub(super) sites: Option<Sites>,
    pub(super) course: Course,
}

/// Collects everything about one trace.
///
/// # Errors
/// If the trace cannot be read, or the system's allocator cannot be run.
pub(super) fn over_trace(
    path: &Path,
    competitors: &[Competitor],
    config: &ConfigArgs,
    progress: &Progress,
) -> anyhow::Result<Collected> {
    let workload = Workload::load(path)?;
    let parameters = config.for_trace(path)?;
    let info = Info::of(path)?;
    let rounds = Rounds::Within(TIMED);
    let compared =
        compare::over_trace(&workload, path, competitors, &parameters, rounds, progress)?;
    let simulated = simulate::usual(path, &workload, competitors, config, progress)?;
    let watch = |competitor: &Competitor| {
        let watched = watch(&workload, path, *competitor, &parameters)?;
        progress.step(1, || format!("{}: watching {}", workload.name, competitor.name()));
        anyhow::Ok(watched)
    };
    let watched = competitors.par_iter().map(watch).collect::<Result<Vec<_>, _>>()?;
    let facts = workload.facts;
    let sites = if info.stacks {
        Some(Sites::of(&workload, path, competitors, &parameters, progress)?)
    } else {
        progress.step(competitors.len() as u64, || format!("{}: no stacks", workload.name));
        None
    };
    let series = sites.as_ref().map(|sites| &sites.series);
    let course = match (&info.times, series) {
        (None, None) => Course::default(),
        (times, series) => {
            let series = series.cloned().unwrap_or_default();
            course::follow(path, operations(facts), times.as_ref(), &series)?
        }
    };
    Ok(Collected { info, facts, compared, simulated, watched, sites, course })
}

/// Returns the trace's operations, without the frees that a replay adds at the end.
fn operations(facts: Facts) -> u64 {
    facts.pairs() + facts.frees
}

/// Watches one competitor; `None` if it ran out of memory.
fn watch(
    workload: &Workload,
    path: &Path,
    competitor: Competitor,
    parameters: &Parameters,
) -> anyhow::Result<Option<Watched>> {
    let watched = match competitor {
        Competitor::Lea => {
            let mut watch = Watch::new(workload.facts, LeaUsage);
            workload.replay(&mut Lea::new(CAPACITY), &mut watch).map(|_| watch.finish())
        }
        Competitor::Strategy(_) | Competitor::Hybrid => {
            let mut watch = Watch::new(workload.facts, Usage);
            let mut strategy = competitor.server(parameters).strategy()?;
            workload.replay(&mut *strategy, &mut watch).map(|_| watch.finish())
        }
        Competitor::Global | Competitor::System | Competitor::Library(_) => {
            let server = competitor.server(parameters);
            let is_c_library = matches!(competitor, Competitor::System);
            child::run_in_child(&WatchedAlone { server, is_c_library }, path, competitor.library())?
        }
    };
    match watched {
        Ok(watched) => Ok(Some(watched)),
        Err(Stop::Trace(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// The data of one trace, drawn by the page's script and printed by `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Charts<'g> {
    trace: &'g str,
    /// Allocations, reallocations and frees: the length of every curve over time.
    operations: u64,
    /// Peak of the bytes requested in each of equal parts of the trace.
    requested: &'g [u64],
    /// Requested sizes, and lifetimes in events: pairs of a bin's largest value and its count.
    sizes: Vec<(u128, u64)>,
    lifetimes: Vec<(u128, u64)>,
    /// Page size of the page-fault curves, bytes.
    page: usize,
    /// Seconds since the recording began, at the beginning and at the end of each of equal parts;
    /// empty if the trace has no times.
    clock: &'g [f64],
    strategies: Vec<OfStrategy<'g>>,
    /// If the trace has call stacks: live bytes over time of some functions and of all others, at
    /// each part's peak; and the flame graph.
    sites: Vec<Areas<'g>>,
    flame: Option<&'g Flame>,
}

/// The data of one strategy; unknown figures are null or empty.
#[derive(Debug, Serialize)]
struct OfStrategy<'g> {
    name: &'static str,
    /// Nanoseconds per pair of allocation and free.
    ns: Option<f64>,
    /// Peak of the resident bytes.
    resident: Option<u64>,
    /// Peak of the bytes held in each of equal parts of the trace.
    held: Option<&'g [u64]>,
    /// Pairs of memory in pages, and page faults under LRU.
    curve: &'g [(usize, u64)],
    map: Option<&'g HeapMap>,
}

impl Collected {
    /// Returns the data to draw.
    pub(super) fn charts(&self) -> Charts<'_> {
        let statistics = &self.info.statistics;
        let watched = self.watched.iter().flatten().next();
        let rows = self.compared.rows.iter().zip(&self.simulated.rows).zip(&self.watched);
        let strategies = rows.map(|((row, simulated), watched)| OfStrategy {
            name: row.strategy(),
            ns: row.ns_per_pair,
            resident: row.peak_resident_bytes,
            held: watched.as_ref().filter(|one| one.knows_held).map(|one| &*one.timeline.held),
            curve: &simulated.curve,
            map: watched.as_ref().map(|one| &one.map),
        });
        Charts {
            trace: &self.info.trace,
            operations: operations(self.facts),
            // The requests are known even if no strategy reached the end.
            requested: watched.map_or(&statistics.live_bytes, |one| &one.timeline.requested),
            sizes: statistics.size_histogram.bins().collect(),
            lifetimes: statistics.lifetime_histogram.bins().collect(),
            page: self.simulated.page_size,
            clock: &self.course.clock,
            strategies: strategies.collect(),
            sites: self.sites.as_ref().map_or(Vec::new(), |sites| sites.areas(&self.course.live)),
            flame: self.sites.as_ref().map(|sites| &sites.flame),
        }
    }
}
