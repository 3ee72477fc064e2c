//! Compares a table with the paper's: which rows are close to its figures, and where its order or
//! shape is missed. Everything is computed from the figures.

use serde_json::{Value, json};

use crate::table::{Column, Near, Pair, Ranked, Table};

type Row = (String, Vec<Pair>);

/// A figure in the comparison: its name, published and ours.
type Side<'t> = (&'t str, f64, Option<f64>);

/// The counts of a comparison.
#[derive(Debug, Default)]
struct Counts {
    /// Rows with figures of both.
    rows: usize,
    /// Rows with published figures only.
    quoted: usize,
    near: usize,
    pairs: usize,
    ordered: usize,
    /// The missed figures, row by row.
    missed: Vec<String>,
}

/// Returns the lines below a table: the missed figures, row by row, and the counts.
pub(super) fn lines(table: &Table) -> Vec<String> {
    let counts = count(table);
    let mut lines = Vec::new();
    if !counts.missed.is_empty() {
        lines.push(
            "order or shape not reproduced (each pair at the row with the lower published figure; far off: beyond three tolerances):"
                .to_owned(),
        );
        lines.extend(counts.missed.iter().map(|line| format!("  {line}")));
    }
    lines.push(counts.summary(table));
    lines
}

/// Returns the same as a JSON object, `table title verdict`. The verdict has the `rows` with
/// figures of both, the number of those `within` the tolerance, the `pairs` that the paper
/// compares, the number of those `in_order`, the `missed` figures row by row, and the `summary`
/// that ends the printed table.
pub(super) fn json(table: &Table) -> Value {
    let counts = count(table);
    json!({
        "table": table.number, "title": table.title,
        "verdict": {
            "rows": counts.rows, "within": counts.near, "only_quoted": counts.quoted,
            "pairs": counts.pairs, "in_order": counts.ordered,
            "missed": counts.missed, "summary": counts.summary(table),
        },
    })
}

fn count(table: &Table) -> Counts {
    let counted = &table.rows[..table.rows.len() - table.means];
    let mut counts = Counts::default();
    let published = |(_, pairs): &&Row| pairs.iter().any(|pair| pair.published.is_some());
    let ours = |(_, pairs): &&Row| pairs.iter().any(|pair| pair.ours.is_some());
    let published: Vec<&Row> = counted.iter().filter(published).collect();
    let counted: Vec<&Row> = published.iter().copied().filter(ours).collect();
    counts.quoted = published.len() - counted.len();
    let counted = &counted[..];
    count_rows(table, counted, &mut counts);
    match table.ranked {
        Ranked::Down => count_columns(table, counted, |_| "", &mut counts),
        Ranked::Within(group) => count_columns(table, counted, group, &mut counts),
        Ranked::Across => count_across(table, counted, &mut counts),
        Ranked::Not => {}
    }
    count_sides(table, counted, &mut counts);
    count_only_ours(table, counted, &mut counts);
    counts
}

impl Counts {
    fn summary(&self, table: &Table) -> String {
        if self.rows == 0 {
            return "no published figures to compare with".to_owned();
        }
        let mut tolerances: Vec<(String, Vec<&str>)> = Vec::new();
        for column in table.columns.iter().filter(|column| column.has_figures_of_both(table)) {
            let Some(name) = column.near.name() else { continue };
            match tolerances.iter_mut().find(|(other, _)| *other == name) {
                Some((_, columns)) => columns.push(column.name),
                None => tolerances.push((name, vec![column.name])),
            }
        }
        let stated = match &tolerances[..] {
            [] => "published figures are in other units".to_owned(),
            [(one, _)] => format!("{} within {one}", self.near),
            several => {
                let each = several.iter().map(|(near, of)| format!("{near} ({})", of.join(", ")));
                format!("{} within {}", self.near, each.collect::<Vec<_>>().join(", "))
            }
        };
        let order = match self.pairs {
            0 => "no order to compare".to_owned(),
            all => format!(
                "{} of {all} pairs in published order ({:.2})",
                self.ordered,
                self.ordered as f64 / all as f64
            ),
        };
        let quoted = match self.quoted {
            0 => String::new(),
            quoted => format!(" ({quoted} more only quoted)"),
        };
        format!("{} rows with published figures{quoted}: {stated}; {order}", self.rows)
    }

