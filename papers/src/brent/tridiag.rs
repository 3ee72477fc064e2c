//! Table 3.1: TRIDIAG.

use pagewise_replay::paging::Lru;
use pagewise_replay::progress::Progress;
use pagewise_replay::units;
use rayon::prelude::*;

use super::equal::Choice;
use super::options::{Made, Options};
use crate::experiments::brent::memory::Counts;
use crate::experiments::brent::tridiag::{self, NODE, PAGE, PAPER, Problem};
use crate::table::{Column, Near, Pair, Table};

/// A row as published: strategy, virtual size, and for each working set faults and normalised.
type Row = (&'static str, [f64; 5]);

const PUBLISHED: [Row; ROWS as usize] = [
    ("STACK", [6423.0, 3_469_580.0, 0.498, 606_808.0, 0.406]),
    ("QUEUE", [6423.0, 3_048_212.0, 0.437, 460_270.0, 0.308]),
    ("RANDOM", [6423.0, 6_969_773.0, 1.000, 1_495_095.0, 1.000]),
    ("NOFREE", [21_467.0, 72_471.0, 0.010, 21_866.0, 0.015]),
    ("QUICK", [9361.0, 163_520.0, 0.024, 29_721.0, 0.020]),
    ("FIRST-FIT", [6397.0, 171_484.0, 0.025, 30_593.0, 0.020]),
    ("RANDOM(B)", [6423.0, 165_488.0, 0.024, 27_374.0, 0.018]),
    ("MOST-FREE", [6423.0, 172_207.0, 0.025, 25_589.0, 0.017]),
    ("LEAST-FREE", [6423.0, 172_765.0, 0.025, 24_768.0, 0.017]),
    ("MRU", [6423.0, 160_555.0, 0.023, 25_089.0, 0.017]),
];

pub(super) const ROWS: u64 = 10;
const WORKING_SETS: [usize; 2] = [2000, 4000];

/// Table 3.1.
pub(super) fn table_3_1(options: Options, progress: &Progress) -> anyhow::Result<Made> {
    // A quarter of the order: a 64th of the work, a 64th of the blocks.
    let shrink = if options.quick { 4 } else { 1 };
    let cube = (shrink * shrink * shrink) as u64;
    let Counts { allocations, frees, peak } = PAPER.counts;
    let problem = Problem {
        order: PAPER.order / shrink,
        counts: Counts { allocations: allocations / cube, frees: frees / cube, peak: peak / cube },
    };
    let working_sets = WORKING_SETS.map(|pages| pages / cube as usize);
    let one = |row: &Row| {
        let strategy = Choice::new(row.0).build(NODE, PAGE, options.seed)?;
        let (virtual_size, counts, lru) = tridiag::run(&problem, strategy, Lru::new())?;
        progress.step(1, || format!("TRIDIAG: {}", row.0));
        Ok((virtual_size as f64, counts, working_sets.map(|pages| lru.faults(pages) as f64)))
    };
    let measured: Vec<_> = PUBLISHED.par_iter().map(one).collect::<anyhow::Result<_>>()?;
    let random = PUBLISHED.iter().position(|row| row.0 == "RANDOM").unwrap_or_default();
    let [random_2000, random_4000] = measured[random].2;
    let rows = PUBLISHED.iter().zip(&measured).map(|(row, ours)| {
        let [small, large] = ours.2;
        let figures = [ours.0, small, small / random_2000, large, large / random_4000];
        let pairs = row.1.iter().zip(figures).map(|(&published, ours)| Pair::new(published, ours));
        (row.0.to_owned(), pairs.collect())
    });
    let made = measured[random].1;
    let table = Table {
        number: "3.1",
        title: "TRIDIAG, working sets of 2000 and 4000 pages".into(),
        columns: vec![
            Column::new("virtual size", 0),
            Column::new("faults (2000)", 0).near(Near::Uncounted),
            Column::new("normalized (2000)", 3),
            Column::new("faults (4000)", 0).near(Near::Uncounted),
            Column::new("normalized (4000)", 3),
        ],
        rows: rows.collect(),
        notes: vec![
            format!(
                "{}, {}, at most {} in use; the paper: 1,803,213, 1,789,653 and 545,777",
                units::count(made.allocations, "allocation"),
                units::count(made.frees, "free"),
                units::count(made.peak, "block"),
            ),
            "blocks of 12 bytes in pages of 1024 bytes for 6 in 512: c = 85 as in the paper".into(),
        ],
        ..Table::default()
    };
    Ok(table.into())
}
