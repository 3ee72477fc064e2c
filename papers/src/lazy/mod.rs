//! `pagewise tables lazy`: Chung & Moon (2000), "Memory allocation with lazy fits". What is defined
//! how, and what came out, is told in `docs/lazy.md`.

mod algorithms;
mod make;
mod program;
mod published;
mod simulate;
mod time;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use pagewise::trace;
use pagewise_replay::bundled;
use pagewise_replay::progress::Progress;
use pagewise_replay::workload::Workload;
use rayon::prelude::*;

use self::algorithms::ALGORITHMS;
use self::program::Program;
use self::simulate::{Setting, TIME};
use crate::options::{Asked, Paper};
use crate::print::Printer;

/// Chung & Moon 2000: fragmentation and fit frequency of lazy fits, over traces
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked<Lazy>,
    /// A trace to make them over; may be given more than once [default: the bundled ones]
    #[arg(long = "trace", value_name = "FILE")]
    traces: Vec<PathBuf>,
}

const HELP: &str = "\
Examples:
  pagewise tables lazy
  pagewise tables lazy --table 2 --table 3
  pagewise tables lazy --trace gawk.pwt --json

The tables:
  2      fragmentation, frees at once
  3      how often an allocation needed the fit, frees at once
  4      fragmentation, garbage-collected: frees wait until an allocation fails
  5      the same for blocks below 4 KiB alone
  6      how often an allocation needed the fit, garbage-collected
  time   a lazy fit's time relative to its conventional one's, as measured";

/// The tables there are.
const NUMBERS: [&str; 6] = ["2", "3", "4", "5", "6", TIME];

#[derive(Debug)]
struct Lazy;

impl Paper for Lazy {
    fn numbers() -> Vec<&'static str> {
        NUMBERS.to_vec()
    }
}

/// Runs the subcommand.
///
/// # Errors
/// A trace that cannot be read, an algorithm without memory.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let chosen = |number: &str| args.asked.has(number);
    let paths = if args.traces.is_empty() { bundled::traces()? } else { args.traces.clone() };
    // What is wrong with any trace should be known before the first is measured.
    for path in &paths {
        trace::open(path)?;
    }
    let runs: Vec<_> = Setting::ALL
        .into_iter()
        .filter(|setting| setting.tables().iter().any(|&number| chosen(number)))
        .flat_map(|setting| {
            let algorithms = ALGORITHMS.iter().filter(move |one| setting.has(one));
            algorithms.map(move |algorithm| (setting, algorithm))
        })
        .collect();
    let timed = chosen(TIME);
    let rounds = if timed { time::ROUNDS * ALGORITHMS.len() } else { 0 };
    let progress = Progress::new((paths.len() * (runs.len() + rounds)) as u64);
    let mut programs = Vec::new();
    for path in &paths {
        let workload = Workload::load(path)?;
        let figures = runs.par_iter().map(|&(setting, algorithm)| {
            let figures = simulate::run(&workload, setting, algorithm)
                .with_context(|| format!("{}: {}", workload.name, algorithm.name))?;
            progress.step(1, || format!("{}: {}", workload.name, algorithm.name));
            Ok(((setting, algorithm.name), figures))
        });
        let figures = figures.collect::<anyhow::Result<_>>()?;
        let times = if timed { time::all(&workload, &progress)? } else { Vec::new() };
        programs.push(Program { name: workload.name, figures, times });
    }
    progress.finish();
    let mut printer = Printer::new(args.asked.json);
    printer.say("Chung & Moon 2000, published beside ours; per cent")?;
    let numbers = NUMBERS.into_iter().filter(|number| chosen(number));
    for table in numbers.flat_map(|number| make::tables(number, &programs)) {
        printer.table(&table)?;
    }
    printer.finish()
}
