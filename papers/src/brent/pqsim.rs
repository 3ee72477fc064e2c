//! Tables 3.2, 3.3 and 3.4: PQSIM at its usual load, after a doubled load, and for every φ0.

use pagewise_replay::paging::Lru;
use pagewise_replay::progress::Progress;
use rayon::prelude::*;

use super::equal::Choice;
use super::options::{Made, Measured, Options};
use crate::experiments::brent::leftist::NODE;
use crate::experiments::brent::pqsim::{self, FITTED, Load, PAGE};
use crate::plot::{self, Line};
use crate::table::{Column, Near, Pair, Table};

/// The paper's working set, pages.
pub(super) const WORKING_SET: usize = 50;
/// c = ⌊p/s⌋.
const CAPACITY: usize = PAGE / NODE;

/// Tolerance for normalised faults.
const NEAR: f64 = 0.08;

const MF: &str = "MOST-FREE";
const LF: &str = "LEAST-FREE";

/// A row of Tables 3.2 and 3.3 as published.
struct Published {
    choice: Choice,
    virtual_size: f64,
    faults: f64,
    normalized: f64,
    /// Table 3.3: page faults after the doubled load, normalised, and relative to Table 3.2.
    doubled: [f64; 3],
}

const fn row(
    choice: Choice,
    virtual_size: u32,
    faults: u32,
    normalized: f64,
    doubled: [f64; 3],
) -> Published {
    Published {
        choice,
        virtual_size: virtual_size as f64,
        faults: faults as f64,
        normalized,
        doubled,
    }
}

const PUBLISHED: [Published; ROWS as usize] = [
    row(Choice::new("STACK"), 101, 561_080, 0.71, [1_044_235.0, 0.76, 1.86]),
    row(Choice::new("QUEUE"), 101, 803_555, 1.01, [1_365_741.0, 1.00, 1.70]),
    row(Choice::new("RANDOM"), 102, 794_000, 1.00, [1_372_438.0, 1.00, 1.73]),
    row(Choice::new("NOFREE"), 31_360, 445_709, 0.56, [520_717.0, 0.38, 1.17]),
    row(Choice::new("QUICK"), 1_823, 531_122, 0.67, [597_452.0, 0.44, 1.12]),
    row(Choice::new("FIRST-FIT"), 98, 455_026, 0.57, [643_004.0, 0.47, 1.41]),
    row(Choice::new("RANDOM(B)"), 103, 606_035, 0.76, [568_352.0, 0.41, 0.94]),
    row(Choice::new(MF), 102, 453_102, 0.57, [498_482.0, 0.36, 1.10]),
    row(Choice::with_tolerance(MF, 5), 118, 361_515, 0.46, [477_215.0, 0.35, 1.32]),
    row(Choice::new(LF), 102, 511_869, 0.64, [726_429.0, 0.53, 1.42]),
    row(Choice::with_tolerance(LF, 5), 116, 377_282, 0.48, [523_993.0, 0.38, 1.39]),
    row(Choice::new("MRU"), 101, 374_908, 0.47, [337_648.0, 0.25, 0.90]),
    row(Choice::with_tolerance("MRU", 5), 118, 337_436, 0.42, [361_058.0, 0.26, 1.07]),
];

/// Rows of Tables 3.2 and 3.3.
pub(super) const ROWS: u64 = 13;
/// Runs of Table 3.4.
pub(super) const TOLERANCES: u64 = 3 * CAPACITY as u64 + 1;

