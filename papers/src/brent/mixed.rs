//! Tables 7.1 and 7.2: the distributions, and what strategies hold and visit under them.

use std::ptr::NonNull;

use pagewise::meter::{Counter, Meter};
use pagewise::pages::Config;
use pagewise::segments::FirstFit;
use pagewise::sizemap::{self, Demand, SizeMap};
use pagewise::source::Reserved;
use pagewise::{Strategy, Usage, catalogue};
use pagewise_replay::generator::{Distribution, Process};
use pagewise_replay::progress::Progress;
use rayon::prelude::*;

use super::options::{Made, Options};
use crate::experiments::brent::mixed::{self, Efficiency, Watch};
use crate::table::{Column, Near, Pair, Ranked, Table, columns};

const CAMBRIDG: &str = "cambridg-like";
const YKTVMV: &str = "yktvmv-like";

/// Unit of all sizes, bytes (§7.1).
pub(super) const UNIT: usize = 8;
/// Address space; only what is touched takes memory.
pub(super) const CAPACITY: usize = 1 << 32;

pub(super) fn yktvmv() -> anyhow::Result<Distribution> {
    Distribution::load(YKTVMV)
}

/// Table 7.1.
pub(super) fn table_7_1(_: Options, progress: &Progress) -> anyhow::Result<Made> {
    const PUBLISHED: [(&str, [f64; 2]); 5] = [
        ("requests per second", [196.0, 1033.0]),
        ("active blocks", [2347.0, 27_360.0]),
        ("storage requested, bytes", [307_397.0, 3_226_427.0]),
        ("size of a request, bytes", [98.0, 129.0]),
        ("block lifetime, seconds", [12.0, 26.0]),
    ];
    let statistics = |name: &str| -> anyhow::Result<[f64; 5]> {
        let classes = Distribution::load(name)?.classes;
        let rate: f64 = classes.iter().map(|class| class.rate).sum();
        let live: f64 = classes.iter().map(|class| class.live).sum();
        let bytes: f64 = classes.iter().map(|class| class.live * class.size as f64).sum();
        let asked: f64 = classes.iter().map(|class| class.rate * class.size as f64).sum();
        Ok([rate, live, bytes, asked / rate, live / rate])
    };
    let ours = [statistics(CAMBRIDG)?, statistics(YKTVMV)?];
    let rows = PUBLISHED.iter().enumerate().map(|(index, (name, published))| {
        let pair = |at: usize| Pair::new(published[at], ours[at][index]);
        ((*name).to_owned(), vec![pair(0), pair(1)])
    });
    progress.step(1, || "distributions".into());
    let table = Table {
        number: "7.1",
        title: "the distributions CAMBRIDG and YKTVMV".into(),
        columns: ["CAMBRIDG", "YKTVMV"]
            .map(|name| Column::new(name, 0).near(Near::Percent(2.0)))
            .into(),
        rows: rows.collect(),
        notes: vec![
            "ours meet these statistics; the paper does not give the sizes' own rates and lifetimes"
                .into(),
        ],
        ranked: Ranked::Not,
        ..Table::default()
    };
    Ok(table.into())
}

