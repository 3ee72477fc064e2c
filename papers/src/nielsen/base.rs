//! Table IV: all 35 algorithms on the base load.

use pagewise_replay::progress::Progress;

use super::levels::{LEVEL_NAMES, LEVELS};
use super::measure::{self, COSTS, Shown, mean};
use super::published::TABLE_IV;
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
    let trials = || shown.iter().filter_map(|shown| shown.trials[level]);
    Some(Cost {
        allocate: mean(trials().map(|trial| trial.items.allocate))?,
        deallocate: mean(trials().map(|trial| trial.items.deallocate))?,
    })
}

fn part(shown: &[Vec<Shown>], level: usize) -> Table {
    let unit = reference();
    let unit_items = items(&shown[unit], 0).unwrap_or_default();
    let unit_times = shown[unit][0].times[0].unwrap_or_default();
    let unit_published = TABLE_IV[unit][0].times().unwrap_or_default();
    let mut agreeing = 0;
    let mut differing = Vec::new();
    let rows = ALGORITHMS.iter().zip(shown).zip(TABLE_IV).map(|((algorithm, shown), published)| {
        let published = published[level];
        let trials = || shown.iter().filter_map(|shown| shown.trials[level]);
        let failures = shown.len() - trials().count();
        if (2 * failures > shown.len()) == published.fails() {
            agreeing += 1;
        } else {
            differing.push(format!("{} ({failures} of {})", algorithm.name, shown.len()));
        }
        let cost = items(shown, level);
        let time = shown[0].times[level];
        let ratio = |ours: Option<f64>, unit: f64| ours.map(|ours| ours / unit);
        let paper = |which: fn((f64, f64)) -> f64| {
            published.times().map(|times| which(times) / which(unit_published))
        };
        let allocate = |cost: Cost| cost.allocate;
        let free = |cost: Cost| cost.deallocate;
        let fails = f64::from(u8::from(published.fails()));
        let pairs = vec![
            Pair::new(published.space(), mean(trials().map(|trial: Trial| 100.0 * trial.space))),
            Pair::new(100.0 * fails, 100.0 * failures as f64 / shown.len() as f64).derived(),
            Pair::new(paper(|both| both.0), ratio(cost.map(allocate), unit_items.allocate))
                .derived(),
            Pair::new(None, ratio(time.map(allocate), unit_times.allocate)),
            Pair::new(paper(|both| both.1), ratio(cost.map(free), unit_items.deallocate)).derived(),
            Pair::new(None, ratio(time.map(free), unit_times.deallocate)),
        ];
        (algorithm.name.to_owned(), pairs)
    });
    let rows = rows.collect();
    let columns = vec![
        Column::new("space %", 1).within(1.5),
        // Counts as a failure if most samples fail.
        Column::new("fails %", 0).within(50.0),
        Column::new("allocate", 1).near(COSTS),
        Column::new("allocate ns", 1),
        Column::new("deallocate", 1).near(COSTS),
        Column::new("deallocate ns", 1),
    ];
    let mut notes = vec![format!(
        "failures agree for {agreeing} of {}{}{}",
        ALGORITHMS.len(),
        if differing.is_empty() { "" } else { ", not for " },
        differing.join(", ")
    )];
    if level == 0 {
        notes.push(format!(
            "IV-1, which is 1: published {:.0} and {:.0} µs; ours {:.2} and {:.2} items, {:.0} and {:.0} ns",
            unit_published.0,
            unit_published.1,
            unit_items.allocate,
            unit_items.deallocate,
            unit_times.allocate,
            unit_times.deallocate
        ));
    }
    Table {
        number: ["IV, 50 %", "IV, 66.7 %", "IV, 80 %"][level],
        title: format!(
            "35 algorithms on the base load, peak demand {} of memory",
            LEVEL_NAMES[level]
        ),
        columns,
        rows,
        notes,
        ..Table::default()
    }
}