/// Table 3.4 as published, for φ0 from 1 to c: virtual sizes and normalised faults of MF, LF, MRU.
#[rustfmt::skip]
const PUBLISHED_3_4: [[f64; 6]; CAPACITY] = [
    [102., 102., 101., 0.57, 0.64, 0.47], [104., 105., 107., 0.52, 0.57, 0.51],
    [108., 110., 110., 0.51, 0.54, 0.48], [113., 111., 111., 0.48, 0.48, 0.42],
    [118., 116., 118., 0.46, 0.48, 0.42], [123., 124., 124., 0.48, 0.47, 0.44],
    [131., 130., 128., 0.45, 0.47, 0.44], [132., 137., 131., 0.44, 0.46, 0.43],
    [141., 144., 140., 0.44, 0.45, 0.44], [151., 152., 149., 0.44, 0.46, 0.43],
    [161., 164., 161., 0.44, 0.47, 0.43], [171., 171., 171., 0.45, 0.45, 0.44],
    [183., 179., 181., 0.46, 0.45, 0.45], [189., 201., 194., 0.45, 0.46, 0.47],
    [214., 212., 211., 0.45, 0.45, 0.45], [228., 232., 222., 0.47, 0.46, 0.45],
    [256., 244., 251., 0.47, 0.48, 0.46], [282., 282., 279., 0.48, 0.47, 0.47],
    [307., 320., 312., 0.47, 0.49, 0.48], [349., 357., 351., 0.48, 0.50, 0.49],
    [423., 407., 412., 0.50, 0.50, 0.50], [496., 494., 501., 0.52, 0.51, 0.50],
    [651., 631., 642., 0.52, 0.52, 0.52], [965., 932., 925., 0.54, 0.54, 0.53],
    [1635., 1622., 1740., 0.54, 0.54, 0.54],
];

/// Number of runs averaged for a row of Tables 3.2 and 3.3.
const RUNS: u64 = 4;

impl Measured {
    fn faults(&self) -> f64 {
        mean(&self.faults)
    }

    fn normalized(&self, random: &Self) -> f64 {
        self.faults() / random.faults()
    }

    /// Returns the standard deviation of the normalised faults over the runs; `None` for a single
    /// run.
    fn deviation(&self, random: &Self) -> Option<f64> {
        let each: Vec<f64> =
            self.faults.iter().zip(&random.faults).map(|(ours, random)| ours / random).collect();
        let squares: f64 = each.iter().map(|one| (one - mean(&each)).powi(2)).sum();
        (each.len() > 1).then(|| (squares / (each.len() - 1) as f64).sqrt())
    }
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

/// How to make a table's runs.
#[derive(Clone, Copy, Debug)]
struct Plan {
    initial: f64,
    scale: f64,
    runs: u64,
}

/// Runs PQSIM over each strategy, on all cores.
fn measure(
    choices: &[Choice],
    plan: Plan,
    options: Options<'_>,
    progress: &Progress,
) -> anyhow::Result<Vec<Measured>> {
    let Plan { initial, scale, runs } = plan;
    let one = |choice: &Choice| {
        let mut virtual_sizes = Vec::new();
        let mut faults = Vec::new();
        for number in 0..runs {
            let load = Load { lifetimes: FITTED, initial, scale, seed: options.seed, number };
            let strategy = choice.build(NODE, PAGE, options.seed)?;
            let (virtual_size, lru) = pqsim::run(&load, strategy, Lru::new())?;
            virtual_sizes.push(virtual_size as f64);
            faults.push(lru.faults(WORKING_SET) as f64);
        }
        progress.step(1, || format!("PQSIM: {}", choice.name()));
        Ok(Measured { virtual_size: mean(&virtual_sizes), faults })
    };
    choices.par_iter().map(one).collect()
}

/// Returns the simulated time relative to the paper's, and the number of runs.
pub(super) fn plan(options: Options<'_>) -> (f64, u64) {
    // Warm up for five of the longer lifetimes; after three, fewer blocks than usual are live.
    if options.quick { (0.5, 1) } else { (1.0, RUNS) }
}

fn rows_measured(
    initial: f64,
    options: Options<'_>,
    progress: &Progress,
) -> anyhow::Result<Vec<Measured>> {
    let (scale, runs) = plan(options);
    let plan = Plan { initial, scale, runs };
    measure(&PUBLISHED.each_ref().map(|row| row.choice), plan, options, progress)
}

/// Returns the rows at the usual load, which two tables need; measures them once.
fn usual<'r>(options: Options<'r>, progress: &Progress) -> anyhow::Result<&'r [Measured]> {
    if let Some(measured) = options.usual.get() {
        progress.step(ROWS, String::new);
        return Ok(measured);
    }
    let measured = rows_measured(1.0, options, progress)?;
    Ok(options.usual.get_or_init(|| measured))
}

/// Returns the row of RANDOM, whose faults the others' are divided by.
fn reference(measured: &[Measured]) -> &Measured {
    let random = PUBLISHED.iter().position(|row| row.choice == Choice::new("RANDOM"));
    &measured[random.expect("RANDOM is a row")]
}

