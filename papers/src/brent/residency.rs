//! Table 3.2.1, ours: PQSIM where the strategy asks which pages are in memory (§2.12).

use std::rc::Rc;

use pagewise_replay::paging::Lru;
use pagewise_replay::progress::Progress;
use rayon::prelude::*;

use super::equal::Choice;
use super::options::{Made, Options};
use super::pqsim::{WORKING_SET, plan};
use crate::experiments::brent::leftist::NODE;
use crate::experiments::brent::memory::Memory;
use crate::experiments::brent::pqsim::{self, FITTED, Load, PAGE};
use crate::experiments::brent::residency::{Asking, Recent, Rule, Told};
use crate::table::{Column, Near, Pair, Ranked, Table};

/// Rule, tolerance, and whether it asks.
const ROWS: [(&str, Rule, usize); 4] = [
    ("MRU", Rule::MostRecent, 1),
    ("MRU (φ0 = 5)", Rule::MostRecent, 5),
    ("MOST-FREE", Rule::MostFree, 1),
    ("MOST-FREE (φ0 = 5)", Rule::MostFree, 5),
];

/// Runs of the table: each row asking and not.
pub(super) const RUNS: u64 = 2 * ROWS.len() as u64;

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
    let of = |rule: Rule, tolerance: usize, asks: bool| {
        let runs = (0..runs).into_par_iter().map(|number| {
            let recent = Recent::new(WORKING_SET);
            let resident = asks.then(|| Rc::clone(&recent));
            let blocks = Asking::new(rule, tolerance, resident, (NODE, PAGE))?;
            let paging = Told { lru: Lru::new(), recent };
            let memory = Memory::over(Box::new(blocks), NODE, PAGE, paging);
            let (virtual_size, told) = pqsim::run_over(&load(number), memory)?;
            Ok((virtual_size as f64, told.lru.faults(WORKING_SET) as f64))
        });
        let (sizes, faults) =
            runs.collect::<anyhow::Result<Vec<_>>>()?.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
        progress.step(1, || "PQSIM, asking which pages are in memory".into());
        anyhow::Ok([mean(sizes), mean(faults) / random])
    };
    let rows = ROWS.into_iter().map(|(name, rule, tolerance)| {
        let [plain, asking] = [of(rule, tolerance, false)?, of(rule, tolerance, true)?];
        let figures = plain.into_iter().chain(asking).map(|ours| Pair::new(None, ours));
        Ok((name.to_owned(), figures.collect()))
    });
    let names = [("size", 0), ("normalized", 3), ("size, asking", 0), ("normalized, asking", 3)];
    let table = Table {
        number: "3.2.1",
        title: "PQSIM where the next current page is chosen among those in memory (§2.12)".into(),
        columns: names
            .map(|(name, decimals)| Column::new(name, decimals).near(Near::Uncounted))
            .into(),
        rows: rows.collect::<anyhow::Result<_>>()?,
        notes: vec![
            format!(
                "mean of {runs} runs; faults of a working set of {WORKING_SET} pages, relative to RANDOM's"
            ),
            "asking: what strict LRU holds of the working set; the paper leaves this open".into(),
        ],
        ranked: Ranked::Not,
        ..Table::default()
    };
    Ok(table.into())
}
