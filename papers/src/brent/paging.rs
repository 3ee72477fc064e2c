//! Table 7.3: page faults, simulated and real, and CPU time under YKTVMV at three loads.

use std::cell::RefCell;
use std::ptr::NonNull;

use pagewise::catalogue::{FirstFit, LeastFree, MostFree, Mru, Quick};
use pagewise::meter::{Meter, Part};
use pagewise::pages::Config;
use pagewise::sizemap::SizeMap;
use pagewise::source::{Region, Reserved, Source};
use pagewise::trace::Event;
use pagewise::{Strategy, Usage};
use pagewise_replay::generator::{Distribution, Process};
use pagewise_replay::paging::Lru;
use pagewise_replay::progress::Progress;
use pagewise_replay::system::charged::{Faults, processor_time};
use pagewise_replay::unwinding::end_on_panic;
use rayon::prelude::*;

use super::mixed::{CAPACITY, UNIT, config, yktvmv};
use super::options::{Made, Options};
use crate::experiments::brent::mixed::{self, Efficiency, Watch};
use crate::experiments::brent::resident::Resident;
use crate::table::{Column, Near, Pair, Ranked, Table};

/// The paper's working set, pages.
const WORKING_SET: usize = 3000;
/// The paper's page, bytes.
const PAGE: usize = 512;
/// Load factors.
const LOADS: [f64; 3] = [0.5, 0.75, 1.0];

/// Bytes of the mapping for real faults: room for QUICK at the full load.
const MAPPING: usize = 1 << 27;

/// A row as published: FFCROSSOVER, and for each load E, pf/t and CPU/t in seconds.
struct Row {
    strategy: &'static str,
    ffcrossover: usize,
    published: [[f64; 3]; 3],
}

#[rustfmt::skip]
const PUBLISHED: [Row; 9] = [
    Row { strategy: "QUICK", ffcrossover: 120, published:
        [[0.351, 80.2, 1.319], [0.355, 276.0, 2.194], [0.352, 533.4, 3.227]] },
    Row { strategy: "QUICK", ffcrossover: 508, published:
        [[0.300, 70.2, 1.281], [0.301, 188.9, 2.034], [0.304, 419.3, 2.943]] },
    Row { strategy: "FIRST-FIT", ffcrossover: 0, published:
        [[0.877, 22.5, 1.770], [0.879, 131.0, 2.866], [0.891, 396.7, 4.124]] },
    Row { strategy: "MOST-FREE", ffcrossover: 120, published:
        [[0.881, 20.5, 1.394], [0.893, 71.5, 2.120], [0.890, 221.9, 3.031]] },
    Row { strategy: "MOST-FREE", ffcrossover: 508, published:
        [[0.786, 18.5, 1.313], [0.789, 49.2, 2.027], [0.793, 163.8, 2.831]] },
    Row { strategy: "LEAST-FREE", ffcrossover: 120, published:
        [[0.886, 17.5, 1.400], [0.900, 76.0, 2.139], [0.894, 213.1, 3.039]] },
    Row { strategy: "LEAST-FREE", ffcrossover: 508, published:
        [[0.792, 14.8, 1.365], [0.796, 45.2, 2.101], [0.798, 157.6, 2.872]] },
    Row { strategy: "MRU", ffcrossover: 120, published:
        [[0.884, 18.9, 1.363], [0.901, 74.5, 2.081], [0.892, 226.3, 2.954]] },
    Row { strategy: "MRU", ffcrossover: 508, published:
        [[0.783, 18.8, 1.342], [0.788, 54.5, 1.996], [0.791, 160.6, 2.801]] },
];
/// VAX-VMS's pf/t and CPU/t, as published.
const VMS: [[f64; 2]; 3] = [[156.6, 12.048], [1121.6, 24.941], [33_557.9, 60.562]];

/// Runs: each row at each load, simulated and for real.
pub(super) const RUNS: u64 = 2 * (PUBLISHED.len() * LOADS.len()) as u64;