/// Counts, among pairs of published and our figures, those that differ by at most [`NEAR`], and the
/// largest subset of these in the paper's order. Equal figures may be in any order.
fn agreement(figures: impl IntoIterator<Item = (f64, f64)>) -> [usize; 2] {
    let near = |&(published, ours): &(f64, f64)| (published - ours).abs() <= NEAR;
    let mut near: Vec<(f64, f64)> = figures.into_iter().filter(near).collect();
    near.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
    // For each row, the length of the longest ascending subsequence that ends with it.
    let mut ascents: Vec<usize> = Vec::new();
    for (index, (_, ours)) in near.iter().enumerate() {
        let before = near[..index].iter().zip(&ascents).filter(|((_, earlier), _)| earlier <= ours);
        ascents.push(1 + before.map(|(_, &ascent)| ascent).max().unwrap_or(0));
    }
    [near.len(), ascents.into_iter().max().unwrap_or(0)]
}

/// Table 3.2.
pub(super) fn table_3_2(options: Options<'_>, progress: &Progress) -> anyhow::Result<Made> {
    let measured = usual(options, progress)?;
    let random = reference(measured);
    let rows = PUBLISHED.iter().zip(measured).map(|(row, ours)| {
        let pairs = vec![
            Pair::new(row.virtual_size, ours.virtual_size),
            Pair::new(row.faults, ours.faults()),
            Pair::new(row.normalized, ours.normalized(random)),
            Pair::new(None, ours.deviation(random)),
        ];
        (row.choice.name(), pairs)
    });
    let figures =
        PUBLISHED.iter().zip(measured).map(|(row, ours)| (row.normalized, ours.normalized(random)));
    let [near, in_order] = agreement(figures);
    let table = Table {
        number: "3.2",
        title: "PQSIM, working set of 50 pages".into(),
        columns: vec![
            Column::new("virtual size", 0),
            Column::new("page faults", 0).near(Near::Uncounted),
            Column::new("normalized", 2).within(NEAR),
            Column::new("deviation", 3),
        ],
        rows: rows.collect(),
        notes: vec![
            format!(
                "normalized: {near} of {ROWS} rows within {NEAR} of the paper, {in_order} of them in \
                 its order"
            ),
            format!(
                "ours: means of {} run(s); deviation: standard, of normalized, from run to run",
                random.faults.len()
            ),
            "fitted to RANDOM's faults and QUICK's virtual size; all else is predicted".into(),
            "the paper's NOFREE is an estimate".into(),
        ],
        ..Table::default()
    };
    Ok(table.into())
}

/// Table 3.3.
pub(super) fn table_3_3(options: Options<'_>, progress: &Progress) -> anyhow::Result<Made> {
    let usual = usual(options, progress)?;
    let doubled = rows_measured(2.0, options, progress)?;
    let random = reference(&doubled);
    let rows = PUBLISHED.iter().zip(usual.iter().zip(&doubled)).map(|(row, (usual, doubled))| {
        let ours =
            [doubled.faults(), doubled.normalized(random), doubled.faults() / usual.faults()];
        let pairs =
            row.doubled.iter().zip(ours).map(|(&published, ours)| Pair::new(published, ours));
        (row.choice.name(), pairs.collect())
    });
    let table = Table {
        number: "3.3",
        title: "PQSIM after the initial load was doubled".into(),
        columns: vec![
            Column::new("page faults", 0).near(Near::Uncounted),
            Column::new("normalized", 2).within(NEAR),
            Column::new("ratio to 3.2", 2).ratio(),
        ],
        rows: rows.collect(),
        notes: vec!["nothing fitted; the paper's NOFREE is an estimate".into()],
        ..Table::default()
    };
    Ok(table.into())
}

