//! The tables of one trace at one page size: faults at the requested working sets, and the curve.

use pagewise_replay::sheet::Sheet;
use pagewise_replay::units::{bytes, count, thousands};

use super::row::{Row, Simulated};
use super::setup::WorkingSet;

/// Formats both tables, below a line that names the trace.
pub(super) fn of(simulated: &Simulated) -> String {
    let reasons = simulated.rows.iter().filter_map(|row| {
        let reason = row.stopped.as_ref()?;
        Some(format!("{}: {reason}\n", row.strategy))
    });
    format!(
        "{}: pages of {}; peak {} requested, {}\n{}{}{}\nPage-fault curve (LRU)\n{}",
        simulated.trace,
        bytes(simulated.page_size as u64),
        bytes(simulated.peak_requested),
        count(simulated.peak as u64, "page"),
        faults(simulated).packed(),
        clock(simulated),
        reasons.collect::<String>(),
        curve(simulated).packed(),
    )
}

/// A column of figures, one per row that has it. The least has a star.
struct Column {
    head: String,
    values: Vec<Option<u64>>,
}

/// Returns the faults at the requested working sets.
fn faults(simulated: &Simulated) -> Sheet {
    let touched = column(simulated, "touched".into(), |row| row.pages_touched);
    let sets = simulated.working_sets.iter().enumerate();
    let sets = sets.map(|(index, set)| column(simulated, described(set), |row| row.faults(index)));
    sheet(simulated, [touched].into_iter().chain(sets).collect())
}

/// Formats the same for CLOCK, if requested: beside LRU's, its columns would not fit 80.
fn clock(simulated: &Simulated) -> String {
    let sets = simulated.working_sets.iter().enumerate();
    let columns =
        sets.map(|(index, set)| column(simulated, described(set), |row| row.clock_faults(index)));
    let columns: Vec<_> = columns.collect();
    if columns.iter().all(|column| column.values.iter().all(Option::is_none)) {
        return String::new();
    }
    format!("\nThe same under CLOCK\n{}", sheet(simulated, columns).packed())
}

fn column(simulated: &Simulated, head: String, value: impl Fn(&Row) -> Option<u64>) -> Column {
    Column { head, values: simulated.rows.iter().map(value).collect() }
}

/// Returns a table of these columns; those without any figure are left out.
fn sheet(simulated: &Simulated, mut columns: Vec<Column>) -> Sheet {
    let rows = &simulated.rows;
    columns.retain(|column| column.values.iter().any(Option::is_some));
    let texts: Vec<_> = columns.iter().map(texts).collect();
    let row = |(index, row): (usize, &Row)| {
        let cells = texts.iter().map(|column| column[index].clone());
        [row.strategy.clone()].into_iter().chain(cells).collect::<Vec<_>>()
    };
    let heads = columns.iter().map(|column| column.head.clone() + " ");
    Sheet::new(["strategy".to_owned()].into_iter().chain(heads))
        .with_rows(rows.iter().enumerate().map(row))
}

/// Formats a working set: `10 % = 31` or `50 pages`.
fn described(&(asked, pages): &(WorkingSet, usize)) -> String {
    match asked {
        WorkingSet::Pages(_) => asked.to_string(),
        WorkingSet::Percent(_) => format!("{asked} = {}", thousands(pages as u64)),
    }
}

fn texts(column: &Column) -> Vec<String> {
    let best = column.values.iter().flatten().min();
    let text = |value: &Option<u64>| match value {
        Some(value) if Some(value) == best => thousands(*value) + "*",
        Some(value) => thousands(*value) + " ",
        None => "- ".to_owned(),
    };
    column.values.iter().map(text).collect()
}

/// Returns the page-fault curves at powers of two, or of four if there are many.
fn curve(simulated: &Simulated) -> Sheet {
    let rows: Vec<&Row> = simulated.rows.iter().filter(|row| !row.curve.is_empty()).collect();
    let most = rows.iter().filter_map(|row| row.curve.last()).map(|(pages, _)| *pages).max();
    let most = most.unwrap_or(1).next_power_of_two();
    let step = if most.ilog2() > 6 { 2 } else { 1 };
    let powers = || (0..=most.ilog2()).step_by(step).map(|power| 1 << power);
    let row = |row: &&Row| {
        let faults = powers().map(|pages| row.on_curve(pages).map_or("-".to_owned(), thousands));
        [row.strategy.clone()].into_iter().chain(faults).collect::<Vec<_>>()
    };
    let heads = powers().map(|pages: usize| thousands(pages as u64));
    Sheet::new(["pages".to_owned()].into_iter().chain(heads)).with_rows(rows.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_faults_are_marked_with_a_star() {
        let values = vec![Some(20), Some(1_000), None, Some(20)];
        let column = Column { head: "faults".into(), values };
        assert_eq!(texts(&column), ["20*", "1,000 ", "- ", "20*"]);
    }

    #[test]
    fn percentages_show_their_number_of_pages() {
        assert_eq!(described(&(WorkingSet::Percent(10.0), 3100)), "10 % = 3,100");
        assert_eq!(described(&(WorkingSet::Pages(50), 50)), "50 pages");
    }
}