    /// Compares all pairs of figures that differ in the paper.
    fn compare(&mut self, sides: &[Side<'_>], of: &str) {
        for &(name, published, ours) in sides {
            let above = sides.iter().filter(|(_, other, _)| *other > published);
            let (mut not_below, mut equal) = (Vec::new(), Vec::new());
            for &(other, _, others) in above {
                self.pairs += 1;
                match (ours, others) {
                    (Some(ours), Some(others)) if ours < others => self.ordered += 1,
                    (Some(ours), Some(others)) if ours == others => equal.push(other),
                    _ => not_below.push(other),
                }
            }
            if !not_below.is_empty() {
                self.missed.push(format!("{name}: {of}not below {}", listed(&not_below)));
            }
            if !equal.is_empty() {
                self.missed.push(format!("{name}: {of}the same as {}", listed(&equal)));
            }
        }
    }
}

/// Lists names, shortened if there are many.
fn listed(names: &[&str]) -> String {
    const MOST: usize = 12;
    match names.len() {
        0..=MOST => names.join(", "),
        all => format!("{} and {} more", names[..MOST].join(", "), all - MOST),
    }
}

/// A figure this many tolerances away misses the table's shape, even if the order agrees.
const FAR: f64 = 3.0;

fn count_rows(table: &Table, rows: &[&Row], counts: &mut Counts) {
    for (name, pairs) in rows {
        counts.rows += 1;
        let far = table.columns.iter().zip(pairs).filter_map(|(column, pair)| {
            let [ours, published] = [pair.ours?, pair.published?];
            let is_far = column.near.times(FAR).holds(pair) == Some(false);
            let [ours, published] =
                [ours, published].map(|figure| format!("{figure:.*}", column.decimals));
            is_far.then(|| format!("{} {ours} for {published}", column.name))
        });
        let far: Vec<_> = far.collect();
        if !far.is_empty() {
            counts.missed.push(format!("{name}: far off: {}", far.join(", ")));
        }
        let compared = table.columns.iter().zip(pairs);
        let mut held = compared.filter_map(|(column, pair)| column.near.holds(pair)).peekable();
        counts.near += usize::from(held.peek().is_some() && held.all(|near| near));
    }
}

/// Returns whether a column's figures are compared by order.
fn ordered(column: &Column) -> bool {
    column.is_unit || column.near != Near::Uncounted
}

fn count_columns(table: &Table, rows: &[&Row], group: fn(&str) -> &str, counts: &mut Counts) {
    for (index, column) in table.columns.iter().enumerate().filter(|(_, column)| ordered(column)) {
        let mut groups: Vec<&str> = Vec::new();
        for (name, _) in rows {
            if !groups.contains(&group(name)) {
                groups.push(group(name));
            }
        }
        for one in groups {
            let here = rows.iter().filter(|(name, _)| group(name) == one);
            let sides: Vec<Side<'_>> = here
                .filter_map(|(name, pairs)| {
                    Some((&**name, pairs[index].published?, pairs[index].ours))
                })
                .collect();
            counts.compare(&sides, &format!("{} ", column.name));
        }
    }
}

fn count_across(table: &Table, rows: &[&Row], counts: &mut Counts) {
    for (name, pairs) in rows {
        let columns = table.columns.iter().zip(pairs);
        let sides: Vec<Side<'_>> = columns
            .filter(|(column, _)| ordered(column))
            .filter_map(|(column, pair)| {
                let published = pair.published?;
                // The others are relative to it.
                Some(if column.is_unit {
                    (column.name, 1.0, Some(1.0))
                } else {
                    (column.name, published, pair.ours)
                })
            })
            .collect();
        let before = counts.missed.len();
        counts.compare(&sides, "");
        for missed in &mut counts.missed[before..] {
            *missed = format!("{name}: {}", missed.replacen(": ", " ", 1));
        }
    }
}

/// Counts ratios on the other side of one.
fn count_sides(table: &Table, rows: &[&Row], counts: &mut Counts) {
    let ratios = table.columns.iter().enumerate().filter(|(_, column)| column.is_ratio);
    for (index, column) in ratios {
        for (name, pairs) in rows {
            let pair = pairs[index];
            let (Some(published), Some(ours)) = (pair.published, pair.ours) else { continue };
            if (published - 1.0) * (ours - 1.0) < 0.0 {
                let is = if ours > 1.0 { "above" } else { "below" };
                let [published, ours] =
                    [published, ours].map(|figure| format!("{figure:.*}", column.decimals));
                let line = format!("{name}: {} is {is} one, {ours} for {published}", column.name);
                counts.missed.push(line);
            }
        }
    }
}

/// Counts figures of ours where the paper has others of the column, but none in this row: the row
/// failed there and not here.
fn count_only_ours(table: &Table, rows: &[&Row], counts: &mut Counts) {
    for (index, column) in table.columns.iter().enumerate().filter(|(_, column)| ordered(column)) {
        if rows.iter().all(|(_, pairs)| pairs[index].published.is_none()) {
            continue;
        }
        for (name, pairs) in rows {
            if let Pair { published: None, ours: Some(ours), .. } = pairs[index] {
                let ours = format!("{ours:.*}", column.decimals);
                counts
                    .missed
                    .push(format!("{name}: {} is {ours}, but none published", column.name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::columns;

    const MISSED: &str = "order or shape not reproduced (each pair at the row with the lower published figure; far off: beyond three tolerances):";

    type Figures<'f> = (&'f str, &'f [(f64, Option<f64>)]);

    fn table(ranked: Ranked, rows: &[Figures<'_>]) -> Table {
        let row = |&(name, pairs): &Figures<'_>| {
            let pairs = pairs.iter().map(|&(published, ours)| Pair::new(published, ours));
            (name.to_owned(), pairs.collect())
        };
        Table {
            columns: columns([("a", 1), ("b", 1)]),
            rows: rows.iter().map(row).collect(),
            ranked,
            ..Table::default()
        }
    }

    #[test]
    fn every_pair_is_counted_once_and_missed_ones_are_named() {
        let rows: [(&str, &[_]); 3] = [
            ("x", &[(1.0, Some(3.0)), (5.0, Some(5.0))]),
            ("y", &[(2.0, Some(2.0)), (5.0, Some(6.0))]),
            ("z", &[(3.0, Some(3.0)), (7.0, None)]),
        ];
        let down = lines(&table(Ranked::Down, &rows));
        // Of a: x-y missed, x-z equal, y-z right. Of b: x-y tie in the paper, x-z and y-z lack
        // ours.
        let expected = [
            MISSED,
            "  x: far off: a 3.0 for 1.0",
            "  x: a not below y",
            "  x: a the same as z",
            "  x: b not below z",
            "  y: b not below z",
            "3 rows with published figures: 0 within 10 %; 1 of 5 pairs in published order (0.20)",
        ];
        assert_eq!(down, expected);
        let json = json(&table(Ranked::Down, &rows));
        let verdict = &json["verdict"];
        let of = |field: &str| verdict[field].as_u64();
        assert_eq!([of("rows"), of("within"), of("pairs"), of("in_order")], [3, 0, 5, 1].map(Some));
        assert_eq!(verdict["missed"][1], "x: a not below y");
        assert_eq!(verdict["summary"], expected[6]);
    }

    #[test]
    fn figures_of_a_row_are_compared_if_columns_are_rivals() {
        let rows: [(&str, &[_]); 2] = [
            ("x", &[(100.0, Some(90.0)), (0.5, Some(1.5))]),
            ("y", &[(80.0, Some(80.0)), (0.9, Some(0.9))]),
        ];
        let mut across = table(Ranked::Across, &rows);
        across.columns[0].is_unit = true;
        across.columns[1].is_ratio = true;
        let expected = [
            MISSED,
            "  x: far off: b 1.5 for 0.5",
            "  x: b not below a",
            "  x: b is above one, 1.5 for 0.5",
            "2 rows with published figures: 1 within 10 %; 1 of 2 pairs in published order (0.50)",
        ];
        assert_eq!(lines(&across), expected);
    }

    #[test]
    fn figures_missing_in_the_paper_are_listed() {
        let rows: [Figures<'_>; 2] = [
            ("x", &[(1.0, Some(1.0)), (1.0, Some(1.0))]),
            ("y", &[(2.0, Some(2.0)), (2.0, Some(2.0))]),
        ];
        let mut table = table(Ranked::Down, &rows);
        table.rows[1].1[0].published = None;
        assert_eq!(lines(&table)[1], "  y: a is 2.0, but none published");
    }

    #[test]
    fn groups_are_compared_separately_and_means_are_not() {
        let rows: [(&str, &[_]); 5] = [
            ("p 1", &[(1.0, Some(1.0)), (1.0, Some(1.0))]),
            ("q 1", &[(2.0, Some(2.0)), (2.0, Some(2.0))]),
            ("p 2", &[(0.5, Some(9.0)), (0.5, Some(9.0))]),
            ("q 2", &[(0.6, Some(9.5)), (0.6, Some(9.5))]),
            ("mean", &[(9.0, Some(0.0)), (9.0, Some(0.0))]),
        ];
        let group: fn(&str) -> &str = |name| &name[2..];
        let mut grouped = table(Ranked::Within(group), &rows);
        grouped.means = 1;
        let last =
            "4 rows with published figures: 2 within 10 %; 4 of 4 pairs in published order (1.00)";
        let lines = lines(&grouped);
        assert_eq!(lines.last().map(String::as_str), Some(last));
        assert!(lines.iter().all(|line| !line.contains("below")), "{lines:?}");
    }
}
