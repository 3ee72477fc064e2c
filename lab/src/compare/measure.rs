//! The measures of a comparison, and each strategy's mean for each over all traces.

use super::compared::Compared;
use super::row::Row;
use crate::competitor::SYSTEM;

/// A measure for which less is better.
pub(super) struct Measure {
    /// The name of the measure as a column head.
    pub(super) head: &'static str,
    /// The words for its best strategy, and for the aspect in which it is best; `None` if the
    /// verdict does not mention the measure.
    pub(super) best: Option<(&'static str, &'static str)>,
    pub(super) value: fn(&Row) -> Option<f64>,
    pub(super) is_noisy: bool,
}

pub(super) const TIME: Measure = Measure {
    head: "time",
    best: Some(("Fastest", "time")),
    value: |row| row.ns_per_pair,
    is_noisy: true,
};
pub(super) const RESIDENT: Measure = Measure {
    head: "resident",
    best: Some(("Leanest", "peak memory")),
    value: |row| row.peak_resident_bytes.map(|bytes| bytes as f64),
    is_noisy: false,
};
/// Not every allocator reports this.
pub(super) const HELD: Measure = Measure {
    head: "held",
    best: None,
    value: |row| row.peak_held_bytes.map(|bytes| bytes as f64),
    is_noisy: false,
};
const OS_PAGES: Measure = Measure {
    head: "OS pages",
    best: Some(("Fewest OS pages", "OS pages")),
    value: |row| row.pages_touched.map(|pages| pages as f64),
    is_noisy: false,
};

pub(super) const MEASURES: [Measure; 4] = [TIME, RESIDENT, HELD, OS_PAGES];

/// Returns the strategy to which all others are compared: SYSTEM if it took part and finished every
/// trace, else the first strategy that did.
pub(crate) fn reference(all: &[&Compared]) -> Option<&'static str> {
    let complete = strategies(all).into_iter().filter(|one| finished(all, one) == all.len());
    let complete: Vec<_> = complete.collect();
    complete.iter().find(|one| **one == SYSTEM).or(complete.first()).copied()
}

/// Returns the compared strategies, in order.
pub(super) fn strategies(all: &[&Compared]) -> Vec<&'static str> {
    all.first().map_or_else(Vec::new, |one| one.rows.iter().map(|row| row.strategy).collect())
}

/// Returns the number of traces that a strategy finished.
pub(super) fn finished(all: &[&Compared], strategy: &str) -> usize {
    rows(all, strategy).filter(|row| row.stopped.is_none()).count()
}

/// Returns the geometric mean, over the traces that both finished, of a strategy's value ÷ the
/// reference's.
pub(super) fn relative(
    all: &[&Compared],
    measure: &Measure,
    strategy: &str,
    reference: &str,
) -> Option<f64> {
    let ratios = rows(all, strategy).zip(rows(all, reference)).filter_map(|(row, reference)| {
        let (value, reference) = ((measure.value)(row)?, (measure.value)(reference)?);
        (value > 0.0 && reference > 0.0).then(|| (value / reference).ln())
    });
    let (sum, count) = ratios.fold((0.0, 0), |(sum, count), ratio| (sum + ratio, count + 1));
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

fn rows<'c>(all: &[&'c Compared], strategy: &str) -> impl Iterator<Item = &'c Row> {
    all.iter().filter_map(move |one| one.rows.iter().find(|row| row.strategy == strategy))
}

/// Returns the median, over the traces, of the difference between two identical competitors, where
/// it is known.
pub(super) fn typical_noise(all: &[&Compared]) -> Option<f64> {
    let mut noise: Vec<f64> = all.iter().filter_map(|compared| compared.noise).collect();
    noise.sort_by(f64::total_cmp);
    noise.get(noise.len() / 2).copied()
}
