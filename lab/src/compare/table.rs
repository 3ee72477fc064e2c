//! The tables of a comparison: one per trace, and one over all traces.

use pagewise_replay::sheet::Sheet;
use pagewise_replay::units;
use serde::Serialize;

use super::compared::Compared;
use super::measure::{self, HELD, MEASURES, RESIDENT, TIME};
use super::row::Row;

/// A column of a trace's table: its head, its value, where smaller is better, and its format.
struct Column {
    head: &'static str,
    value: fn(&Row) -> Option<f64>,
    text: fn(f64) -> String,
}

/// The head of the last column.
const SPREAD: &str = "+/-";

const COLUMNS: [Column; 6] = [
    Column { head: "ns/pair", value: |row| row.ns_per_pair, text: |v| format!("{v:.1}") },
    Column {
        head: "resident",
        value: |row| row.peak_resident_bytes.map(|bytes| bytes as f64),
        text: |v| units::bytes(v as u64),
    },
    Column {
        head: "held",
        value: |row| row.peak_held_bytes.map(|bytes| bytes as f64),
        text: |v| units::bytes(v as u64),
    },
    Column {
        head: "frag",
        value: |row| row.fragmentation,
        text: |v| format!("{:.0} %", v * 100.0),
    },
    Column {
        head: "OS pages",
        value: |row| row.pages_touched.map(|pages| pages as f64),
        text: |v| units::thousands(v as u64),
    },
    Column { head: "items", value: |row| row.items_per_pair, text: |v| format!("{v:.2}") },
];

/// A table, independent of its output format.
#[derive(Debug)]
pub(crate) struct Grid {
    /// Column heads, except the first column's, which has the strategies' names.
    pub(crate) heads: Vec<&'static str>,
    /// A strategy's name, and a figure per column.
    pub(crate) lines: Vec<(&'static str, Vec<Figure>)>,
}

/// A figure of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figure {
    /// Empty if there is no figure.
    pub(crate) text: String,
    /// Whether it is the best of its column.
    pub(crate) best: bool,
}

/// Returns the measures over one trace as a table.
pub(crate) fn grid(compared: &Compared) -> Grid {
    let columns: Vec<_> = COLUMNS.iter().map(|column| figures(column, &compared.rows)).collect();
    let lines = compared.rows.iter().enumerate().map(|(index, row)| {
        let last = match (&row.stopped, row.ns_per_pair_spread) {
            (Some(reason), _) => reason.clone(),
            (None, Some(spread)) if spread >= 0.1 => format!("{:.0} %", spread * 100.0),
            (None, Some(spread)) => format!("{:.1} %", spread * 100.0),
            (None, None) => String::new(),
        };
        let figures = columns.iter().map(|column| column[index].clone());
        (row.strategy, figures.chain([Figure { text: last, best: false }]).collect())
    });
    let heads = COLUMNS.iter().map(|column| column.head);
    Grid { heads: heads.chain([SPREAD]).collect(), lines: lines.collect() }
}

/// Returns the column's values as text.
fn figures(column: &Column, rows: &[Row]) -> Vec<Figure> {
    let values = rows.iter().filter_map(column.value);
    let best = values.min_by(f64::total_cmp).map(column.text);
    let figure = |row: &Row| {
        let text = (column.value)(row).map(column.text);
        // Compare the formatted text: values that look equal count as equal.
        Figure { best: text.is_some() && text == best, text: text.unwrap_or_default() }
    };
    rows.iter().map(figure).collect()
}

/// Formats the table of one trace, fastest first, with a star at the best of each column.
/// Competitors without figures are listed below it, each with the reason.
pub(super) fn of_trace(compared: &Compared) -> String {
    let Grid { heads, lines } = grid(compared);
    let mut lines: Vec<_> = compared.rows.iter().zip(lines).collect();
    let time = |row: &Row| row.ns_per_pair.unwrap_or(f64::INFINITY);
    lines.sort_by(|a, b| time(a.0).total_cmp(&time(b.0)));
    // A head is followed by a blank, like a figure without a star; the spread has no stars.
    let starred = |head: &str| if head == SPREAD { head.to_owned() } else { format!("{head} ") };
    let heads = heads.into_iter().map(starred);
    let mut sheet = Sheet::new(["strategy".to_owned()].into_iter().chain(heads));
    let mut notes = String::new();
    for (row, (strategy, mut figures)) in lines {
        if let Some(reason) = &row.stopped {
            notes += &format!("{strategy}: {reason}\n");
            continue;
        }
        let last = figures.pop().unwrap_or_default().text;
        let mut cells = vec![strategy.to_owned()];
        cells.extend(figures.into_iter().map(|figure| match figure {
            Figure { text, .. } if text.is_empty() => "- ".to_owned(),
            Figure { text, best: true } => text + "*",
            Figure { text, best: false } => text + " ",
        }));
        cells.push(if last.is_empty() { "-".to_owned() } else { last });
        sheet.push(cells);
    }
    sheet.packed() + &notes
}

