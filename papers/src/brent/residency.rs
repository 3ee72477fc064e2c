//! Tables 3.2.1 and 3.2.2, ours: PQSIM with strategies that query which pages are resident (§2.12),
//! in a simulation and on the real system.

use std::rc::Rc;

use pagewise::source::{Region, Reserved};
use pagewise_replay::paging::Lru;
use pagewise_replay::progress::Progress;
use rayon::prelude::*;

use super::equal::Choice;
use super::options::{Made, Options};
use super::pqsim::{WORKING_SET, plan};
use crate::experiments::brent::leftist::NODE;
use crate::experiments::brent::memory::Memory;
use crate::experiments::brent::pager::{Pager, page_size};
use crate::experiments::brent::pqsim::{self, FITTED, Load, PAGE};
use crate::experiments::brent::residency::{
    MOST_PAGES, RealMemory, Recent, Residency, ResidencyAware, Rule, SimulatedMemory,
};
use crate::table::{Pair, Table};

/// A strategy: its rule and its tolerance.
#[derive(Clone, Copy, Debug)]
struct Row {
    name: &'static str,
    rule: Rule,
    tolerance: usize,
}

const ROWS: [Row; 4] = [
    Row { name: "MRU", rule: Rule::MostRecent, tolerance: 1 },
    Row { name: "MRU (φ0 = 5)", rule: Rule::MostRecent, tolerance: 5 },
    Row { name: "MOST-FREE", rule: Rule::MostFree, tolerance: 1 },
    Row { name: "MOST-FREE (φ0 = 5)", rule: Rule::MostFree, tolerance: 5 },
];

/// Runs of the table: each row with and without queries.
pub(super) const RUNS: u64 = 2 * ROWS.len() as u64;

impl Row {
    /// Returns the virtual size, and the faults of strict LRU.
    fn simulated(self, queries: bool, load: &Load) -> anyhow::Result<[f64; 2]> {
        let recent = Recent::new(WORKING_SET);
        let resident = queries.then(|| Rc::clone(&recent) as Rc<dyn Residency>);
        let source = Reserved::new(MOST_PAGES * PAGE);
        let blocks =
            ResidencyAware::new(self.rule, self.tolerance, resident, (NODE, PAGE), source)?;
        let paging = SimulatedMemory { lru: Lru::new(), recent };
        let memory = Memory::over(Box::new(blocks), NODE, PAGE, paging);
        let (virtual_size, told) = pqsim::run_over(load, memory)?;
        Ok([virtual_size as f64, told.lru.faults(WORKING_SET) as f64])
    }

    /// Returns the faults of the machine's own pages, and the number of queries. All sizes are
    /// scaled from the paper's page to the system's.
    fn paged(self, queries: bool, load: &Load) -> anyhow::Result<[f64; 2]> {
        let page = page_size();
        anyhow::ensure!(page.is_multiple_of(PAGE), "pages are not a multiple of {PAGE} bytes");
        let node = NODE * (page / PAGE);
        let pager = Rc::new(Pager::new(MOST_PAGES * page, WORKING_SET)?);
        let resident = queries.then(|| Rc::clone(&pager) as Rc<dyn Residency>);
        let memory = pager.memory();
        // SAFETY: the memory belongs to the pager, which lends it only here; `touched` keeps the
        // pager alive until the run is over and the allocator is dropped.
        let region = unsafe { Region::new(memory.cast().as_ptr(), memory.len()) };
        let touched = RealMemory::new(pager);
        let blocks =
            ResidencyAware::new(self.rule, self.tolerance, resident, (node, page), region)?;
        let memory = Memory::over(Box::new(blocks), node, page, touched);
        let (_, touched) = pqsim::run_over(load, memory)?;
        Ok(touched.counted().map(|count| count as f64))
    }
}