/// A strategy over a source; FFCROSSOVER 0 is FIRST-FIT with segments of a page.
fn over<'m, S: Source + 'm, M: Meter + 'm>(
    strategy: &str,
    config: Config,
    unit: usize,
    source: S,
    meter: M,
) -> anyhow::Result<Box<dyn Strategy + 'm>> {
    let page = config.page_size;
    Ok(match strategy {
        "QUICK" => Box::new(Quick::new(config, source, meter)),
        "FIRST-FIT" => Box::new(FirstFit::with_segments(unit, page, page, source, meter)),
        "MOST-FREE" => Box::new(MostFree::new(config, source, meter)),
        "LEAST-FREE" => Box::new(LeastFree::new(config, source, meter)),
        "MRU" => Box::new(Mru::new(config, source, meter)),
        other => anyhow::bail!("no strategy {other}"),
    })
}

/// Strict LRU over the references of blocks and bookkeeping.
#[derive(Debug)]
struct Simulated {
    lru: RefCell<Lru>,
}

impl Simulated {
    fn reference(&self, address: usize) {
        self.lru.borrow_mut().reference((address / PAGE) as u64);
    }
}

// SAFETY: a panic of the simulation ends the process; it uses addresses as numbers only.
unsafe impl Meter for Simulated {
    fn item(&self, address: usize, _: u32) {
        end_on_panic(|| self.reference(address));
    }
    fn served(&self, _: Part) {}
}

/// Watches a simulated run.
struct Simulation<'s> {
    simulated: &'s Simulated,
    efficiency: Efficiency,
}

impl Watch for Simulation<'_> {
    fn reference(&mut self, block: NonNull<u8>) {
        self.simulated.reference(block.addr().get());
    }

    fn second(&mut self, usage: &Usage) {
        if self.efficiency.sample(usage) {
            self.simulated.lru.borrow_mut().start_counting();
        }
    }
}

/// Watches a real run: touches blocks, and keeps the working set.
struct Real<'r> {
    resident: &'r mut Resident,
    references: u64,
    seconds: Efficiency,
    /// Faults and their count when the warm-up was over.
    faults_before: u64,
    refused: Option<std::io::Error>,
}

impl Watch for Real<'_> {
    fn reference(&mut self, block: NonNull<u8>) {
        /// References between two looks at the working set, which grows beyond itself by at most
        /// so many pages of blocks.
        const LOOK: u64 = 128;
        // SAFETY: the block is in use, at least a byte long, and its content nobody's.
        unsafe { block.write_volatile(1) };
        self.references += 1;
        if self.references.is_multiple_of(LOOK)
            && let Err(error) = self.resident.evict()
        {
            self.refused.get_or_insert(error);
        }
    }

    fn second(&mut self, usage: &Usage) {
        if self.seconds.sample(usage) {
            self.faults_before = Faults::of_thread().count();
        }
    }
}

/// Only the time counts.
struct Timed;

impl Watch for Timed {
    fn reference(&mut self, block: NonNull<u8>) {
        // SAFETY: the block is in use, at least a byte long, and its content nobody's.
        unsafe { block.write_volatile(1) };
    }
    fn second(&mut self, _: &Usage) {}
}

/// A load: its events, and how long it lasts in seconds.
struct Load {
    distribution: Distribution,
    events: Vec<Event>,
    warm_up: u64,
    seconds: f64,
}

impl Load {
    fn new(factor: f64, spread: bool, options: Options) -> anyhow::Result<Self> {
        let (warm_up, seconds) = if options.quick { (20, 40.0) } else { (100, 300.0) };
        Self::of(yktvmv(spread)?, factor, (warm_up, seconds), options)
    }

    fn of(
        mut distribution: Distribution,
        factor: f64,
        (warm_up, seconds): (u64, f64),
        options: Options,
    ) -> anyhow::Result<Self> {
        for class in &mut distribution.classes {
            class.rate *= factor;
            class.live *= factor;
        }
        let events = Process::new(&distribution, seconds, options.seed).collect();
        Ok(Self { distribution, events, warm_up, seconds })
    }

    fn counted(&self) -> f64 {
        self.seconds - self.warm_up as f64
    }

    /// E and simulated faults per second.
    fn simulate(
        &self,
        (strategy, ffcrossover, freetol): (&str, usize, usize),
        options: Options,
    ) -> anyhow::Result<[f64; 2]> {
        let simulated = Simulated { lru: RefCell::new(Lru::new()) };
        let config = config(&self.distribution, PAGE, ffcrossover, options.seed).freetol(freetol);
        let source = Reserved::new(CAPACITY);
        let mut strategy = over(strategy, config, UNIT, source, &simulated)?;
        let efficiency = Efficiency::after(self.warm_up);
        let mut watch = Simulation { simulated: &simulated, efficiency };
        mixed::run(self.events.iter().copied(), 1, &mut *strategy, &mut watch)?;
        let faults = simulated.lru.borrow().faults(WORKING_SET) as f64;
        Ok([watch.efficiency.mean(), faults / self.counted()])
    }

