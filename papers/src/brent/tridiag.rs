//! Table 3.1: TRIDIAG.

use pagewise_replay::paging::{Lru, Paging};
use pagewise_replay::progress::Progress;
use pagewise_replay::system::charged::processor_time;
use pagewise_replay::units;
use rayon::prelude::*;

use super::equal::Choice;
use super::options::{Made, Options};
use crate::experiments::brent::memory::Counts;
use crate::experiments::brent::tridiag::{self, NODE, PAGE, PAPER, Problem};
use crate::table::{Column, Near, Pair, Table};

/// A row as published: strategy, virtual size, and for each working set faults and normalised.
type Row = (&'static str, [f64; 5]);

const PUBLISHED: [Row; PUBLISHED_ROWS] = [
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

/// Tolerances above 1, φ0/c about 0.06, 0.2 and 0.4: "no significant difference" (§3.4).
const TOLERANT: [Choice; 9] = {
    const fn of(strategy: &'static str, tolerance: usize) -> Choice {
        Choice::with_tolerance(strategy, tolerance)
    }
    [
        of("MOST-FREE", 5),
        of("MOST-FREE", 17),
        of("MOST-FREE", 34),
        of("LEAST-FREE", 5),
        of("LEAST-FREE", 17),
        of("LEAST-FREE", 34),
        of("MRU", 5),
        of("MRU", 17),
        of("MRU", 34),
    ]
};

/// Seconds of processor time without simulated paging, as far as §3.1 gives them.
const SECONDS: [(&str, f64); 5] = [
    ("NOFREE", 1595.0),
    ("FIRST-FIT", 5693.0),
    ("MOST-FREE", 2500.0),
    ("LEAST-FREE", 2500.0),
    ("MRU", 2500.0),
];

const PUBLISHED_ROWS: usize = 10;
pub(super) const ROWS: u64 = 2 * PUBLISHED_ROWS as u64 + TOLERANT.len() as u64;
const WORKING_SETS: [usize; 2] = [2000, 4000];

/// Rounds that measure the time without paging; the minimum counts.
const ROUNDS: usize = 3;

/// Does not simulate paging.
struct Unpaged;

impl Paging for Unpaged {
    fn reference(&mut self, _: u64) {}
    fn start_counting(&mut self) {}
}

/// Table 3.1.
pub(super) fn table_3_1(options: Options, progress: &Progress) -> anyhow::Result<Made> {
    let (problem, working_sets) = plan(options);
    let one = |choice: &Choice| {
        let strategy = choice.build(NODE, PAGE, options.seed)?;
        let (virtual_size, counts, lru) = tridiag::run(&problem, strategy, Lru::new())?;
        progress.step(1, || format!("TRIDIAG: {}", choice.name()));
        Ok((virtual_size as f64, counts, working_sets.map(|pages| lru.faults(pages) as f64)))
    };
    let plain = PUBLISHED.iter().map(|row| Choice::new(row.0));
    let choices: Vec<Choice> = plain.chain(TOLERANT).collect();
    let measured: Vec<_> = choices.par_iter().map(one).collect::<anyhow::Result<_>>()?;
    let times = times(&problem, &choices[..PUBLISHED.len()], options, progress)?;
    let [random, no_free] = ["RANDOM", "NOFREE"]
        .map(|name| PUBLISHED.iter().position(|row| row.0 == name).unwrap_or_default());
    let [random_2000, random_4000] = measured[random].2;
    let rows = choices.iter().zip(&measured).enumerate().map(|(index, (choice, ours))| {
        let [small, large] = ours.2;
        let figures = [ours.0, small, small / random_2000, large, large / random_4000];
        let published = PUBLISHED.get(index).map(|row| row.1);
        let pairs = figures.into_iter().enumerate();
        let pairs = pairs.map(|(at, ours)| Pair::new(published.map(|row| row[at]), ours));
        let seconds =
            SECONDS.iter().find(|(name, _)| published.is_some() && *name == choice.strategy);
        let theirs = seconds.map(|(_, seconds)| seconds / SECONDS[0].1);
        let time = times.get(index).map(|time| time / times[no_free]);
        (choice.name(), pairs.chain([Pair::new(theirs, time).derived()]).collect())
    });
    let table = Table {
        number: "3.1",
        title: "TRIDIAG, working sets of 2000 and 4000 pages".into(),
        columns: vec![
            Column::new("virtual size", 0),
            Column::new("faults (2000)", 0).near(Near::Uncounted),
            Column::new("normalized (2000)", 3),
            Column::new("faults (4000)", 0).near(Near::Uncounted),
            Column::new("normalized (4000)", 3),
            Column::new("CPU ÷ NOFREE's", 2).near(Near::OrderAlone),
        ],
        rows: rows.collect(),
        notes: notes(measured[random].1),
        ..Table::default()
    };
    Ok(table.into())
}

/// Returns the problem and the working sets: the paper's, or with a quarter of the order, which is
/// a 64th of the work and of the blocks.
fn plan(options: Options) -> (Problem, [usize; 2]) {
    let shrink = if options.quick { 4 } else { 1 };
    let cube = (shrink * shrink * shrink) as u64;
    let Counts { allocations, frees, peak } = PAPER.counts;
    let problem = Problem {
        order: PAPER.order / shrink,
        counts: Counts { allocations: allocations / cube, frees: frees / cube, peak: peak / cube },
    };
    (problem, WORKING_SETS.map(|pages| pages / cube as usize))
}

fn notes(made: Counts) -> Vec<String> {
    vec![
        format!(
            "{}, {}, at most {} in use; the paper: 1,803,213, 1,789,653 and 545,777",
            units::count(made.allocations, "allocation"),
            units::count(made.frees, "free"),
            units::count(made.peak, "block"),
        ),
        "CPU: of the whole program without paging, on a machine that has the memory; the paper's 1595 s, 5693 s and about 2500 s are of one with 3000 pages".into(),
        "blocks of 12 bytes in pages of 1024 bytes for 6 in 512: c = 85 as in the paper".into(),
    ]
}

/// Returns the seconds of processor time that the program takes with each strategy when no paging
/// is simulated.
fn times(
    problem: &Problem,
    choices: &[Choice],
    options: Options,
    progress: &Progress,
) -> anyhow::Result<Vec<f64>> {
    let mut least = vec![f64::INFINITY; choices.len()];
    for round in 0..ROUNDS {
        for (choice, least) in choices.iter().zip(&mut least) {
            let strategy = choice.build(NODE, PAGE, options.seed)?;
            let before = processor_time();
            tridiag::run(problem, strategy, Unpaged)?;
            *least = least.min((processor_time() - before).as_secs_f64());
            progress.step(u64::from(round == 0), || format!("TRIDIAG, time: {}", choice.name()));
        }
    }
    Ok(least)
}
