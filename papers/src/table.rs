//! A table with published figures beside ours, as text and as JSON.

use std::ops::Range;

use pagewise_replay::sheet::Sheet;
use pagewise_replay::units;
use serde_json::{Value, json};

/// Maximum characters per line.
const WIDTH: usize = 80;

/// A figure of the paper and ours; either may be missing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pair {
    pub(super) published: Option<f64>,
    pub(super) ours: Option<f64>,
    /// Not printed in the paper, but derived from printed figures.
    derived: bool,
}

impl Pair {
    pub(super) fn new(published: impl Into<Option<f64>>, ours: impl Into<Option<f64>>) -> Self {
        Self { published: published.into(), ours: ours.into(), derived: false }
    }

    /// Marks the published figure as derived.
    pub(super) fn derived(self) -> Self {
        Self { derived: true, ..self }
    }

    /// Returns the origin of the published figure.
    fn published_is(&self) -> Option<&'static str> {
        self.published.map(|_| if self.derived { "derived" } else { "printed" })
    }
}

/// How close a figure must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Near {
    /// Within this percentage of the published figure.
    Percent(f64),
    /// Within this difference from it.
    Absolute(f64),
    /// In another unit: only the order counts.
    OrderAlone,
    /// Derived from other figures of the row, or not comparable.
    Uncounted,
}

impl Near {
    /// Returns whether a figure is close enough; `None` if it is not judged.
    pub(super) fn holds(self, pair: &Pair) -> Option<bool> {
        let published = pair.published?;
        let most = match self {
            Self::Percent(percent) => published.abs() * percent / 100.0,
            Self::Absolute(most) => most,
            Self::OrderAlone | Self::Uncounted => return None,
        };
        // Allows for figures and tolerances printed with few decimals.
        Some(pair.ours.is_some_and(|ours| (ours - published).abs() <= most * (1.0 + 1e-9)))
    }

    /// Returns a tolerance multiplied by this factor.
    pub(super) fn times(self, factor: f64) -> Self {
        match self {
            Self::Percent(percent) => Self::Percent(percent * factor),
            Self::Absolute(most) => Self::Absolute(most * factor),
            Self::OrderAlone | Self::Uncounted => self,
        }
    }

    /// Returns the tolerance as text.
    pub(super) fn name(self) -> Option<String> {
        match self {
            Self::Percent(percent) => Some(format!("{percent} %")),
            Self::Absolute(most) => Some(format!("±{most}")),
            Self::OrderAlone | Self::Uncounted => None,
        }
    }
}

/// Which figures the paper compares with each other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ranked {
    /// The figures of a column.
    Down,
    /// The figures of a column in rows of the same group.
    Within(fn(&str) -> &str),
    /// The figures of a row.
    Across,
    /// None: the figures are of different kinds.
    Not,
}

/// A column: its name, the decimals of its figures, and how they are judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) decimals: usize,
    pub(super) near: Near,
    /// The others of its row are relative to it.
    pub(super) is_unit: bool,
    /// A ratio: whether it is above or below one is part of the paper's result.
    pub(super) is_ratio: bool,
}

impl Column {
    pub(super) fn new(name: &'static str, decimals: usize) -> Self {
        Self { name, decimals, near: Near::Percent(10.0), is_unit: false, is_ratio: false }
    }

    pub(super) fn near(self, near: Near) -> Self {
        Self { near, ..self }
    }

    /// Allows this difference from the published figure.
    pub(super) fn within(self, most: f64) -> Self {
        self.near(Near::Absolute(most))
    }

    /// Marks the column to which the others of its row are relative.
    pub(super) fn unit(self) -> Self {
        Self { is_unit: true, near: Near::Uncounted, ..self }
    }

    /// Marks a ratio, which should be on the paper's side of one.
    pub(super) fn ratio(self) -> Self {
        Self { is_ratio: true, ..self }
    }

    /// Returns whether some row has both figures.
    pub(super) fn has_figures_of_both(&self, table: &Table) -> bool {
        let Some(index) = table.columns.iter().position(|column| column.name == self.name) else {
            return false;
        };
        let both = |pair: Pair| pair.published.is_some() && pair.ours.is_some();
        table.rows.iter().any(|(_, pairs)| both(pairs[index]))
    }
}

