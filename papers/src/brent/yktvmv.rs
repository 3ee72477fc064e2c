//! YKTVMV (Brent §7.1) served by a strategy: its storage efficiency, page faults, simulated and
//! real, and processor time. Tables 7.3 to 7.3.4 use it.

use std::cell::RefCell;
use std::ptr::NonNull;

use pagewise::catalogue::{FirstFit, LeastFree, MostFree, Mru, NoFree, Quick};
use pagewise::meter::{Meter, Part};
use pagewise::pages::Config;
use pagewise::sizemap::SizeMap;
use pagewise::source::{Region, Reserved, Source};
use pagewise::trace::Event;
use pagewise::{Strategy, Usage};
use pagewise_replay::generator::{Distribution, Process};
use pagewise_replay::paging::Lru;
use pagewise_replay::system::charged::{Faults, processor_time};
use pagewise_replay::unwinding::end_on_panic;

use super::mixed::{CAPACITY, UNIT, config, yktvmv};
use super::options::Options;
use crate::experiments::brent::mixed::{self, Efficiency, Watch};
use crate::experiments::brent::resident::Resident;

/// The paper's working set, pages.
pub(super) const WORKING_SET: usize = 3000;
/// The paper's page, bytes.
pub(super) const PAGE: usize = 512;
/// The largest FFCROSSOVER of Table 7.3; the smaller one is 120.
pub(super) const HIGHEST: usize = 508;

/// Bytes of the mapping for real faults: room for QUICK at the full load.
const MAPPING: usize = 1 << 27;

/// A server: a strategy with its FFCROSSOVER and FREETOL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Server {
    pub(super) strategy: &'static str,
    pub(super) ffcrossover: usize,
    pub(super) freetol: usize,
}

impl Server {
    /// With FREETOL 1, as in all of Table 7.3.
    pub(super) const fn new(strategy: &'static str, ffcrossover: usize) -> Self {
        Self { strategy, ffcrossover, freetol: 1 }
    }
}

/// Returns the seconds of warm-up, which do not count, and the total.
pub(super) fn seconds(options: Options) -> (u64, f64) {
    if options.quick { (20, 40.0) } else { (100, 300.0) }
}

/// Builds a strategy over a source; FFCROSSOVER 0 means FIRST-FIT with segments of a page.
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
        "NOFREE" => Box::new(NoFree::new(config, source, meter)),
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
    /// Faults and their number at the end of the warm-up.
    faults_before: u64,
    refused: Option<std::io::Error>,
}

impl Watch for Real<'_> {
    fn reference(&mut self, block: NonNull<u8>) {
        /// References between evictions. In between, the working set can exceed its size by the
        /// pages of that many blocks.
        const LOOK: u64 = 128;
        // SAFETY: the block is in use and at least a byte long; its contents do not matter.
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

/// Measures time only.
struct Timed;

impl Watch for Timed {
    fn reference(&mut self, block: NonNull<u8>) {
        // SAFETY: the block is in use and at least a byte long; its contents do not matter.
        unsafe { block.write_volatile(1) };
    }
    fn second(&mut self, _: &Usage) {}
}

/// A load: its events, and its duration in seconds.
pub(super) struct Load {
    distribution: Distribution,
    events: Vec<Event>,
    warm_up: u64,
    seconds: f64,
}

impl Load {
    /// Makes a load with this load factor; if `spread`, each size has its own lifetimes.
    pub(super) fn new(factor: f64, spread: bool, options: Options) -> anyhow::Result<Self> {
        Self::of(yktvmv(spread)?, factor, seconds(options), options)
    }

    /// Makes the full load, without spread, over this many seconds.
    pub(super) fn lasting(seconds: f64, options: Options) -> anyhow::Result<Self> {
        Self::of(yktvmv(false)?, 1.0, (self::seconds(options).0, seconds), options)
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
        let events = Process::new(&distribution, seconds, options.seed)?.collect();
        Ok(Self { distribution, events, warm_up, seconds })
    }

    fn counted(&self) -> f64 {
        self.seconds - self.warm_up as f64
    }

    fn config(&self, server: Server, options: Options) -> Config {
        let config = config(&self.distribution, PAGE, server.ffcrossover, options.seed);
        config.freetol(server.freetol)
    }

    /// Returns E, and simulated faults per second.
    pub(super) fn simulate(&self, server: Server, options: Options) -> anyhow::Result<[f64; 2]> {
        let simulated = Simulated { lru: RefCell::new(Lru::new()) };
        let (config, source) = (self.config(server, options), Reserved::new(CAPACITY));
        let mut strategy = over(server.strategy, config, UNIT, source, &simulated)?;
        let efficiency = Efficiency::after(self.warm_up);
        let mut watch = Simulation { simulated: &simulated, efficiency };
        mixed::run(self.events.iter().copied(), 1, &mut *strategy, &mut watch)?;
        let faults = simulated.lru.borrow().faults(WORKING_SET) as f64;
        Ok([watch.efficiency.mean(), faults / self.counted()])
    }

    /// Returns the CPU time per second, in milliseconds.
    pub(super) fn time(&self, server: Server, options: Options) -> anyhow::Result<f64> {
        let (config, source) = (self.config(server, options), Reserved::new(CAPACITY));
        let mut strategy = over(server.strategy, config, UNIT, source, ())?;
        let before = processor_time();
        mixed::run(self.events.iter().copied(), 1, &mut *strategy, &mut Timed)?;
        Ok((processor_time() - before).as_secs_f64() * 1000.0 / self.seconds)
    }

    /// Returns the real faults per second. All sizes are scaled from the paper's page to the
    /// system's.
    pub(super) fn fault(&self, server: Server, options: Options) -> anyhow::Result<f64> {
        let mut resident = Resident::new(MAPPING, WORKING_SET)?;
        let scale = resident.page_size() / PAGE;
        anyhow::ensure!(scale.is_power_of_two(), "pages are not a multiple of {PAGE} bytes");
        let scaled = scaled(self.config(server, options), scale);
        let memory = resident.memory();
        // SAFETY: the mapping is ours alone, and outlives the strategy, which is dropped first.
        let region = unsafe { Region::new(memory.cast().as_ptr(), memory.len()) };
        let mut strategy = over(server.strategy, scaled, UNIT * scale, region, ())?;
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

/// Returns a configuration with all sizes `scale` times as large.
fn scaled(config: Config, scale: usize) -> Config {
    let sizemap = match config.sizemap {
        SizeMap::Classes(classes) => {
            let larger: Vec<u32> = classes.iter().map(|class| class * scale as u32).collect();
            // A configuration needs a static list.
            SizeMap::Classes(larger.leak())
        }
        other => other,
    };
    config
        .page_size(config.page_size * scale)
        .unit(config.unit * scale)
        .ffcrossover(config.ffcrossover * scale)
        .freetol(config.freetol * scale)
        .sizemap(sizemap)
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use rayon::prelude::*;

    use super::*;

    /// Shows how the two parameters of the distribution `yktvmv-spread` were found: they bring
    /// QUICK's two E at full load closest to the published ones.
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
