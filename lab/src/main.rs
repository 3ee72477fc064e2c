//! `pagewise`: records a program's allocations, replays them under every strategy, and compares.
//!
//! ```text
//!  record -- CMD ─┐
//!  import F.rep  ─┼─► trace (.pwt) ─► info      its contents
//!  generate      ─┘                ─► replay    one strategy, in detail
//!                                  ─► compare   every strategy, measured
//!                                  ─► simulate  every strategy's page faults
//!                                  ─► who       the allocating code, by call stacks
//!                                  ─► report    all of it, as an HTML page
//!                                  ─► tune      the best strategy and parameters, verified
//!  strategies     lists them           tables      the papers' tables, reproduced
//!  man            man pages            completions for a shell
//! ```
//! Every subcommand is a module with its arguments (`Args`) and a function `run`. Errors end here,
//! as one line on stderr: exit status 2 for an invalid command line, otherwise 1.
//!
//! Other packages: `pagewise_replay` reads and replays traces, simulates paging and prints;
//! `pagewise_papers` makes the papers' tables. The modules here that are not subcommands, in order
//! of dependency:
//!
//! | modules | what |
//! |---|---|
//! | `error` | how errors reach the user |
//! | `development` | the warning that a development build is not to measure with |
//! | `system` | calls of the operating system |
//! | `timeline`, `demand` | usage over a trace's time; a trace's requests, as the models take them |
//! | `touched`, `pareto` | OS pages touched; the Pareto front |
//! | `child`, `served` | replays in child processes; the allocators that serve them |
//! | `hc` | the tunable hybrid's parameters on the command line |
//! | `competitor` | the measured allocators, and their parameters |
//! | `lengths` | lengths of the live blocks |

mod cannot_run;
mod child;
mod cli;
mod compare;
mod competitor;
mod demand;
mod development;
mod error;
mod generate;
mod hc;
mod import;
mod info;
mod lengths;
mod manual;
mod pareto;
mod record;
mod replay;
mod report;
mod served;
mod simulate;
mod strategies;
mod system;
mod timeline;
mod touched;
mod tune;
mod who;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use cli::{Cli, Command};
use dlmalloc::GlobalDlmalloc;
use pagewise_replay::output;
use system::inherited;

/// The lab's own data use another allocator than the C library's, so that the C library's heap
/// serves only SYSTEM when that is measured.
#[global_allocator]
static GLOBAL: GlobalDlmalloc = GlobalDlmalloc;

fn main() -> ExitCode {
    default_sigpipe();
    if inherited::output_is_closed() {
        output::have_no_standard_output();
    }
    match Cli::try_parse() {
        Ok(cli) => run(cli).unwrap_or_else(|error| error::report(&error)),
        Err(usage) => error::report_usage(usage),
    }
}

/// The jobs that a child process can run.
const JOBS: [child::Served; 6] = [
    child::served::<served::Timed>(),
    child::served::<served::Metered>(),
    child::served::<served::Held>(),
    child::served::<simulate::Paged>(),
    child::served::<report::WatchedAlone>(),
    child::served::<lengths::Lengths>(),
];

/// Runs the chosen subcommand; without one, `compare` over the bundled traces.
fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    cli.limits.set();
    match cli.command {
        None => compare::run(&compare::Args { traces: Vec::new(), options: cli.compare }),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::Replay(args)) => replay::run(&args),
        Some(Command::Info(args)) => info::run(&args),
        Some(Command::Record(args)) => record::run(&args),
        Some(Command::Import(args)) => import::run(&args),
        Some(Command::Generate(args)) => generate::run(&args),
        Some(Command::Tables(args)) => pagewise_papers::run(&args),
        Some(Command::Strategies(args)) => strategies::run(&args),
        Some(Command::Simulate(args)) => simulate::run(&args),
        Some(Command::Report(args)) => report::run(&args),
        Some(Command::Tune(args)) => tune::run(&args),
        Some(Command::Who(args)) => who::run(&args),
        Some(Command::Man(args)) => manual::man(&args, &Cli::command()),
        Some(Command::Completions(args)) => manual::completions(&args, &Cli::command()),
        Some(Command::Alone(args)) => child::run(&args, &JOBS),
        Some(Command::Cost(args)) => tune::cost(&args),
    }
}

/// Lets a closed pipe end the process, as with any other tool: `pagewise compare | head`.
fn default_sigpipe() {
    // SAFETY: the default action is installed before any other thread exists, and runs no code of
    // ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