/// Returns columns with these names and decimals, and a tolerance of a tenth of the published
/// figures.
pub(super) fn columns(of: impl IntoIterator<Item = (&'static str, usize)>) -> Vec<Column> {
    of.into_iter().map(|(name, decimals)| Column::new(name, decimals)).collect()
}

/// A table of a paper.
#[derive(Debug)]
pub(super) struct Table {
    /// Its number in the paper: `3.2`.
    pub(super) number: &'static str,
    pub(super) title: String,
    pub(super) columns: Vec<Column>,
    /// Each row's name, and a pair per column.
    pub(super) rows: Vec<(String, Vec<Pair>)>,
    /// Notes needed to read it.
    pub(super) notes: Vec<String>,
    /// Which figures the paper compares with each other.
    pub(super) ranked: Ranked,
    /// Rows at the end that are means of the others.
    pub(super) means: usize,
}

/// An empty table whose columns are compared.
impl Default for Table {
    fn default() -> Self {
        Self {
            number: "",
            title: String::new(),
            columns: Vec::new(),
            rows: Vec::new(),
            notes: Vec::new(),
            ranked: Ranked::Down,
            means: 0,
        }
    }
}

impl Table {
    /// Returns a table without published figures, with columns of these names and decimals.
    pub(super) fn uncompared(of: impl IntoIterator<Item = (&'static str, usize)>) -> Self {
        let column = |(name, decimals)| Column::new(name, decimals).near(Near::Uncounted);
        let columns = of.into_iter().map(column).collect();
        Self { columns, ranked: Ranked::Not, ..Self::default() }
    }

    /// Formats the table as text: under each column the published figure, then ours; only ours
    /// where the paper has none at all. Columns that do not fit a line are below, with the rows'
    /// names again.
    pub(super) fn text(&self) -> String {
        let mut sheets = String::new();
        let mut from = 0;
        loop {
            let fits = |to: &usize| {
                self.sheet(from..*to).lines().all(|line| line.chars().count() <= WIDTH)
            };
            let end = self.columns.len();
            let to = (from + 2..=end).take_while(fits).last().unwrap_or(end.min(from + 1));
            sheets.push_str(&self.sheet(from..to));
            if to == end {
                break;
            }
            sheets.push('\n');
            from = to;
        }
        let notes: String = self.notes.iter().map(|note| format!("  {note}\n")).collect();
        let what = if self.number.starts_with("Fig.") { "" } else { "Table " };
        format!("{what}{}: {}\n{sheets}{notes}", self.number, self.title)
    }

    /// Formats these columns, and the rows' names.
    fn sheet(&self, of: Range<usize>) -> String {
        let is_published =
            |column: usize| self.rows.iter().any(|(_, pairs)| pairs[column].published.is_some());
        let columns: Vec<_> = of.clone().map(|at| (&self.columns[at], is_published(at))).collect();
        let heads = columns.iter().flat_map(|&(column, published)| {
            [Some(column.name), published.then_some("ours")].into_iter().flatten()
        });
        let rows = self.rows.iter().map(|(name, pairs)| {
            let pairs = &pairs[of.clone()];
            let figures = columns.iter().zip(pairs).flat_map(|(&(column, published), pair)| {
                let paper = published.then(|| column.text(pair.published));
                [paper, Some(column.text(pair.ours))].into_iter().flatten()
            });
            [name.clone()].into_iter().chain(figures).collect::<Vec<_>>()
        });
        Sheet::new([""].into_iter().chain(heads)).with_rows(rows).plain()
    }

    /// Returns its figures as JSON objects: `table row column published published_is ours within`.
    pub(super) fn json(&self) -> impl Iterator<Item = Value> {
        self.rows.iter().flat_map(move |(row, pairs)| {
            self.columns.iter().zip(pairs).map(move |(column, pair)| {
                json!({
                    "table": self.number, "row": row, "column": column.name,
                    "published": pair.published, "published_is": pair.published_is(),
                    "ours": pair.ours, "within": column.near.holds(pair),
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
    fn a_table_is_no_wider_than_a_line() {
        let names =
            ["pages", "faults", "a longer name", "of them", "another", "the seventh", "time"];
        for count in 0..=names.len() {
            let of = &names[..count];
            let table = Table {
                columns: columns(of.iter().map(|name| (*name, 2))),
                rows: vec![
                    ("LEAST-FREE".into(), vec![Pair::new(1_234.5, 1_250.25); count]),
                    ("MRU".into(), vec![Pair::new(None, 0.5); count]),
                ],
                ..Table::default()
            };
            let text = table.text();
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
            let column = |name: &&&str| text.contains(**name);
            assert_eq!(of.iter().filter(column).count(), count, "{text}");
            assert_eq!(text.matches("1,250.25").count() + text.matches("1250.25").count(), count);
            let sheets = text.matches("LEAST-FREE").count();
            assert_eq!(sheets, text.matches("MRU").count());
            assert!(sheets >= 1 && (count < 5 || sheets > 1), "{text}");
        }
    }

    #[test]
    fn published_and_ours_stand_side_by_side() {
        let table = Table {
            number: "9.9",
            title: "an example".into(),
            columns: columns([("pages", 0), ("faults", 2)]),
            rows: vec![
                ("MRU".into(), vec![Pair::new(1234.0, 1250.0), Pair::new(None, 0.5)]),
                ("half".into(), vec![Pair::new(617.0, 900.0).derived(), Pair::default()]),
            ],
            notes: vec!["a note".into()],
            ..Table::default()
        };
        let text = table.text();
        assert!(text.contains("1,234") && text.contains("1,250") && text.contains("0.50"));
        assert!(text.starts_with("Table 9.9: an example\n") && text.ends_with("\n  a note\n"));
        let figures: Vec<_> = table.json().collect();
        assert_eq!(figures.len(), 4);
        assert_eq!(figures[1]["published"], Value::Null);
        assert_eq!(figures[1]["published_is"], Value::Null);
        assert_eq!(figures[0]["ours"], 1250.0);
        let of = |field: &str| [0, 2].map(|index| figures[index][field].clone());
        assert_eq!(of("published_is"), ["printed", "derived"]);
        assert_eq!(of("within"), [true, false]);
    }
}
