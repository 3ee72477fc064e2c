//! The command line: the list of subcommands. Each subcommand's arguments are in its module.

use clap::{Parser, Subcommand};
use pagewise_replay::input;

use crate::{
    child, compare, generate, import, info, manual, record, replay, report, simulate, strategies,
    tune, who,
};

/// Record a program's allocations, replay them under every strategy, and compare.
///
/// Without a command, runs `compare` over the bundled traces.
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
  pagewise                   compare allocators over the bundled traces
  pagewise record -- gawk '{ n[$1]++ } END { print length(n) }' words.txt
      record a program: writes gawk.pwt
  pagewise info gawk.pwt     summarise the trace
  pagewise who gawk.pwt      functions that allocate, if recorded with --stacks
  pagewise compare gawk.pwt  compare allocators over that trace
  pagewise strategies        list the strategies by family
  pagewise replay gawk.pwt --strategy MOST-FREE --audit
  pagewise simulate gawk.pwt --plot gawk.svg
      page faults in memory of any size
  pagewise report gawk.pwt -o gawk.html
      an HTML page with charts of all of that
  pagewise tune gawk.pwt --for memory --preload
      find settings for libpagewise.so, and measure the gain
  pagewise tune gawk.pwt --for memory --global
      the same for a program in Rust: a Tuning to paste
  pagewise generate --distribution cambridg-like --seconds 300 -o cambridg.pwt

`pagewise COMMAND --help` explains each command.";
