//! `pagewise tables head-first`: Hakarsa (2024), "Head-First Memory Allocation on Best-Fit with
//! Space-Fitting". `docs/head-first.md` explains how the experiments were reconstructed.

mod contenders;
mod options;
mod random;
mod script;
mod walks;

use std::process::ExitCode;

use anyhow::Context;

use self::options::Options;
use crate::options::{Asked, Paper, Random};
use crate::print::Printer;
use crate::table::Table;

/// Hakarsa 2024: best fit with space-fitting, head-first and not
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked<HeadFirst>,
    #[command(flatten)]
    random: Random,
    /// Threads that share the heap in the many-threaded runs
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(2..=1024))]
    threads: u32,
}

const HELP: &str = "\
Tables 1 to 7 show heaps block by block, 8 and 9 the paper's benchmark on many
threads. Our own tables, from the same runs: 9.1 the time of all four
compositions, on one thread and on many, with the paper's search and with ours;
9.2 items visited; 9.3 successes and fragmentation; 9.4 the same requests, each
deallocation done when its turn comes; 9.5 and 9.6 first, next, worst fit and
half-fit, head-first and not, with deallocations held back and in their turn.

Examples:
  pagewise tables head-first
  pagewise tables head-first --table 2 --table 5
  pagewise tables head-first --table 9.1 --threads 2";

/// A table's experiment.
#[derive(Debug)]
struct Experiment {
    number: &'static str,
    make: Make,
}

/// How a table is made.
#[derive(Clone, Copy, Debug)]
enum Make {
    /// From a few requests.
    Walk(fn() -> anyhow::Result<Table>),
    /// From runs shared by several tables.
    FromRuns(fn(&random::Runs) -> Table),
    /// By counting items visited.
    Metered(fn(Options) -> anyhow::Result<Table>),
    /// From runs in which deallocations are not held back.
    InOrder(fn(&random::Runs) -> Table),
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment { number: "1", make: Make::Walk(walks::table_1) },
    Experiment { number: "2", make: Make::Walk(walks::table_2) },
    Experiment { number: "3", make: Make::Walk(walks::table_3) },
    Experiment { number: "4", make: Make::Walk(walks::table_4) },
    Experiment { number: "5", make: Make::Walk(walks::table_5) },
    Experiment { number: "6", make: Make::Walk(walks::table_6) },
    Experiment { number: "7", make: Make::Walk(walks::table_7) },
    Experiment { number: "8", make: Make::FromRuns(random::table_8) },
    Experiment { number: "9", make: Make::FromRuns(random::table_9) },
    Experiment { number: "9.1", make: Make::FromRuns(random::table_9_1) },
    Experiment { number: "9.2", make: Make::Metered(random::table_9_2) },
    Experiment { number: "9.3", make: Make::FromRuns(random::table_9_3) },
    Experiment { number: "9.4", make: Make::InOrder(random::table_9_4) },
    Experiment { number: "9.5", make: Make::Metered(random::table_9_5) },
    Experiment { number: "9.6", make: Make::Metered(random::table_9_6) },
];

#[derive(Debug)]
struct HeadFirst;

impl Paper for HeadFirst {
    fn numbers() -> Vec<&'static str> {
        EXPERIMENTS.iter().map(|experiment| experiment.number).collect()
    }
}

/// Runs the subcommand.
///
/// # Errors
/// If a heap runs out of memory.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let experiment = |number| EXPERIMENTS.iter().find(|one| one.number == number);
    let chosen: Vec<_> = args.asked.tables().into_iter().filter_map(experiment).collect();
    let Random { quick, seed } = args.random;
    let scale = if quick { 8 } else { 1 };
    let options = Options { scale, seed, threads: args.threads as usize };
    let mut printer = Printer::new(args.asked.json);
    let Options { threads, .. } = options;
    printer.say(&format!(
        "Hakarsa 2024, published figures beside ours; seed {seed}, {threads} threads"
    ))?;
    if quick {
        printer.say("--quick: an eighth of requests and memory, figures are inaccurate")?;
    }
    let (mut held_back, mut in_order) = (None, None);
    for experiment in chosen {
        let table = match experiment.make {
            Make::Walk(make) => make(),
            Make::FromRuns(make) => Ok(make(
                held_back
                    .get_or_insert_with(|| random::Runs::new(script::Order::HeldBack, options)),
            )),
            Make::InOrder(make) => Ok(make(
                in_order.get_or_insert_with(|| random::Runs::new(script::Order::AsDrawn, options)),
            )),
            Make::Metered(make) => make(options),
        };
        printer.table(&table.with_context(|| format!("table {}", experiment.number))?)?;
    }
    printer.finish()
}
