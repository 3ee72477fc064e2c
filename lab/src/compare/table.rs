//! The tables of a comparison: one per trace, and one over all traces.

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::verdict::{self, MEASURES};
use super::{Compared, Row};
use crate::units;

/// A column of a trace's table: its head, the value that is the better the smaller it is, and how
/// it is written.
struct Column {
    head: &'static str,
    value: fn(&Row) -> Option<f64>,
    text: fn(f64) -> String,
}

const COLUMNS: [Column; 6] = [
    Column { head: "ns/pair", value: |row| row.ns_per_pair, text: |v| format!("{v:.1}") },
    Column { head: "items/pair", value: |row| row.items_per_pair, text: |v| format!("{v:.2}") },
    Column { head: "paged", value: |row| row.items_per_paged_pair, text: |v| format!("{v:.2}") },
    Column {
        head: "peak held",
        value: |row| row.peak_held_bytes.map(|bytes| bytes as f64),
        text: |v| units::bytes(v as u64),
    },
    Column {
        head: "frag",
        value: |row| row.fragmentation,
        text: |v| format!("{:.1} %", v * 100.0),
    },
    Column {
        head: "OS pages",
        value: |row| row.pages_touched.map(|pages| pages as f64),
        text: |v| units::thousands(v as u64),
    },
];

/// The table of one trace; the best of each column bears a star.
pub(super) fn of_trace(compared: &Compared) -> String {
    let heads = ["strategy"].into_iter().chain(COLUMNS.iter().map(|column| column.head));
    let mut table = plain(heads.chain(["+/-"]));
    let texts: Vec<_> = COLUMNS.iter().map(|column| texts(column, &compared.rows)).collect();
    for (index, row) in compared.rows.iter().enumerate() {
        let mut cells = vec![Cell::new(row.strategy)];
        cells.extend(texts.iter().map(|column| right(column[index].clone())));
        cells.push(right(match (&row.stopped, row.spread) {
            (Some(reason), _) => reason.clone(),
            (None, Some(spread)) => format!("{:.1} %", spread * 100.0),
            (None, None) => "-  ".to_owned(),
        }));
        table.add_row(cells);
    }
    format!("{}: {}\n{}\n", compared.trace, compared.about, trimmed(&table))
}

/// The column's values as they are written, the least with a star.
fn texts(column: &Column, rows: &[Row]) -> Vec<String> {
    let written = rows.iter().map(|row| (column.value)(row).map(column.text));
    let written: Vec<Option<String>> = written.collect();
    let values = rows.iter().filter_map(column.value);
    let best = values.min_by(f64::total_cmp).map(column.text);
    // Compared as written: two that look alike are alike.
    let star = |text: String| if Some(&text) == best.as_ref() { text + " *" } else { text + "  " };
    written.into_iter().map(|text| text.map_or_else(|| "-  ".to_owned(), star)).collect()
}

/// The table over all traces: each strategy's geometric means relative to the reference's.
pub(super) fn summary(all: &[Compared]) -> String {
    let Some(reference) = verdict::reference(all) else { return String::new() };
    let heads = MEASURES.iter().map(|measure| measure.noun);
    let mut table = plain(["strategy"].into_iter().chain(heads).chain(["traces"]));
    for strategy in verdict::strategies(all) {
        let means = MEASURES.iter().map(|measure| {
            let mean = verdict::relative(all, measure, strategy, reference);
            right(mean.map_or_else(|| "-".to_owned(), |mean| format!("{mean:.3}")))
        });
        let finished = verdict::finished(all, strategy);
        let cells = [Cell::new(strategy)].into_iter().chain(means);
        table.add_row(cells.chain([right(format!("{finished}/{}", all.len()))]));
    }
    let over = units::count(all.len() as u64, "trace");
    format!("over {over}: geometric means, {reference} = 1\n{}\n\n", trimmed(&table))
}

fn plain<'h>(heads: impl Iterator<Item = &'h str>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let heads = heads.enumerate().map(|(index, head)| match index {
        0 => Cell::new(head),
        // The two columns of the star.
        _ => right(format!("{head}  ")),
    });
    table.set_header(heads);
    table
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// The table without the blanks at the ends of its lines.
fn trimmed(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_a_column_bears_a_star() {
        let row = |strategy, ns| Row { strategy, ns_per_pair: ns, ..Row::default() };
        let rows = [row("A", Some(20.0)), row("B", Some(10.0)), row("C", None)];
        assert_eq!(texts(&COLUMNS[0], &rows), ["20.0  ", "10.0 *", "-  "]);
    }

    #[test]
    fn a_strategy_that_stopped_says_why() {
        let stopped = Row {
            strategy: "NOFREE",
            stopped: Some("out of memory at operation 9".into()),
            ..Row::default()
        };
        let compared =
            Compared { trace: "t".into(), about: String::new(), rows: vec![stopped], noise: 0.0 };
        assert!(of_trace(&compared).contains("out of memory at operation 9"));
    }
}
