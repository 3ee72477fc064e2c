//! `pagewise tables hasan`: Hasan & Chang (2006), "A tunable hybrid memory allocator", over the
//! bundled traces, including its own programs. `docs/hybrid.md` reports the results.

mod large;
mod peaks;
mod profile;
mod program;
mod published;
mod results;
mod tuning;

use std::process::ExitCode;

use anyhow::Context;
use pagewise_replay::progress::Progress;
use pagewise_replay::statistics;
use pagewise_replay::usage::Usage;
use pagewise_replay::workload::Workload;
use rayon::prelude::*;

use self::program::{Options, Program};
use self::published::PROGRAMS;
use crate::options::{Asked, Paper};
use crate::print::Printer;
use crate::recorded;
use crate::table::Table;

/// Hasan & Chang 2006: the tunable hybrid allocator beside Lea's and Kingsley's
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(flatten)]
    asked: Asked<Hasan>,
    /// Only this program, by the name of its trace; may be given more than once
    #[arg(long = "program", value_name = "TRACE", value_delimiter = ',')]
    programs: Vec<String>,
    /// A short search and few rounds, for a quick look
    #[arg(long)]
    quick: bool,
}

const HELP: &str = "\
Examples:
  pagewise tables hasan                              all tables, a few minutes
  pagewise tables hasan --table 1 --table 3 --table 5.5
  pagewise tables hasan --table 9 --program espresso-cps,p2c-mf

Tables 7 to 10 rest on a search: 256 settings of the allocator are tried on each
program, for the memory they hold (the same in every run) and for time (in
turns, alone on one CPU; times include the machine's noise). Four programs are
the paper's own on their own inputs, at the paper's word size; three stand for
others. Programs that are not in the paper follow, without published figures.";

/// The tables that need only the traces.
const PROFILED: [&str; 4] = ["1", "3", "4", profile::FIGURE_6];
/// Tables for one sentence each, ours: COALESCE_IN_FREE on made-up loads, and best fit for large
/// blocks.
const PEAKS: &str = "5.2";
const LARGE: &str = "5.5";
/// The tables based on the search; 5.8 has the figures of that section's prose, 8.1 is ours.
const SEARCHED: [&str; 6] = ["7", "8", "8.1", "9", "10", "5.8"];

#[derive(Debug)]
struct Hasan;

impl Paper for Hasan {
    fn numbers() -> Vec<&'static str> {
        [&PROFILED[..], &[PEAKS, LARGE], &SEARCHED].concat()
    }
}

/// Returns the requested programs: the paper's, or their stand-ins, in its order; then the others.
fn programs(asked: &[String]) -> anyhow::Result<Vec<Program>> {
    let programs = recorded::bundled()?.into_iter().map(Program::new);
    let mut programs: Vec<_> = programs.filter(Program::has_rows).collect();
    for name in asked {
        if !programs.iter().any(|program| program.trace.name == *name) {
            let names: Vec<_> = programs.iter().map(|program| &program.trace.name[..]).collect();
            let names = names.join(", ");
            return Err(Usage(format!("no bundled trace '{name}'; available: {names}")).into());
        }
    }
    programs.retain(|program| asked.is_empty() || asked.contains(&program.trace.name));
    let place = |program: &Program| {
        let theirs = program.published?.program;
        PROGRAMS.iter().position(|one| one.program == theirs)
    };
    programs.sort_by_key(|program| place(program).unwrap_or(PROGRAMS.len()));
    Ok(programs)
}

/// Runs the subcommand.
///
/// # Errors
/// An unknown program, a trace that cannot be read.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let chosen = args.asked.tables();
    let programs = programs(&args.programs)?;
    let options = Options { quick: args.quick };
    let wanted = |tables: &[&str]| chosen.iter().any(|number| tables.contains(number));
    let passes =
        [&PROFILED[..], &[LARGE], &SEARCHED].into_iter().filter(|of| wanted(of)).count() as u64;
    let progress = Progress::new(passes * programs.len() as u64);
    let mut printer = Printer::new(args.asked.json);
    printer.say("Hasan & Chang 2006, published figures beside ours")?;
    if args.quick {
        printer.say("--quick: a short search, few rounds")?;
    }
    let mut show = |table: Table| progress.above(|| printer.table(&table));
    if wanted(&PROFILED) {
        let profile = |program: &Program| {
            let statistics = statistics::of(&program.trace.path)?.1;
            progress.step(1, || format!("{}: statistics", program.trace.name));
            anyhow::Ok((program.clone(), statistics))
        };
        let profiles = programs.par_iter().map(profile).collect::<Result<Vec<_>, _>>()?;
        let mut tables = chosen.iter().filter_map(|number| profile::table(number, &profiles));
        tables.try_for_each(&mut show)?;
    }
    if wanted(&[PEAKS]) {
        show(peaks::table()?)?;
    }
    if wanted(&[LARGE]) {
        let measure = |program: &Program| {
            let workload = Workload::load(&program.trace.path)?;
            let held = large::measure(&workload, program.trace.words)
                .with_context(|| format!("the replay of {}", program.trace.name))?;
            progress.step(1, || format!("{}: large blocks", program.trace.name));
            anyhow::Ok((program.clone(), held))
        };
        let measured = programs.par_iter().map(measure).collect::<Result<Vec<_>, _>>()?;
        show(large::table(&measured))?;
    }
    if wanted(&SEARCHED) {
        let measure = |program: &Program| {
            let workload = Workload::load(&program.trace.path)?;
            let measured = results::measure(&workload, program.trace.words, options)
                .with_context(|| format!("the replay of {}", program.trace.name))?;
            progress.step(1, || format!("{}: settings tried", program.trace.name));
            anyhow::Ok((program.clone(), measured))
        };
        let measured = programs.iter().map(measure).collect::<Result<Vec<_>, _>>()?;
        let mut tables = chosen.iter().filter_map(|number| results::table(number, &measured));
        tables.try_for_each(&mut show)?;
    }
    progress.finish();
    printer.finish()
}
