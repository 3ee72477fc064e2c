//! Over all traces: the strategy with the fewest faults on each, and each strategy's means.

use std::ops::Range;

use pagewise_replay::sheet::Sheet;
use pagewise_replay::units::{bytes, count, thousands};

use super::row::{Row, Simulated};
use crate::competitor::SYSTEM;

/// Returns the tables for every page size, plain or as Markdown.
pub(super) fn of(all: &[Simulated], markdown: bool) -> String {
    let render = if markdown { Sheet::markdown } else { Sheet::plain };
    let mut page_sizes: Vec<_> = all.iter().map(|one| one.page_size).collect();
    page_sizes.sort_unstable();
    page_sizes.dedup();
    let mut text = String::new();
    for page_size in page_sizes {
        let traces: Vec<_> = all.iter().filter(|one| one.page_size == page_size).collect();
        let page = bytes(page_size as u64);
        text += &format!("\nFewest LRU page faults by a strategy, pages of {page}\n");
        let sets = traces.first().map_or(0, |one| one.working_sets.len());
        // A terminal has no room for all of them side by side.
        let together = if markdown { sets.max(1) } else { 1 };
        for start in (0..sets).step_by(together) {
            let shown = start..(start + together).min(sets);
            text += &format!("\n{}", render(&fewest(&traces, shown)));
        }
        if let Some(means) = means(&traces) {
            text += &format!(
                "\nLRU page faults and pages touched, {SYSTEM} = 1, pages of {page}, geometric means\n\
                 over {}\n\n{}",
                count(traces.len() as u64, "trace"),
                render(&means)
            );
        }
    }
    text
}

/// Makes a sheet with, for each trace and these working sets, the strategy with the fewest faults
/// beside the figures of SYSTEM and the libraries.
fn fewest(traces: &[&Simulated], sets: Range<usize>) -> Sheet {
    let rivals: Vec<&str> =
        first(traces).filter(|row| !row.is_strategy()).map(Row::short_name).collect();
    let mut heads = vec!["trace".to_owned(), "peak".to_owned()];
    for (asked, _) in traces.iter().take(1).flat_map(|one| &one.working_sets[sets.clone()]) {
        heads.push(format!("{asked}: fewest"));
        heads.extend(rivals.iter().map(|&rival| rival.to_owned()));
    }
    let row = |one: &&Simulated| {
        let mut cells = vec![one.trace.clone(), thousands(one.peak as u64)];
        for index in sets.clone() {
            let faults = |row: &Row| row.faults(index).map_or("-".to_owned(), thousands);
            let strategies = one.rows.iter().filter(|row| row.is_strategy());
            let measured = strategies.filter(|row| row.faults(index).is_some());
            let best = measured.min_by_key(|row| row.faults(index));
            cells
                .push(best.map_or("-".to_owned(), |row| row.strategy.clone() + " " + &faults(row)));
            cells.extend(one.rows.iter().filter(|row| !row.is_strategy()).map(faults));
        }
        cells
    };
    Sheet::new(heads).with_rows(traces.iter().map(row))
}

/// Returns each strategy's faults and pages touched relative to SYSTEM's; `None` without SYSTEM.
fn means(traces: &[&Simulated]) -> Option<Sheet> {
    let system = first(traces).position(|row| row.strategy == SYSTEM)?;
    let sets = &traces.first()?.working_sets;
    let mut heads = vec!["strategy".to_owned()];
    heads.extend(sets.iter().map(|(asked, _)| asked.to_string()));
    heads.push("pages touched".to_owned());
    let line = |(which, row): (usize, &Row)| {
        let mean = |value: &dyn Fn(&Row) -> Option<u64>| {
            let ratio = |one: &&Simulated| {
                let (ours, system) = (value(&one.rows[which])?, value(&one.rows[system])?);
                (ours > 0 && system > 0).then(|| ours as f64 / system as f64)
            };
            geometric_mean(traces.iter().filter_map(ratio))
        };
        let mut cells = vec![row.strategy.clone()];
        let faults = (0..sets.len()).map(|index| mean(&|row| row.faults(index)));
        let all = faults.chain([mean(&|row| row.pages_touched)]);
        cells.extend(all.map(|mean| mean.map_or("-".to_owned(), |mean| format!("{mean:.2}"))));
        cells
    };
    Some(Sheet::new(heads).with_rows(first(traces).enumerate().map(line)))
}

/// Returns the rows of the first trace: all traces have the same rows, in the same order.
fn first<'a>(traces: &[&'a Simulated]) -> impl Iterator<Item = &'a Row> + use<'a> {
    traces.first().copied().into_iter().flat_map(|one| &one.rows)
}

/// Returns the geometric mean; `None` without values.
fn geometric_mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, number) =
        values.fold((0.0, 0), |(sum, number), value| (sum + value.ln(), number + 1));
    (number > 0).then(|| (sum / f64::from(number)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_geometric_mean_of_a_number_and_its_inverse_is_one() {
        let mean = geometric_mean([4.0, 0.25].into_iter()).unwrap();
        assert!((mean - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(std::iter::empty()), None);
    }
}