/// A row of Table 7.2.
struct Row {
    name: &'static str,
    /// The strategy, page size and FFCROSSOVER, if we have it.
    ours: Option<(&'static str, usize, usize)>,
    /// Storage efficiency, then items visited, of CAMBRIDG and YKTVMV.
    published: [f64; 4],
}

const fn row(
    name: &'static str,
    ours: Option<(&'static str, usize, usize)>,
    published: [f64; 4],
) -> Row {
    Row { name, ours, published }
}

const PUBLISHED: [Row; 11] = [
    row("Standard IBM, p = 4096", None, [0.843, 0.887, 9.7, 108.7]),
    row("First-fit (Bozman et al.)", None, [0.844, 0.926, 425.4, 3270.0]),
    row("First-fit, p = 512", Some(("FIRST-FIT", 512, 0)), [0.844, 0.877, 20.58, 20.14]),
    row("First-fit, p = 4096", Some(("FIRST-FIT", 4096, 0)), [0.852, 0.902, 107.94, 115.19]),
    row("Next-fit", None, [0.570, 0.567, 207.4, 1892.8]),
    row("Binary buddy, tag bits", Some(("BUDDY", 4096, 4096)), [0.683, 0.641, 5.01, 5.00]),
    row("Binary buddy, no tag bits", None, [0.688, 0.716, 16.31, 50.44]),
    row("LEAST-FREE, p = 512, 120", Some(("LEAST-FREE", 512, 120)), [0.830, 0.886, 5.67, 5.82]),
    row("LEAST-FREE, p = 512, 512", Some(("LEAST-FREE", 512, 512)), [0.759, 0.811, 5.45, 5.33]),
    row("LEAST-FREE, p = 4096, 120", Some(("LEAST-FREE", 4096, 120)), [0.806, 0.913, 6.31, 8.50]),
    row("LEAST-FREE, p = 4096, 4096", Some(("LEAST-FREE", 4096, 4096)), [0.750, 0.896, 5.05, 5.03]),
];

/// Runs of Table 7.2: two distributions over the rows that we have.
pub(super) const RUNS: u64 = 14;

/// The parameters of Brent's §7: FREETOL 1, SIZEMAP by dynamic programming.
pub(super) fn config(
    distribution: &Distribution,
    page_size: usize,
    ffcrossover: usize,
    seed: u64,
) -> Config {
    let demand: Vec<Demand> = distribution
        .classes
        .iter()
        .map(|class| Demand { size: class.size as usize, live: class.live })
        .collect();
    let classes = sizemap::optimise(&demand, UNIT, ffcrossover.max(UNIT), page_size);
    // A configuration lives as long as the program.
    let classes = SizeMap::Classes(classes.leak());
    Config::new()
        .page_size(page_size)
        .unit(UNIT)
        .sizemap(classes)
        .ffcrossover(ffcrossover)
        .seed(seed)
}

/// A strategy by its name and configuration; FFCROSSOVER 0 is FIRST-FIT with segments of a page.
pub(super) fn build<'m>(
    name: &str,
    config: Config,
    meter: &'m dyn Meter,
) -> anyhow::Result<Box<dyn Strategy + 'm>> {
    if config.ffcrossover == 0 {
        let (page, source) = (config.page_size, Reserved::new(CAPACITY));
        return Ok(Box::new(FirstFit::with_segments(UNIT, page, page, source, meter)));
    }
    let entry = catalogue::find(name).ok_or_else(|| anyhow::anyhow!("no strategy {name}"))?;
    Ok(entry.build_metered(config, CAPACITY, meter)?)
}

/// Nothing but the storage efficiency is watched.
impl Watch for Efficiency {
    fn reference(&mut self, _: NonNull<u8>) {}
    fn second(&mut self, usage: &Usage) {
        self.sample(usage);
    }
}

/// Mean storage efficiency, and items visited per block.
fn measure(
    distribution: &Distribution,
    (name, page_size, ffcrossover): (&str, usize, usize),
    options: Options,
) -> anyhow::Result<[f64; 2]> {
    let (warm_up, seconds) = if options.quick { (40, 80.0) } else { (200, 4200.0) };
    let config = config(distribution, page_size, ffcrossover, options.seed);
    let counter = Counter::new();
    let mut strategy = build(name, config, &counter)?;
    let mut efficiency = Efficiency::after(warm_up);
    let events = Process::new(distribution, seconds, options.seed);
    let blocks = mixed::run(events, 1, &mut *strategy, &mut efficiency)?;
    Ok([efficiency.mean(), counter.items() as f64 / blocks as f64])
}

/// Table 7.2.
pub(super) fn table_7_2(options: Options, progress: &Progress) -> anyhow::Result<Made> {
    let distributions = [Distribution::load(CAMBRIDG)?, Distribution::load(YKTVMV)?];
    let runs: Vec<_> = (0..PUBLISHED.len())
        .flat_map(|row| [(row, 0), (row, 1)])
        .filter(|&(row, _)| PUBLISHED[row].ours.is_some())
        .collect();
    let measured = runs
        .par_iter()
        .map(|&(row, which)| {
            let Some(parameters) = PUBLISHED[row].ours else { return Ok([f64::NAN; 2]) };
            let measured = measure(&distributions[which], parameters, options)?;
            progress.step(1, || PUBLISHED[row].name.to_owned());
            Ok(measured)
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let rows = PUBLISHED.iter().enumerate().map(|(index, row)| {
        let ours = |which: usize, figure: usize| {
            let run = runs.iter().position(|&run| run == (index, which))?;
            Some(measured[run][figure])
        };
        let figures = [ours(0, 0), ours(1, 0), ours(0, 1), ours(1, 1)];
        let pairs = row.published.iter().zip(figures);
        let pairs = pairs.map(|(&published, ours)| Pair::new(published, ours));
        (row.name.to_owned(), pairs.collect())
    });
    let table = Table {
        number: "7.2",
        title: "storage efficiencies and items visited (strategy, page size, FFCROSSOVER)".into(),
        columns: ["E CAMBRIDG", "E YKTVMV"]
            .map(|name| Column::new(name, 3).within(0.05))
            .into_iter()
            .chain(columns([("items CAMBRIDG", 2), ("items YKTVMV", 2)]))
            .collect(),
        rows: rows.collect(),
        notes: vec![
            "E: bytes requested ÷ bytes held, bookkeeping included, sampled every second".into(),
            "rows without our figures are only quoted".into(),
        ],
        ..Table::default()
    };
    Ok(table.into())
}