/// Table 3.2.1.
pub(super) fn table_3_2_1(options: Options, progress: &Progress) -> anyhow::Result<Made> {
    let (scale, runs) = plan(options);
    let load = |number| Load { lifetimes: FITTED, initial: 1.0, scale, seed: options.seed, number };
    let mean = |of: Vec<f64>| of.iter().sum::<f64>() / of.len() as f64;
    let random = (0..runs).into_par_iter().map(|number| {
        let strategy = Choice::new("RANDOM").build(NODE, PAGE, options.seed + number)?;
        Ok(pqsim::run(&load(number), strategy, Lru::new())?.1.faults(WORKING_SET) as f64)
    });
    let random = mean(random.collect::<anyhow::Result<_>>()?);
    let of = |row: Row, queries: bool| {
        let runs = (0..runs).into_par_iter().map(|number| row.simulated(queries, &load(number)));
        let runs = runs.collect::<anyhow::Result<Vec<_>>>()?;
        let (sizes, faults) = runs.into_iter().map(|[size, faults]| (size, faults)).unzip();
        progress.step(1, || "PQSIM, asking which pages are in memory".into());
        anyhow::Ok([mean(sizes), mean(faults) / random])
    };
    let rows = ROWS.into_iter().map(|row| {
        let figures = [of(row, false)?, of(row, true)?].into_iter().flatten();
        Ok((row.name.to_owned(), figures.map(|ours| Pair::new(None, ours)).collect()))
    });
    let names = [("size", 0), ("normalized", 3), ("size, asking", 0), ("normalized, asking", 3)];
    let table = Table {
        number: "3.2.1",
        title: "PQSIM where the next current page is chosen among those in memory (§2.12)".into(),
        rows: rows.collect::<anyhow::Result<_>>()?,
        notes: vec![
            format!(
                "mean of {runs} runs; faults of a working set of {WORKING_SET} pages, relative to RANDOM's"
            ),
            "asking: the strategy knows which pages strict LRU holds; the paper leaves this open"
                .into(),
        ],
        ..Table::uncompared(names)
    };
    Ok(table.into())
}

/// Table 3.2.2.
pub(super) fn table_3_2_2(options: Options, progress: &Progress) -> anyhow::Result<Made> {
    let (scale, _) = plan(options);
    let load = Load { lifetimes: FITTED, initial: 1.0, scale, seed: options.seed, number: 0 };
    // Returns the percentage of the first that the second saves.
    let saved = |[plain, asking]: [f64; 2]| 100.0 * (1.0 - asking / plain);
    let mut refused = None;
    let rows = ROWS.into_par_iter().map(|row| {
        let of = |queries| {
            let simulated = row.simulated(queries, &load)?[1];
            let paged = row.paged(queries, &load);
            progress.step(1, || format!("PQSIM on the machine's pages: {}", row.name));
            anyhow::Ok((simulated, paged))
        };
        let [(lru, paged), (lru_asking, paged_asking)] = [of(false)?, of(true)?];
        let paged = paged.and_then(|[faults, _]| Ok((faults, paged_asking?)));
        Ok((row, [lru, lru_asking], paged))
    });
    let rows = rows.collect::<anyhow::Result<Vec<_>>>()?.into_iter().map(|(row, lru, paged)| {
        let mut figures = [Some(lru[0]), Some(lru[1]), Some(saved(lru)), None, None, None, None];
        match paged {
            Ok((plain, [asking, asked])) => {
                let fewer = plain - asking;
                let each = (fewer > 0.0).then(|| asked / fewer);
                let fifo = [Some(plain), Some(asking), Some(saved([plain, asking])), each];
                figures[3..].copy_from_slice(&fifo);
            }
            Err(error) => refused = Some(error),
        }
        let pairs = figures.into_iter().map(|ours| Pair::new(None, ours));
        (row.name.to_owned(), pairs.collect())
    });
    let rows: Vec<(String, Vec<Pair>)> = rows.collect();
    let names = [
        ("LRU", 0),
        ("asking", 0),
        ("saved, %", 1),
        ("FIFO, real", 0),
        ("asking mincore", 0),
        ("saved, real, %", 1),
        ("calls ÷ saved", 1),
    ];
    let notes = vec![
        format!("one run; page faults of a working set of {WORKING_SET} pages"),
        "LRU: simulated; the strategy knows which pages strict LRU holds".into(),
        match refused {
            None => "FIFO, real: faults of the machine's own pages, nodes scaled alike, each reported by the kernel \
                     to a pager that evicts first in, first out; the system is asked (mincore)"
                .into(),
            Some(error) => format!("cannot measure real page faults on this machine: {error:#}"),
        },
        "calls ÷ saved: mincore calls for each fault saved".into(),
    ];
    let title = "as 3.2.1, simulated and on the machine's own pages".into();
    Ok(Table { number: "3.2.2", title, rows, notes, ..Table::uncompared(names) }.into())
}
