//! `pagewise tables lazy`: Chung & Moon (2000), "Memory allocation with lazy fits". `docs/lazy.md`
//! has the definitions and results.

mod algorithms;
mod causes;
mod make;
mod plain;
mod program;
mod published;
mod simulate;
mod time;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use pagewise_replay::progress::Progress;
use pagewise_replay::usage::Usage;
use pagewise_replay::workload::Workload;
use rayon::prelude::*;

use self::algorithms::{ALGORITHMS, Algorithm};
use self::causes::Causes;
use self::program::Program;
use self::simulate::{Setting, TIME};
use crate::options::{Asked, Paper};
use crate::print::Printer;
use crate::recorded::{self, Recorded};
use crate::widened::Words;

/// Chung & Moon 2000: fragmentation and fit frequency of lazy fits, over traces
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked<Lazy>,
    /// Trace to compute the tables from; may be given more than once [default: the bundled ones]
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
  2.1    the same on the paper's programs, for each reading of its open points
  3      how often an allocation needed the fit, frees at once
  3.1    like 2.1, for table 3
  4      fragmentation, garbage-collected: frees wait until an allocation fails
  4.1    like 2.1, for table 4
  5      like 4, only blocks below 4 KiB
  6      how often an allocation needed the fit, garbage-collected
  6.1    like 2.1, for table 6
  time   measured time of each lazy fit, relative to its conventional fit";

/// The paper's name in the notes of traces.
const PAPER: &str = "Chung & Moon";

/// The numbers of the tables.
const NUMBERS: [&str; 10] = ["2", "2.1", "3", "3.1", "4", "4.1", "5", "6", "6.1", TIME];

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
/// If a table has no rows, a trace cannot be read, or an algorithm runs out of memory.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let plan = Plan::of(args)?;
    let measured = plan.measure()?;
    plan.print(&measured)
}

/// The tables to make, and what they are made from.
struct Plan<'a> {
    asked: &'a Asked<Lazy>,
    traces: Vec<Recorded>,
    runs: Vec<(Setting, &'static Algorithm)>,
    is_timed: bool,
    /// The chosen tables of the paper's open points.
    of_causes: Vec<&'static str>,
    /// Number of traces that record one of the paper's programs.
    rows: usize,
}

/// The results over all traces.
struct Measured {
    programs: Vec<Program>,
    /// Name, row and results of each trace that records one of the paper's programs.
    causes: Vec<(String, String, Causes)>,
}

impl<'a> Plan<'a> {
    /// Opens the traces, so that faults of any are reported before the first is measured.
    fn of(args: &'a Args) -> anyhow::Result<Self> {
        let asked = &args.asked;
        let traces = if args.traces.is_empty() {
            recorded::bundled()?
        } else {
            args.traces.iter().map(|path| Recorded::open(path)).collect::<Result<Vec<_>, _>>()?
        };
        // Traces that are not rows of a table here belong to another paper.
        let traces = traces.into_iter().filter(|one| {
            !args.traces.is_empty() || one.words == Words::Whole || one.row_of(PAPER).is_some()
        });
        let traces: Vec<_> = traces.collect();
        let settings = Setting::ALL
            .into_iter()
            .filter(|setting| setting.tables().iter().any(|number| asked.has(number)));
        let runs = settings.flat_map(|setting| {
            let algorithms = ALGORITHMS.iter().filter(move |one| setting.has(one));
            algorithms.map(move |algorithm| (setting, algorithm))
        });
        let rows = traces.iter().filter(|trace| trace.row_of(PAPER).is_some()).count();
        let of_causes: Vec<_> =
            causes::NUMBERS.into_iter().filter(|number| asked.has(number)).collect();
        if rows == 0 && !of_causes.is_empty() && asked.is_explicit() {
            return Err(Usage(format!(
                "table {} is of the paper's own programs, and none of these traces is a recording \
                 of one; without --trace it is made from the bundled traces",
                of_causes.join(", ")
            ))
            .into());
        }
        Ok(Self { asked, runs: runs.collect(), is_timed: asked.has(TIME), of_causes, rows, traces })
    }

    fn measure(&self) -> anyhow::Result<Measured> {
        let rounds = if self.is_timed { time::ROUNDS * ALGORITHMS.len() } else { 0 };
        let steps = self.traces.len() * (self.runs.len() + rounds)
            + self.rows * causes::steps(&self.of_causes);
        let progress = Progress::new(steps as u64);
        let mut measured = Measured { programs: Vec::new(), causes: Vec::new() };
        for trace in &self.traces {
            let workload = Workload::load(&trace.path)?;
            let figures = self.runs.par_iter().map(|&(setting, algorithm)| {
                let figures = simulate::run(&workload, trace.words, setting, algorithm)
                    .with_context(|| format!("{}: {}", workload.name, algorithm.name))?;
                progress.step(1, || format!("{}: {}", workload.name, algorithm.name));
                Ok(((setting, algorithm.name), figures))
            });
            let figures = figures.collect::<anyhow::Result<_>>()?;
            let times = match self.is_timed {
                true => time::all(&workload, trace.words, &progress)?,
                false => Vec::new(),
            };
            let row = trace.row_of(PAPER).map(str::to_owned);
            if let Some(row) = row.as_ref().filter(|_| !self.of_causes.is_empty()) {
                let causes = causes::measure(&workload, trace.words, &self.of_causes, &progress)?;
                measured.causes.push((workload.name.clone(), row.clone(), causes));
            }
            measured.programs.push(Program { name: workload.name, row, figures, times });
        }
        progress.finish();
        Ok(measured)
    }

    fn print(&self, measured: &Measured) -> anyhow::Result<ExitCode> {
        let mut printer = Printer::new(self.asked.json);
        printer.say("Chung & Moon 2000, published figures beside ours; per cent")?;
        let has_no_rows = |number: &&str| self.rows == 0 && causes::NUMBERS.contains(number);
        if self.of_causes.iter().any(has_no_rows) {
            printer
                .say("Not made: 2.1, 3.1, 4.1 and 6.1, which are of the paper's own programs")?;
        }
        let numbers = NUMBERS.into_iter().filter(|number| self.asked.has(number));
        let tables = numbers.filter(|number| !has_no_rows(number)).flat_map(|number| {
            if causes::NUMBERS.contains(&number) {
                causes::tables(number, &measured.causes)
            } else {
                make::tables(number, &measured.programs)
            }
        });
        for table in tables {
            printer.table(&table)?;
        }
        printer.finish()
    }
}
