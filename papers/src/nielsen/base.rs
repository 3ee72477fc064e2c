//! Table IV: all 35 algorithms on the base load.

use pagewise_replay::progress::Progress;

use super::levels::{LEVEL_NAMES, LEVELS};
use super::measure::{self, COSTS, Shown, mean};
use super::published::{Outcome, TABLE_IV};
use crate::experiments::nielsen::{ALGORITHMS, Cost, Demand, LOADS, Trial};
use crate::table::{Column, Pair, Table};

/// Steps of the progress bar.
pub(super) fn count_steps(seeds: &[u64]) -> u64 {
    measure::count_steps(ALGORITHMS.len(), seeds.len(), 1)
}

/// Returns the index of IV-1.
fn reference() -> usize {
    ALGORITHMS.iter().position(|one| one.name == "IV-1").unwrap_or_default()
}

/// Table IV, with a part for each level.
pub(super) fn table_iv(seeds: &[u64], progress: &Progress) -> Vec<Table> {
    let demands: Vec<Demand> = seeds.iter().map(|&seed| LOADS[0].demand(seed)).collect();
    let shown = measure::all(&ALGORITHMS, &demands, 1, progress);
    (0..LEVELS.len()).map(|level| part(&shown, level)).collect()
}

/// Returns the mean cost of a trial over the demands served at a level.
fn items(shown: &[Shown], level: usize) -> Option<Cost> {
    let items = || trials(shown, level).map(|trial| trial.items);
    Some(Cost {
        allocate: mean(items().map(|cost| cost.allocate))?,
        deallocate: mean(items().map(|cost| cost.deallocate))?,
    })
}

/// IV-1's costs, which are 1 in the table.
struct Unit {
    items: Cost,
    times: Cost,
    /// Microseconds to allocate and to free.
    published: (f64, f64),
}

impl Unit {
    fn of(shown: &[Vec<Shown>]) -> Self {
        let shown_at = &shown[reference()];
        Self {
            items: items(shown_at, 0).unwrap_or_default(),
            times: shown_at[0].times[0].unwrap_or_default(),
            published: TABLE_IV[reference()][0].times().unwrap_or_default(),
        }
    }

    fn note(&self) -> String {
        let Self { items, times, published } = self;
        format!(
            "IV-1, which is 1: published {:.0} and {:.0} µs; ours {:.2} and {:.2} items, {:.0} and {:.0} ns",
            published.0,
            published.1,
            items.allocate,
            items.deallocate,
            times.allocate,
            times.deallocate
        )
    }
}

fn part(shown: &[Vec<Shown>], level: usize) -> Table {
    let unit = Unit::of(shown);
    let rows = ALGORITHMS.iter().zip(shown).zip(TABLE_IV).map(|((algorithm, shown), published)| {
        (algorithm.name.to_owned(), pairs(shown, level, published[level], &unit))
    });
    let columns = vec![
        Column::new("space %", 1).within(1.5),
        // Counts as a failure if most samples fail.
        Column::new("fails %", 0).within(50.0),
        Column::new("allocate", 1).near(COSTS),
        Column::new("allocate ns", 1),
        Column::new("deallocate", 1).near(COSTS),
        Column::new("deallocate ns", 1),
    ];
    let mut notes = vec![agreement(shown, level)];
    if level == 0 {
        notes.push(unit.note());
    }
    Table {
        number: ["IV, 50 %", "IV, 66.7 %", "IV, 80 %"][level],
        title: format!(
            "35 algorithms on the base load, peak demand {} of memory",
            LEVEL_NAMES[level]
        ),
        columns,
        rows: rows.collect(),
        notes,
        ..Table::default()
    }
}

/// Returns the trials of an algorithm at a level, over the demands that it served.
fn trials(shown: &[Shown], level: usize) -> impl Iterator<Item = Trial> {
    shown.iter().filter_map(move |shown| shown.trials[level])
}

fn failures(shown: &[Shown], level: usize) -> usize {
    shown.len() - trials(shown, level).count()
}

/// Returns the published figures of an algorithm at a level, and ours.
fn pairs(shown: &[Shown], level: usize, published: Outcome, unit: &Unit) -> Vec<Pair> {
    let cost = items(shown, level);
    let time = shown[0].times[level];
    let ratio = |ours: Option<f64>, unit: f64| ours.map(|ours| ours / unit);
    let paper = |which: fn((f64, f64)) -> f64| {
        published.times().map(|times| which(times) / which(unit.published))
    };
    let allocate = |cost: Cost| cost.allocate;
    let free = |cost: Cost| cost.deallocate;
    let space = mean(trials(shown, level).map(|trial| 100.0 * trial.space));
    let fails = f64::from(u8::from(published.fails()));
    let failed = failures(shown, level) as f64 / shown.len() as f64;
    vec![
        Pair::new(published.space(), space),
        Pair::new(100.0 * fails, 100.0 * failed).derived(),
        Pair::new(paper(|both| both.0), ratio(cost.map(allocate), unit.items.allocate)).derived(),
        Pair::new(None, ratio(time.map(allocate), unit.times.allocate)),
        Pair::new(paper(|both| both.1), ratio(cost.map(free), unit.items.deallocate)).derived(),
        Pair::new(None, ratio(time.map(free), unit.times.deallocate)),
    ]
}

/// Notes for which algorithms our failures agree with the published ones.
fn agreement(shown: &[Vec<Shown>], level: usize) -> String {
    let compared = ALGORITHMS.iter().zip(shown).zip(TABLE_IV);
    let differing: Vec<String> = compared
        .filter_map(|((algorithm, shown), published)| {
            let failures = failures(shown, level);
            let agrees = (2 * failures > shown.len()) == published[level].fails();
            (!agrees).then(|| format!("{} ({failures} of {})", algorithm.name, shown.len()))
        })
        .collect();
    format!(
        "failures agree for {} of {}{}{}",
        ALGORITHMS.len() - differing.len(),
        ALGORITHMS.len(),
        if differing.is_empty() { "" } else { ", not for " },
        differing.join(", ")
    )
}