    /// CPU time per second, milliseconds.
    fn time(&self, row: &Row, options: Options) -> anyhow::Result<f64> {
        let config = config(&self.distribution, PAGE, row.ffcrossover, options.seed);
        let mut strategy = over(row.strategy, config, UNIT, Reserved::new(CAPACITY), ())?;
        let before = processor_time();
        mixed::run(self.events.iter().copied(), 1, &mut *strategy, &mut Timed)?;
        Ok((processor_time() - before).as_secs_f64() * 1000.0 / self.seconds)
    }

    /// Real faults per second. All sizes are scaled from the paper's page to the system's.
    fn fault(&self, row: &Row, options: Options) -> anyhow::Result<f64> {
        let mut resident = Resident::new(MAPPING, WORKING_SET)?;
        let scale = resident.page_size() / PAGE;
        anyhow::ensure!(scale.is_power_of_two(), "pages are not a multiple of {PAGE} bytes");
        let scaled = scaled(config(&self.distribution, PAGE, row.ffcrossover, options.seed), scale);
        let memory = resident.memory();
        // SAFETY: the mapping is ours alone, and outlives the strategy, which is dropped first.
        let region = unsafe { Region::new(memory.cast().as_ptr(), memory.len()) };
        let mut strategy = over(row.strategy, scaled, UNIT * scale, region, ())?;
        let mut watch = Real {
            resident: &mut resident,
            references: 0,
            seconds: Efficiency::after(self.warm_up),
            faults_before: 0,
            refused: None,
        };
        mixed::run(self.events.iter().copied(), scale, &mut *strategy, &mut watch)?;
        if let Some(error) = watch.refused {
            return Err(error.into());
        }
        Ok((Faults::of_thread().count() - watch.faults_before) as f64 / self.counted())
    }
}

/// A configuration with all sizes `scale` times as large.
fn scaled(config: Config, scale: usize) -> Config {
    let sizemap = match config.sizemap {
        SizeMap::Classes(classes) => {
            let larger: Vec<u32> = classes.iter().map(|class| class * scale as u32).collect();
            // A configuration lives as long as the program.
            SizeMap::Classes(larger.leak())
        }
        other => other,
    };
    config
        .page_size(config.page_size * scale)
        .unit(config.unit * scale)
        .ffcrossover(config.ffcrossover * scale)
        .sizemap(sizemap)
}

/// What was measured of a row at a load.
struct Measured {
    efficiency: f64,
    simulated: f64,
    real: anyhow::Result<f64>,
    cpu: f64,
}

/// Table 7.3.
pub(super) fn table_7_3(options: Options, progress: &Progress) -> anyhow::Result<Made> {
    let loads = LOADS
        .into_par_iter()
        .map(|factor| Load::new(factor, false, options))
        .collect::<Result<Vec<_>, _>>()?;
    let cases: Vec<(&Load, &Row)> =
        loads.iter().flat_map(|load| PUBLISHED.iter().map(move |row| (load, row))).collect();
    let faults = cases.par_iter().map(|(load, row)| {
        let simulated = load.simulate((row.strategy, row.ffcrossover, 1), options)?;
        let real = load.fault(row, options);
        progress.step(1, || format!("YKTVMV: {} {}", row.strategy, row.ffcrossover));
        Ok((simulated, real))
    });
    let faults: Vec<_> = faults.collect::<anyhow::Result<_>>()?;
    // Times one after the other, so that runs do not disturb each other.
    let mut measured = Vec::new();
    for ((load, row), ([efficiency, simulated], real)) in cases.into_iter().zip(faults) {
        let cpu = load.time(row, options)?;
        progress.step(1, || format!("YKTVMV, time: {} {}", row.strategy, row.ffcrossover));
        measured.push(Measured { efficiency, simulated, real, cpu });
    }
    Ok(table(&measured).into())
}

/// Runs of Table 7.3.1.
pub(super) const SPREAD_RUNS: u64 = (PUBLISHED.len() * LOADS.len()) as u64;

