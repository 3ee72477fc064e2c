//! Makes the tables from the results.

use super::algorithms::{ALGORITHMS, Algorithm};
use super::program::Program;
use super::published;
use super::simulate::{Figures, Setting, TIME};
use crate::table::{Column, Near, Pair, Ranked, Table};

/// The conventional fits; Tables 2 and 3 exist for each of them.
const FITS: [(&str, &str); 3] = [("F", "first fit"), ("W", "worst fit"), ("B", "best fit")];

/// Returns the tables with this number.
pub(super) fn tables(number: &'static str, programs: &[Program]) -> Vec<Table> {
    let lazy = Algorithm::is_lazy;
    let of = |title: &str, setting, figure: fn(Figures) -> f64, columns: &[&Algorithm]| {
        let value = |program: &Program, algorithm: &Algorithm| {
            let found = program.figures(setting, algorithm.name)?;
            let row = program.row.as_deref();
            let published = row.and_then(|row| published::figure(number, algorithm.name, row));
            Some(Pair::new(published, 100.0 * figure(found)))
        };
        table(number, title.into(), programs, columns, |name| column(number, name), value)
    };
    let fragmentation = |figures: Figures| figures.fragmentation;
    let fits = |figures: Figures| figures.fits;
    let collected = |one: &&Algorithm| one.collected.is_some();
    let by_fit = |make: &dyn Fn(&str, &str) -> Table| {
        FITS.map(|(letter, name)| make(letter, name)).into_iter().collect()
    };
    match number {
        "2" => by_fit(&|letter, name| {
            let columns: Vec<_> = of_fit(letter).collect();
            let title = format!("fragmentation in the explicit case, {name}");
            let mut made = of(&title, Setting::Explicit, fragmentation, &columns);
            made.notes = (3..columns.len()).map(|column| near(&made, column)).collect();
            made
        }),
        "3" => by_fit(&|letter, name| {
            let columns: Vec<_> = of_fit(letter).filter(|one| lazy(one)).collect();
            let title = format!("fit frequencies in the explicit case, {name}");
            of(&title, Setting::Explicit, fits, &columns)
        }),
        "4" | "5" => {
            let columns: Vec<_> = ALGORITHMS.iter().filter(collected).collect();
            let (setting, which) = match number {
                "4" => (Setting::Collected, "in the garbage-collected case"),
                _ => (Setting::CollectedSmall, "of blocks below 4 KiB, garbage-collected"),
            };
            vec![of(&format!("fragmentation {which}"), setting, fragmentation, &columns)]
        }
        "6" => {
            let columns: Vec<_> =
                ALGORITHMS.iter().filter(collected).filter(|one| lazy(one)).collect();
            let title = "fit frequencies in the garbage-collected case";
            vec![of(title, Setting::Collected, fits, &columns)]
        }
        _ => by_fit(&|letter, name| times(letter, name, programs)),
    }
}

/// Returns a column of percentages, with a tolerance of two points for fragmentation, and five for
/// frequencies.
pub(super) fn column(table: &str, name: &'static str) -> Column {
    let points = if ["3", "6"].contains(&table) { 5.0 } else { 2.0 };
    Column::new(name, 2).within(points)
}

/// Returns the algorithms of a fit, the conventional one first.
fn of_fit(letter: &str) -> impl Iterator<Item = &'static Algorithm> {
    ALGORITHMS.iter().filter(move |one| one.conventional == letter)
}

/// Returns the table of times of one fit.
fn times(letter: &str, name: &str, programs: &[Program]) -> Table {
    let columns: Vec<_> = of_fit(letter).filter(|one| one.is_lazy()).collect();
    let value = |program: &Program, algorithm: &Algorithm| {
        let ours = program.time(algorithm.name)? / program.time(algorithm.conventional)?;
        let share = program.figures(Setting::Usual, algorithm.name)?.fits;
        Some(Pair::new(published::relative_time(share), ours).derived())
    };
    let title = format!("time of lazy {name} relative to {letter}");
    let column = |name| Column::new(name, 3).near(Near::OrderAlone).ratio();
    let mut table = table(TIME, title, programs, &columns, column, value);
    table.notes = vec![
        "left: cycles that the model of §3 predicts for allocations at our fit frequency; right: \
         measured over allocations and frees"
            .into(),
        "the heap grows by 64 KiB; medians of interleaved rounds, each block written at both ends"
            .into(),
    ];
    table
}

