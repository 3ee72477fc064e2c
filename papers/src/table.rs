//! A table with published figures beside ours, as text and as JSON.

use pagewise_replay::sheet::Sheet;
use pagewise_replay::units;
use serde_json::{Value, json};

/// A figure of the paper and ours; either may be missing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pair {
    pub(super) published: Option<f64>,
    pub(super) ours: Option<f64>,
}

impl Pair {
    pub(super) fn new(published: impl Into<Option<f64>>, ours: impl Into<Option<f64>>) -> Self {
        Self { published: published.into(), ours: ours.into() }
    }
}

/// A column: its name, and how many decimals its figures have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) decimals: usize,
}

/// Columns of these names and decimals.
pub(super) fn columns(of: impl IntoIterator<Item = (&'static str, usize)>) -> Vec<Column> {
    of.into_iter().map(|(name, decimals)| Column { name, decimals }).collect()
}

/// A table of a paper.
#[derive(Debug)]
pub(super) struct Table {
    /// Its number in the paper: `3.2`.
    pub(super) number: &'static str,
    pub(super) title: String,
    pub(super) columns: Vec<Column>,
    /// Each row's name, and a pair for each column.
    pub(super) rows: Vec<(String, Vec<Pair>)>,
    /// What must be known to read it.
    pub(super) notes: Vec<String>,
}

impl Table {
    /// The table as text: under each column the published figure, then ours; ours alone where the
    /// paper has none at all.
    pub(super) fn text(&self) -> String {
        let published: Vec<bool> = (0..self.columns.len())
            .map(|column| self.rows.iter().any(|(_, pairs)| pairs[column].published.is_some()))
            .collect();
        let columns = || self.columns.iter().zip(&published);
        let heads = columns().flat_map(|(column, &published)| {
            [Some(column.name), published.then_some("ours")].into_iter().flatten()
        });
        let rows = self.rows.iter().map(|(name, pairs)| {
            let figures = columns().zip(pairs).flat_map(|((column, &published), pair)| {
                let paper = published.then(|| column.text(pair.published));
                [paper, Some(column.text(pair.ours))].into_iter().flatten()
            });
            [name.clone()].into_iter().chain(figures).collect::<Vec<_>>()
        });
        let sheet = Sheet::new([""].into_iter().chain(heads)).with_rows(rows);
        let notes: String = self.notes.iter().map(|note| format!("  {note}\n")).collect();
        format!("Table {}: {}\n{}{notes}", self.number, self.title, sheet.plain())
    }

    /// Its figures as JSON objects: `table row column published ours`.
    pub(super) fn json(&self) -> impl Iterator<Item = Value> {
        self.rows.iter().flat_map(move |(row, pairs)| {
            self.columns.iter().zip(pairs).map(move |(column, pair)| {
                json!({
                    "table": self.number, "row": row, "column": column.name,
                    "published": pair.published, "ours": pair.ours,
                })
            })
        })
    }
}

impl Column {
    fn text(&self, figure: Option<f64>) -> String {
        match figure {
            None => "-".to_owned(),
            Some(figure) if self.decimals == 0 => units::thousands(figure.round() as u64),
            Some(figure) => format!("{figure:.*}", self.decimals),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_and_ours_stand_side_by_side() {
        let table = Table {
            number: "9.9",
            title: "an example".into(),
            columns: columns([("pages", 0), ("faults", 2)]),
            rows: vec![("MRU".into(), vec![Pair::new(1234.0, 1250.0), Pair::new(None, 0.5)])],
            notes: vec!["a note".into()],
        };
        let text = table.text();
        assert!(text.contains("1,234") && text.contains("1,250") && text.contains("0.50"));
        assert!(text.starts_with("Table 9.9: an example\n") && text.ends_with("  a note\n"));
        let figures: Vec<_> = table.json().collect();
        assert_eq!(figures.len(), 2);
        assert_eq!(figures[1]["published"], Value::Null);
        assert_eq!(figures[0]["ours"], 1250.0);
    }
}