/// Table 7.3.1, ours: simulated faults where sizes have lifetimes of their own.
pub(super) fn table_7_3_1(options: Options, progress: &Progress) -> anyhow::Result<Made> {
    let loads = LOADS.into_par_iter().map(|factor| Load::new(factor, true, options));
    let loads = loads.collect::<Result<Vec<_>, _>>()?;
    let cases: Vec<(usize, &Row)> =
        (0..LOADS.len()).flat_map(|load| PUBLISHED.iter().map(move |row| (load, row))).collect();
    let rows = cases.into_par_iter().map(|(at, row)| {
        let Row { strategy, ffcrossover, published } = row;
        let ours = loads[at].simulate((strategy, *ffcrossover, 1), options)?;
        progress.step(1, || format!("YKTVMV, spread: {strategy} {ffcrossover}"));
        let pairs = (0..2).map(|figure| Pair::new(published[at][figure], ours[figure])).collect();
        Ok((format!("{strategy}, {ffcrossover}, load {:.2}", LOADS[at]), pairs))
    });
    let table = Table {
        number: "7.3.1",
        title: "Table 7.3's efficiency and simulated faults over the distribution with lifetimes of their own"
            .into(),
        columns: vec![Column::new("E", 3).within(0.05), Column::new("pf/t", 1)],
        rows: rows.collect::<anyhow::Result<_>>()?,
        notes: vec![
            "QUICK's two E at load 1.00 are fitted, all else is predicted".into(),
        ],
        ranked: Ranked::Within(|row| row.rsplit(", ").next().unwrap_or_default()),
        ..Table::default()
    };
    Ok(table.into())
}

/// Values of FREETOL, bytes: 1, and a tenth, a fifth and two fifths of a page (§5.2).
const FREETOLS: [usize; 4] = [1, 51, 102, 205];
/// The strategies that have it, and their FFCROSSOVER.
const TOLERANT: [(&str, usize); 6] = [
    ("MOST-FREE", 120),
    ("MOST-FREE", 508),
    ("LEAST-FREE", 120),
    ("LEAST-FREE", 508),
    ("MRU", 120),
    ("MRU", 508),
];

/// Runs of Table 7.3.2.
pub(super) const FREETOL_RUNS: u64 = (FREETOLS.len() * TOLERANT.len()) as u64;

/// Table 7.3.2, ours: larger values of FREETOL, "generally worse than with FREETOL = 1" (§7.3).
pub(super) fn table_7_3_2(options: Options, progress: &Progress) -> anyhow::Result<Made> {
    let load = Load::new(1.0, false, options)?;
    let rows = TOLERANT.into_par_iter().map(|(strategy, ffcrossover)| {
        let mut pairs = Vec::new();
        for freetol in FREETOLS {
            let ours = load.simulate((strategy, ffcrossover, freetol), options)?;
            pairs.extend(ours.map(|ours| Pair::new(None, ours)));
            progress.step(1, || format!("YKTVMV: {strategy}, FREETOL {freetol}"));
        }
        Ok((format!("{strategy}, {ffcrossover}"), pairs))
    });
    let rows: Vec<(String, Vec<Pair>)> = rows.collect::<anyhow::Result<_>>()?;
    let worse = |figure: usize, is_worse: fn(f64, f64) -> bool| {
        let of_row = |(_, pairs): &(String, Vec<Pair>)| {
            let ours = |at: usize| pairs[2 * at + figure].ours.unwrap_or_default();
            (1..FREETOLS.len()).filter(|&at| is_worse(ours(at), ours(0))).count()
        };
        rows.iter().map(of_row).sum::<usize>()
    };
    let all = TOLERANT.len() * (FREETOLS.len() - 1);
    let notes = vec![format!(
        "published: larger values \u{201c}generally worse\u{201d}; ours: of {all}, E is lower in {}, faults are more in {}",
        worse(0, |other, first| other < first),
        worse(1, |other, first| other > first)
    )];
    let names = [
        ("E, 1", 3),
        ("pf/t, 1", 1),
        ("E, 51", 3),
        ("pf/t, 51", 1),
        ("E, 102", 3),
        ("pf/t, 102", 1),
        ("E, 205", 3),
        ("pf/t, 205", 1),
    ];
    let table = Table {
        number: "7.3.2",
        title: "YKTVMV at full load with FREETOL of 1, 51, 102 and 205 bytes".into(),
        columns: names
            .map(|(name, decimals)| Column::new(name, decimals).near(Near::Uncounted))
            .into(),
        rows,
        notes,
        ranked: Ranked::Not,
        ..Table::default()
    };
    Ok(table.into())
}