/// Returns a table with a row for each program, the paper's four first, and rows of means.
fn table(
    number: &'static str,
    title: String,
    programs: &[Program],
    columns: &[&Algorithm],
    column: impl Fn(&'static str) -> Column,
    value: impl Fn(&Program, &Algorithm) -> Option<Pair>,
) -> Table {
    let row = |program: &Program| -> Vec<_> {
        columns.iter().map(|algorithm| value(program, algorithm).unwrap_or_default()).collect()
    };
    let papers = published::PROGRAMS.iter().filter_map(|theirs| {
        let program = programs.iter().find(|program| program.row.as_deref() == Some(theirs))?;
        Some((format!("{} ({theirs})", program.name), row(program)))
    });
    let papers: Vec<_> = papers.collect();
    let others = programs.iter().filter(|program| program.row.is_none());
    let others = others.map(|program| (program.name.clone(), row(program)));
    let mut rows = papers.clone();
    rows.extend(others);
    let programs = rows.len();
    let all = mean("mean of all", &rows);
    if papers.len() == published::PROGRAMS.len() {
        rows.push(mean("mean of the paper's four", &papers));
    }
    rows.push(all);
    Table {
        number,
        title,
        columns: columns.iter().map(|one| column(one.name)).collect(),
        means: rows.len() - programs,
        rows,
        ranked: Ranked::Across,
        ..Table::default()
    }
}

/// Returns the means of rows, over the figures that all of them have.
fn mean(name: &str, rows: &[(String, Vec<Pair>)]) -> (String, Vec<Pair>) {
    let columns = rows.first().map_or(0, |(_, pairs)| pairs.len());
    let pairs = (0..columns).map(|column| {
        let of = |figure: fn(&Pair) -> Option<f64>| -> Option<f64> {
            let figures: Option<Vec<f64>> =
                rows.iter().map(|(_, pairs)| figure(&pairs[column])).collect();
            figures.map(|figures| figures.iter().sum::<f64>() / figures.len() as f64)
        };
        Pair::new(of(|pair| pair.published), of(|pair| pair.ours)).derived()
    });
    (name.to_owned(), pairs.collect())
}

/// Describes on how many programs a column's algorithm is within a point of the first one's.
fn near(table: &Table, column: usize) -> String {
    let programs = &table.rows[..table.rows.len() - table.means];
    let differences: Vec<f64> = programs
        .iter()
        .filter_map(|(_, pairs)| Some(pairs[column].ours? - pairs[0].ours?))
        .collect();
    let near = differences.iter().filter(|difference| difference.abs() <= 1.0).count();
    let (lazy, conventional) = (table.columns[column].name, table.columns[0].name);
    format!("{lazy} is within 1 point of {conventional} on {near} of {}", differences.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (Regression: a program whose name begins so counted as a mean.)
    #[test]
    fn a_program_may_be_called_meanwhile() {
        let row =
            |name: &str, ours| (name.to_owned(), vec![Pair::new(None, 1.0), Pair::new(None, ours)]);
        let rows = vec![row("meanwhile", 1.5), row("other", 9.0), row("mean of all", 1.0)];
        let columns = ["K", "L"].map(|name| Column::new(name, 1)).to_vec();
        let table = Table { rows, columns, means: 1, ..Table::default() };
        assert!(near(&table, 1).contains("1 of 2"), "{}", near(&table, 1));
    }

    #[test]
    fn a_mean_uses_only_figures_known_in_every_row() {
        let row = |published: Option<f64>, ours| (String::new(), vec![Pair::new(published, ours)]);
        let (_, pairs) = mean("", &[row(Some(2.0), 1.0), row(None, 4.0)]);
        assert_eq!((pairs[0].published, pairs[0].ours), (None, Some(2.5)));
    }
}
