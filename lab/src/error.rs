//! How errors reach the user: one line on stderr, and an exit status. A command that a signal
//! interrupted ends by that signal.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use pagewise::trace::{ReadError, Reason};
use pagewise_replay::output;
use pagewise_replay::printable::printable;
use pagewise_replay::text::shell_word;
use pagewise_replay::usage::Usage;

use crate::cannot_run::CannotRun;
use crate::cli::Cli;
use crate::system::signals;

/// Exit status for an invalid command line, as in clap.
const USAGE: u8 = 2;

/// Prints an error with its causes on one line; returns the exit status for it.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let text = one_line(&format!("{error:#}"));
    let reason = error.downcast_ref::<ReadError>().map(ReadError::reason);
    let way_out = match reason {
        Some(Reason::NotATrace) => {
            "; `pagewise record` makes a trace, `pagewise import` converts a .rep file or a raw log"
        }
        _ => "",
    };
    output::say(&printable(&format!("pagewise: {text}{way_out}")));
    signals::end_if_interrupted();
    match error.downcast_ref::<CannotRun>() {
        Some(cannot) => cannot.status(),
        None if error.is::<Usage>() => ExitCode::from(USAGE),
        None => ExitCode::FAILURE,
    }
}

/// Prints clap's error about the command line on one line. Help and version, which clap also passes
/// as errors, go to stdout unchanged.
pub(crate) fn report_usage(mut error: clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match output::print(&error.render().to_string()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => report(&error),
        };
    }
    if let Some(trace) = file_without_command(&error) {
        let trace = shell_word(&trace);
        output::say(&printable(&format!(
            "pagewise: {trace} is a file, but a command is missing: `pagewise compare {trace}` \
             compares allocators over it, `pagewise info {trace}` summarises it"
        )));
        return ExitCode::from(USAGE);
    }
    forget_hidden_commands(&mut error);
    let rendered = error.render().to_string();
    let message = rendered.split("\nUsage: pagewise").next().unwrap_or_default();
    let words = std::env::args_os().skip(1);
    let command = subcommands(&Cli::command(), words.filter_map(|word| word.into_string().ok()));
    let message = match error.kind() {
        // Clap then has no complaint, but the help.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => "a command is missing".to_owned(),
        _ => one_line(message.strip_prefix("error: ").unwrap_or(message)),
    };
    let text = format!("pagewise: {message} (see `pagewise{command} --help`)");
    output::say(&printable(&text));
    ExitCode::from(USAGE)
}

/// Returns the file that stands where a command should.
fn file_without_command(error: &clap::Error) -> Option<String> {
    match error.get(ContextKind::InvalidSubcommand)? {
        ContextValue::String(word) if Path::new(word).is_file() => Some(word.clone()),
        _ => None,
    }
}

/// Takes the commands that only pagewise itself calls out of clap's suggestions.
fn forget_hidden_commands(error: &mut clap::Error) {
    let Some(ContextValue::Strings(mut names)) = error.remove(ContextKind::SuggestedSubcommand)
    else {
        return;
    };
    let cli = Cli::command();
    let hidden = |name: &str| cli.find_subcommand(name).is_some_and(clap::Command::is_hide_set);
    names.retain(|name| !hidden(name));
    if !names.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names));
    }
}

/// Returns the subcommand that a command line names, whose help has details, after a space.
fn subcommands(of: &clap::Command, words: impl Iterator<Item = String>) -> String {
    let (mut command, mut names) = (of, String::new());
    for word in words.take_while(|word| word != "--") {
        if let Some(found) = command.find_subcommand(word).filter(|one| !one.is_hide_set()) {
            names += &format!(" {}", found.get_name());
            command = found;
        }
    }
    names
}

/// Replaces line breaks, and the space around them, by "; ".
fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| {
        // Clap ends with a pointer to --help, which `report_usage` prints itself.
        !line.is_empty() && !line.starts_with("For more information")
    });
    lines.collect::<Vec<_>>().join("; ").replace(":; ", ": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_to_see_is_that_of_the_subcommand() {
        let named =
            |line: &str| subcommands(&Cli::command(), line.split_whitespace().map(str::to_owned));
        assert_eq!(named("tune --for speed --candidates 4 a.pwt"), " tune");
        assert_eq!(named("--memory 1G compare --repeat 0"), " compare");
        assert_eq!(named("tables nielsen --nosuch"), " tables nielsen");
        assert_eq!(named("record -- compare"), " record");
        assert_eq!(named("frobnicate --strategy"), "");
        assert_eq!(named("alone x"), "");
    }

    #[test]
    fn lines_are_joined() {
        assert_eq!(one_line("error\n\n  tip: x\n"), "error; tip: x");
        assert_eq!(one_line("not provided:\n  <TRACE>\n"), "not provided: <TRACE>");
    }
}
