//! The command line: the list of subcommands. Each subcommand's arguments are in its module.

use clap::{Args as _, Parser, Subcommand};
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
    // Whatever the file is called: `report_usage` looks for it.
    bin_name = "pagewise",
    version,
    args_conflicts_with_subcommands = true,
    after_help = EXAMPLES,
    max_term_width = 80,
    mut_subcommand("generate", without_limits),
    mut_subcommand("strategies", without_limits),
    mut_subcommand("man", without_limits),
    mut_subcommand("completions", without_limits),
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
    #[command(hide = true)]
    Cost(tune::CostArgs),
}

/// Hides the limits on traces in the help of a command that reads none. It takes them like others.
fn without_limits(command: clap::Command) -> clap::Command {
    let limits = input::Limits::augment_args(clap::Command::new(""));
    command.args(limits.get_arguments().map(|arg| arg.clone().hide(true)))
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

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Cli;

    /// Collects the lines below the help of a command and of its subcommands, with the command's
    /// name.
    fn below_the_help(command: &clap::Command, lines: &mut Vec<(String, String)>) {
        let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        lines.extend(text.lines().map(|line| (command.get_name().to_owned(), line.to_owned())));
        command.get_subcommands().for_each(|one| below_the_help(one, lines));
    }

    fn all_below_the_help() -> Vec<(String, String)> {
        let mut lines = Vec::new();
        below_the_help(&Cli::command(), &mut lines);
        lines
    }

    /// Returns an example's words as a shell has them, up to the next command, a redirection, or
    /// what it is about.
    fn words(example: &str) -> Vec<String> {
        let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
        for letter in example.trim_start().replace("$(pidof server)", "1").chars() {
            match letter {
                '\'' => quoted = !quoted,
                ' ' if !quoted && word.is_empty() => break,
                ' ' if !quoted => words.push(std::mem::take(&mut word)),
                ';' | '|' | '>' | '\\' if !quoted => break,
                letter => word.push(letter),
            }
        }
        words.extend((!word.is_empty()).then_some(word));
        words
    }

    #[test]
    fn every_example_is_a_command() {
        let mut examples = 0;
        for (name, line) in all_below_the_help() {
            if line.starts_with("  pagewise ") {
                let parsed = Cli::try_parse_from(words(&line));
                assert!(parsed.is_ok(), "{name}: {line}: {}", parsed.unwrap_err());
                examples += 1;
            }
        }
        assert!(examples > 40, "{examples} examples");
    }

    /// A longer line is broken to fit the terminal, and an example cannot be pasted then.
    #[test]
    fn examples_fit_80_columns() {
        for (name, line) in all_below_the_help() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
    }
}
