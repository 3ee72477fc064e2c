//! `pagewise tables brent`: Brent (1984), "Dynamic storage allocation on a computer with virtual
//! memory". `docs/brent.md` explains how each experiment was reconstructed.

mod equal;
mod mixed;
mod options;
mod paging;
mod pqsim;
mod residency;
mod tridiag;
mod variations;
mod worst_case;
mod yktvmv;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::Context;
use pagewise_replay::output;
use pagewise_replay::progress::Progress;

use self::options::{Made, Options};
use crate::options::{Asked, Paper, Random};
use crate::print::Printer;

/// Brent 1984: page faults of allocation strategies, simulated and real
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked<Brent>,
    #[command(flatten)]
    random: Random,
    /// Draw the tables that have a plot as SVG files into this directory
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

const HELP: &str = "\
Examples:
  pagewise tables brent
  pagewise tables brent --table 3.2 --table 3.3
  pagewise tables brent --table 3.4 --plot .       draws table-3.4.svg";

/// A table's experiment.
#[derive(Debug)]
struct Experiment {
    number: &'static str,
    /// Number of program runs, for the progress bar.
    steps: u64,
    run: fn(Options<'_>, &Progress) -> anyhow::Result<Made>,
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment { number: "3.1", steps: tridiag::ROWS, run: tridiag::table_3_1 },
    Experiment { number: "3.2", steps: pqsim::ROWS, run: pqsim::table_3_2 },
    Experiment { number: "3.2.1", steps: residency::RUNS, run: residency::table_3_2_1 },
    Experiment { number: "3.2.2", steps: residency::RUNS, run: residency::table_3_2_2 },
    Experiment { number: "3.3", steps: 2 * pqsim::ROWS, run: pqsim::table_3_3 },
    Experiment { number: "3.4", steps: pqsim::TOLERANCES, run: pqsim::table_3_4 },
    Experiment { number: "6.1", steps: worst_case::RUNS, run: worst_case::table_6_1 },
    Experiment { number: "7.1", steps: 1, run: mixed::table_7_1 },
    Experiment { number: "7.2", steps: mixed::RUNS, run: mixed::table_7_2 },
    Experiment { number: "7.2.1", steps: mixed::RUNS, run: mixed::table_7_2_1 },
    Experiment { number: "7.3", steps: paging::RUNS, run: paging::table_7_3 },
    Experiment { number: "7.3.1", steps: variations::SPREAD_RUNS, run: variations::table_7_3_1 },
    Experiment { number: "7.3.2", steps: variations::FREETOL_RUNS, run: variations::table_7_3_2 },
    Experiment { number: "7.3.3", steps: variations::TIME_RUNS, run: variations::table_7_3_3 },
    Experiment { number: "7.3.4", steps: variations::CROSSOVER_RUNS, run: variations::table_7_3_4 },
];

#[derive(Debug)]
struct Brent;

impl Paper for Brent {
    fn numbers() -> Vec<&'static str> {
        EXPERIMENTS.iter().map(|experiment| experiment.number).collect()
    }
}

/// Runs the subcommand.
///
/// # Errors
/// If a strategy runs out of memory, or a plot cannot be written.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let experiment = |number| EXPERIMENTS.iter().find(|one| one.number == number);
    let chosen: Vec<_> = args.asked.tables().into_iter().filter_map(experiment).collect();
    let plot =
        |one: &Experiment| Some(args.plot.as_ref()?.join(format!("table-{}.svg", one.number)));
    if let Some(path) = chosen.first().and_then(|first| plot(first)) {
        output::check(&path)?;
    }
    let Random { quick, seed } = args.random;
    let usual = OnceLock::new();
    let options = Options { quick, seed, usual: &usual };
    let progress = Progress::new(chosen.iter().map(|experiment| experiment.steps).sum());
    let mut printer = Printer::new(args.asked.json);
    printer.say(&format!("Brent 1984, published figures beside ours; seed {seed}"))?;
    if quick {
        printer.say("--quick: short runs, figures are inaccurate")?;
    }
    for experiment in chosen {
        let made = (experiment.run)(options, &progress)
            .with_context(|| format!("table {}", experiment.number))?;
        if let (Some(path), Some(svg)) = (plot(experiment), &made.svg) {
            output::create(&path, |out| Ok(out.write_all(svg.as_bytes())?))?;
        }
        progress.above(|| printer.table(&made.table))?;
    }
    progress.finish();
    printer.finish()
}