/// Returns each strategy's geometric means over all traces, relative to the reference's, with a
/// caption; `None` if no strategy finished every trace.
pub(crate) fn means(all: &[&Compared]) -> Option<(String, Grid)> {
    let reference = measure::reference(all)?;
    let heads = MEASURES.iter().map(|measure| measure.head).chain(["traces"]).collect();
    let line = |strategy| {
        let means = MEASURES.iter().map(|measure| {
            let mean = measure::relative(all, measure, strategy, reference);
            mean.map_or_else(String::new, |mean| format!("{mean:.3}"))
        });
        let finished = format!("{}/{}", measure::finished(all, strategy), all.len());
        let figure = |text| Figure { text, best: false };
        (strategy, means.chain([finished]).map(figure).collect())
    };
    let over = units::count(all.len() as u64, "trace");
    let caption = format!("Over {over}: geometric means, {reference} = 1");
    let lines = measure::strategies(all).into_iter().map(line).collect();
    Some((caption, Grid { heads, lines }))
}

/// A strategy's geometric means relative to the reference's, as numbers.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Mean {
    pub(crate) name: &'static str,
    pub(crate) time: Option<f64>,
    pub(crate) resident: Option<f64>,
    pub(crate) held: Option<f64>,
}

/// Returns every strategy's means of time and memory; empty without a reference.
pub(crate) fn mean_of_each(all: &[&Compared]) -> Vec<Mean> {
    let Some(reference) = measure::reference(all) else { return Vec::new() };
    let mean = |name| {
        let [time, resident, held] = [&TIME, &RESIDENT, &HELD]
            .map(|measure| measure::relative(all, measure, name, reference));
        Mean { name, time, resident, held }
    };
    measure::strategies(all).into_iter().map(mean).collect()
}

/// Returns the table over all traces, fastest first.
pub(super) fn summary(all: &[&Compared]) -> String {
    let Some((caption, Grid { mut heads, lines })) = means(all) else { return String::new() };
    let time = |name| {
        let mean = mean_of_each(all).into_iter().find(|mean| mean.name == name);
        mean.and_then(|mean| mean.time).unwrap_or(f64::INFINITY)
    };
    let mut lines: Vec<_> = lines.into_iter().map(|line| (time(line.0), line)).collect();
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    let complete = lines.iter().all(|(_, (name, _))| measure::finished(all, name) == all.len());
    if complete {
        heads.pop();
    }
    let columns = heads.len();
    let mut sheet = Sheet::new(["strategy"].into_iter().chain(heads));
    for (_, (strategy, figures)) in lines {
        let text = |figure: Figure| if figure.text.is_empty() { "-".into() } else { figure.text };
        let figures = figures.into_iter().take(columns).map(text);
        sheet.push([strategy.to_owned()].into_iter().chain(figures));
    }
    format!("{caption}\n{}", sheet.packed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_a_column_is_the_least() {
        let row = |strategy, ns| Row { strategy, ns_per_pair: ns, ..Row::default() };
        let rows = [row("A", Some(20.0)), row("B", Some(10.0)), row("C", None)];
        let figures = figures(&COLUMNS[0], &rows);
        assert_eq!(figures.iter().map(|one| &*one.text).collect::<Vec<_>>(), ["20.0", "10.0", ""]);
        assert_eq!(figures.iter().map(|one| one.best).collect::<Vec<_>>(), [false, true, false]);
    }

    #[test]
    fn a_strategy_that_stopped_shows_the_reason() {
        let stopped = Row {
            strategy: "NOFREE",
            stopped: Some("out of memory at operation 9".into()),
            ..Row::default()
        };
        let compared = Compared {
            trace: "t".into(),
            argument: String::new(),
            about: String::new(),
            threads: 1,
            rows: vec![stopped],
            noise: None,
        };
        assert!(of_trace(&compared).contains("out of memory at operation 9"));
    }
}