/// Table 3.4, and its plot.
pub(super) fn table_3_4(options: Options<'_>, progress: &Progress) -> anyhow::Result<Made> {
    const STRATEGIES: [&str; 3] = [MF, LF, "MRU"];
    let mut choices = vec![Choice::new("RANDOM")];
    for tolerance in 1..=CAPACITY {
        choices.extend(STRATEGIES.map(|strategy| Choice { strategy, tolerance }));
    }
    let scale = if options.quick { 0.05 } else { 1.0 };
    let plan = Plan { initial: 1.0, scale, runs: 1 };
    let measured = measure(&choices, plan, options, progress)?;
    let random = &measured[0];
    let triples: Vec<&[Measured]> = measured[1..].chunks(STRATEGIES.len()).collect();
    let rows = triples.iter().zip(&PUBLISHED_3_4).enumerate().map(|(index, (ours, published))| {
        let sizes = ours.iter().map(|one| one.virtual_size);
        let ours = sizes.chain(ours.iter().map(|one| one.normalized(random)));
        let pairs = published.iter().zip(ours).map(|(&published, ours)| Pair::new(published, ours));
        (format!("φ0/c = {:.2}", share(index)), pairs.collect())
    });
    let names = ["MF size", "LF size", "MRU size", "MF faults", "LF faults", "MRU faults"];
    let column = |(index, name)| match index < STRATEGIES.len() {
        true => Column::new(name, 0),
        false => Column::new(name, 2).within(NEAR),
    };
    let mut table = Table {
        number: "3.4",
        title: "PQSIM for every tolerance φ0: virtual size, normalized page faults".into(),
        columns: names.into_iter().enumerate().map(column).collect(),
        rows: rows.collect(),
        notes: vec!["nothing fitted; c = 25".into()],
        ..Table::default()
    };
    let least = (STRATEGIES.len()..table.columns.len()).map(|column| least(&table, column));
    let least: Vec<_> = least.collect();
    table.notes.extend(least);
    let svg = plot_3_4(&table, &STRATEGIES)?;
    Ok(Made { table, svg: Some(svg) })
}

/// Describes where a column has its least figure, in the paper and here.
fn least(table: &Table, column: usize) -> String {
    let least = |of: fn(&Pair) -> Option<f64>| {
        let figures =
            table.rows.iter().filter_map(|(name, pairs)| Some((name, of(&pairs[column])?)));
        let least = figures.clone().map(|(_, figure)| figure).fold(f64::INFINITY, f64::min);
        let there: Vec<&str> =
            figures.filter(|(_, figure)| *figure == least).map(|(name, _)| &**name).collect();
        there.join(", ")
    };
    let (published, ours) = (least(|pair| pair.published), least(|pair| pair.ours));
    format!("{}: least at {ours}; published: at {published}", table.columns[column].name)
}

fn share(index: usize) -> f64 {
    (index + 1) as f64 / CAPACITY as f64
}

fn plot_3_4(table: &Table, strategies: &[&str]) -> anyhow::Result<String> {
    let lines = strategies.iter().enumerate().flat_map(|(at, strategy)| {
        let line = |name: String, figure: fn(&Pair) -> Option<f64>, pale| {
            let points = table.rows.iter().enumerate().filter_map(|(index, (_, pairs))| {
                Some((share(index), figure(&pairs[strategies.len() + at])?))
            });
            Line { name, points: points.collect(), pale }
        };
        [
            line((*strategy).to_owned(), |pair| pair.ours, false),
            line(format!("{strategy}, published"), |pair| pair.published, true),
        ]
    });
    let lines: Vec<_> = lines.collect();
    plot::svg("PQSIM: page faults by tolerance (Brent, Table 3.4)", "φ0 / c", "normalized", &lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_counts_close_figures_and_those_in_order() {
        assert_eq!(agreement([]), [0, 0]);
        assert_eq!(agreement([(0.5, 0.55), (0.6, 0.52), (0.7, 0.71), (1.0, 0.9)]), [3, 2]);
        // Equal in the paper, so either may be larger here.
        assert_eq!(agreement([(0.5, 0.55), (0.5, 0.52), (0.6, 0.56)]), [3, 3]);
    }

    #[test]
    fn the_deviation_is_that_of_the_ratios() {
        let measured = |faults: &[f64]| Measured { virtual_size: 1.0, faults: faults.to_vec() };
        let (ours, random) = (measured(&[50.0, 120.0]), measured(&[100.0, 200.0]));
        assert!((ours.deviation(&random).unwrap() - 0.1 / 2_f64.sqrt()).abs() < 1e-12);
        assert_eq!(measured(&[1.0]).deviation(&measured(&[2.0])), None);
    }
}
