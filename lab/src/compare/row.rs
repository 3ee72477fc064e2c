//! One strategy over one trace: the row of every report.

use pagewise_replay::timing::Times;
use pagewise_replay::units;
use pagewise_replay::workload::{Stop, Workload};
use serde::Serialize;

use super::metered::Metered;

/// The measures of one strategy over one trace. These field names are those of `--json`; a measure
/// that is missing is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(super) trace: String,
    pub(crate) strategy: &'static str,
    /// Median time of the rounds ÷ pairs, in nanoseconds.
    pub(crate) ns_per_pair: Option<f64>,
    /// Half the interquartile range of the rounds, as a fraction of the median; unknown after a
    /// single round.
    pub(super) ns_per_pair_spread: Option<f64>,
    pub(super) items_per_pair: Option<f64>,
    pub(super) items_per_paged_pair: Option<f64>,
    pub(super) peak_requested_bytes: u64,
    pub(crate) peak_resident_bytes: Option<u64>,
    pub(crate) peak_held_bytes: Option<u64>,
    pub(super) fragmentation: Option<f64>,
    pub(crate) pages_touched: Option<u64>,
    /// Why there is no result; null if there is one.
    pub(super) stopped: Option<String>,
}

impl Row {
    pub(super) fn new(
        strategy: &'static str,
        workload: &Workload,
        metered: Result<Metered, Stop>,
        times: Result<Times, Stop>,
    ) -> Self {
        let facts = workload.facts;
        let row = Self {
            trace: workload.name.clone(),
            strategy,
            peak_requested_bytes: facts.peak_requested,
            ..Self::default()
        };
        let (metered, times) = match (metered, times) {
            (Ok(metered), Ok(times)) => (metered, times),
            (Err(stop), _) | (_, Err(stop)) => {
                return Self { stopped: Some(stop.to_string()), ..row };
            }
        };
        let pairs = facts.pairs() as f64;
        let fragmentation =
            |held: u64| 1.0 - ratio(facts.peak_requested as f64, held as f64).unwrap_or(1.0);
        Self {
            ns_per_pair: ratio(times.median(), pairs),
            ns_per_pair_spread: times.spread(),
            items_per_pair: metered.items.and_then(|items| ratio(items as f64, pairs)),
            items_per_paged_pair: metered.paged.and_then(|paged| {
                // A pair is two operations.
                ratio(paged.items as f64 * 2.0, paged.operations as f64)
            }),
            peak_resident_bytes: Some(metered.peak_resident),
            peak_held_bytes: metered.peak_held,
            fragmentation: metered.peak_held.map(fragmentation),
            pages_touched: Some(metered.pages_touched),
            ..row
        }
    }
}

impl Row {
    pub(crate) fn strategy(&self) -> &'static str {
        self.strategy
    }

    /// Returns why there is no result, if so.
    pub(crate) fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Returns the known figures, as pairs of name and text.
    pub(crate) fn described(&self) -> Vec<(&'static str, String)> {
        let texts = [
            ("time", self.ns_per_pair.map(|ns| format!("{ns:.1} ns per pair"))),
            ("items visited", self.items_per_pair.map(|items| format!("{items:.2} per pair"))),
            ("  by pages", self.items_per_paged_pair.map(|items| format!("{items:.2} per pair"))),
            ("peak requested", Some(units::bytes(self.peak_requested_bytes))),
            ("peak resident", self.peak_resident_bytes.map(units::bytes)),
            ("peak held", self.peak_held_bytes.map(units::bytes)),
            ("fragmentation", self.fragmentation.map(|share| format!("{:.1} %", share * 100.0))),
            ("OS pages", self.pages_touched.map(units::thousands)),
        ];
        texts.into_iter().filter_map(|(name, text)| Some((name, text?))).collect()
    }
}

/// Returns a ÷ b; `None` if b is 0.
fn ratio(a: f64, b: f64) -> Option<f64> {
    (b != 0.0).then(|| a / b)
}
