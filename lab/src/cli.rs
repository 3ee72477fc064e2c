//! The command line: which subcommands there are. Each subcommand's arguments stand in its module.

use clap::{Parser, Subcommand};
use pagewise_replay::input;

use crate::{
    child, compare, generate, import, info, manual, record, replay, report, simulate, strategies,
    tune, who,
};

/// Record a program's allocations, replay them under every strategy, and compare.
///
/// Without a command: `compare` over the bundled traces.
#[derive(Debug, Parser)]
#[command(
    name = "pagewise",
    version,
    args_conflicts_with_subcommands = true,
    after_help = EXAMPLES,
    max_term_width = 80,
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) compare: compare::Options,
    #[command(flatten)]
    pub(crate) limits: input::Limits,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Compare(compare::Args),
    Replay(replay::Args),
    Info(info::Args),
    Record(record::Args),
    Import(import::Args),
    Generate(generate::Args),
    Simulate(simulate::Args),
    Strategies(strategies::Args),
    Report(report::Args),
    Tune(tune::Args),
    Who(who::Args),
    Tables(pagewise_papers::Args),
    Man(manual::ManArgs),
    Completions(manual::CompletionsArgs),
    #[command(hide = true)]
    Alone(child::Args),
}

const EXAMPLES: &str = "\
Examples:
  pagewise                   the allocators that users choose among, compared
  pagewise record -o gawk.pwt -- gawk '{ n[$1]++ } END { print length(n) }' words.txt
  pagewise info gawk.pwt     what the program asked for
  pagewise who gawk.pwt      who allocated it, if recorded with --stacks
  pagewise compare gawk.pwt  every strategy over that trace
  pagewise strategies        which there are, family by family
  pagewise replay gawk.pwt --strategy MOST-FREE --audit
  pagewise simulate gawk.pwt --plot gawk.svg
      page faults in memory of any size
  pagewise report gawk.pwt -o gawk.html
      all of that, as a page to look at
  pagewise tune gawk.pwt --for memory --preload settings of libpagewise.so, and what they gain
  pagewise tune gawk.pwt --for memory --global
      the same for a program in Rust: a Tuning to paste
  pagewise generate --distribution cambridg-like --seconds 300 -o cambridg.pwt

`pagewise COMMAND --help` tells more about each.";