fn table(measured: &[Measured]) -> Table {
    let refused = measured.iter().find_map(|one| one.real.as_ref().err());
    let mut notes = vec![
        format!(
            "pf/t: strict LRU simulated, {WORKING_SET} pages of {PAGE} bytes, bookkeeping included"
        ),
        "CPU/t: the paper's on a VAX 11/750".into(),
        match refused {
            None => format!(
                "real pf/t: of this machine's kernel, {WORKING_SET} pages of its size, all sizes scaled alike, FIFO"
            ),
            Some(error) => format!("real page faults cannot be had on this machine: {error:#}"),
        },
    ];
    notes.push("VAX-VMS: as published".into());
    let mut rows = Vec::new();
    for (at, load) in LOADS.iter().enumerate() {
        let of_load = &measured[at * PUBLISHED.len()..][..PUBLISHED.len()];
        for (row, ours) in PUBLISHED.iter().zip(of_load) {
            let [efficiency, faults, cpu] = row.published[at];
            let pairs = vec![
                Pair::new(efficiency, ours.efficiency),
                Pair::new(faults, ours.simulated),
                Pair::new(faults, ours.real.as_ref().ok().copied()),
                Pair::new(cpu * 1000.0, ours.cpu),
            ];
            rows.push((format!("{}, {}, load {load:.2}", row.strategy, row.ffcrossover), pairs));
        }
        let [faults, cpu] = VMS[at];
        let published = [None, Some(faults), Some(faults), Some(cpu * 1000.0)];
        let pairs = published.map(|figure| Pair::new(figure, None));
        rows.push((format!("VAX-VMS, load {load:.2}"), pairs.into()));
    }
    Table {
        number: "7.3",
        title: "YKTVMV: efficiency, page faults and CPU time per simulated second".into(),
        columns: vec![
            Column::new("E", 3).within(0.05),
            Column::new("pf/t", 1),
            Column::new("real pf/t", 1).near(Near::OrderAlone),
            Column::new("CPU/t, ms", 2).near(Near::OrderAlone),
        ],
        rows,
        notes,
        ranked: Ranked::Within(|row| row.rsplit(", ").next().unwrap_or_default()),
        ..Table::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    /// How the two parameters of the distribution `yktvmv-spread` were found: those that bring QUICK's two E at
    /// full load nearest to the published.
    #[test]
    #[ignore = "takes minutes: prints a grid"]
    fn fit_the_spread_to_the_efficiency_of_quick() {
        let usual = OnceLock::new();
        let options = Options { quick: false, seed: 1, usual: &usual };
        let grid = (0..=8).flat_map(|demand| (0..=10).map(move |lifetime| (demand, lifetime)));
        let grid: Vec<(u32, u32)> = grid.collect();
        let found = grid.par_iter().map(|&(demand, lifetime)| {
            let spread = [demand, lifetime].map(|halves| f64::from(halves) / 2.0);
            let distribution = Distribution::with_spread("yktvmv-like", spread).unwrap();
            let load = Load::of(distribution, 1.0, (100, 200.0), options).unwrap();
            let quick = |ffcrossover| {
                let config = config(&load.distribution, PAGE, ffcrossover, options.seed);
                let source = Reserved::new(CAPACITY);
                let mut strategy = over("QUICK", config, UNIT, source, ()).unwrap();
                let mut watch = Watched(Efficiency::after(load.warm_up));
                mixed::run(load.events.iter().copied(), 1, &mut *strategy, &mut watch).unwrap();
                watch.0.mean()
            };
            (spread, [quick(120), quick(508)])
        });
        struct Watched(Efficiency);
        impl Watch for Watched {
            fn reference(&mut self, _: NonNull<u8>) {}
            fn second(&mut self, usage: &Usage) {
                self.0.sample(usage);
            }
        }
        for ([demand, lifetime], [low, high]) in found.collect::<Vec<_>>() {
            let off = ((low / 0.352).ln().powi(2) + (high / 0.304).ln().powi(2)).sqrt();
            println!("{demand:.1} {lifetime:.1}: E {low:.3} {high:.3}, off by {off:.3}");
        }
    }
}
