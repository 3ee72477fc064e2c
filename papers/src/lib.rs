//! Reproduces the papers' tables, with the published figures beside ours, for `pagewise tables`.
//!
//! | modules, in order of dependency | what |
//! |---|---|
//! | `experiments` | the papers' experiments: programs, loads, memories |
//! | `table`, `verdict`, `print`, `plot` | a table with published figures beside ours, how close they are and where they miss the order, as text, JSON and a plot |
//! | `widened`, `recorded` | the bundled traces: programs with words half as wide, rows of papers by a trace's note |
//! | `options` | the options that papers share |
//! | `brent`, `nielsen`, `hasan`, `head_first`, `lazy` | the tables of each paper |

mod brent;
mod experiments;
mod hasan;
mod head_first;
mod lazy;
mod nielsen;
mod options;
mod plot;
mod print;
mod recorded;
mod table;
mod verdict;
mod widened;

use std::process::ExitCode;

/// Reproduce the papers' tables, with the published figures beside ours
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    paper: Paper,
}

#[derive(Debug, clap::Subcommand)]
enum Paper {
    Brent(brent::Args),
    Nielsen(nielsen::Args),
    Hasan(hasan::Args),
    HeadFirst(head_first::Args),
    Lazy(lazy::Args),
}

/// Runs the subcommand.
///
/// # Errors
/// Those of the paper's tables: an unknown table, a strategy that runs out of memory, a plot that
/// cannot be written.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.paper {
        Paper::Brent(args) => brent::run(args),
        Paper::Nielsen(args) => nielsen::run(args),
        Paper::Hasan(args) => hasan::run(args),
        Paper::HeadFirst(args) => head_first::run(args),
        Paper::Lazy(args) => lazy::run(args),
    }
}
