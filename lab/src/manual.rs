//! Man pages and shell completions, generated from the same description as the help.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use pagewise_replay::output;

/// Write a man page for each command
#[derive(Debug, clap::Args)]
#[command(after_help = MAN)]
pub(crate) struct ManArgs {
    /// An existing folder to write them into: pagewise.1, pagewise-record.1 …
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

const MAN: &str = "\
Examples:
  pagewise man ~/.local/share/man/man1          then: man pagewise-record";

/// Write completions of the command line for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = COMPLETIONS)]
pub(crate) struct CompletionsArgs {
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

const COMPLETIONS: &str = "\
Examples:
  pagewise completions bash \\
    > ~/.local/share/bash-completion/completions/pagewise
  pagewise completions zsh > ~/.zfunc/_pagewise
  pagewise completions fish > ~/.config/fish/completions/pagewise.fish";

/// Returns the command line without its hidden parts.
fn shown(whole: &Command) -> Command {
    let hidden = |command: &&Command| !command.is_hide_set();
    let commands: Vec<_> = whole.get_subcommands().filter(hidden).cloned().collect();
    // clap cannot remove a subcommand, so the rest is assembled again.
    let mut shown = Command::new("pagewise").version(env!("CARGO_PKG_VERSION"));
    if let Some(about) = whole.get_long_about().or(whole.get_about()) {
        shown = shown.about(about.clone());
    }
    if let Some(help) = whole.get_after_help() {
        shown = shown.after_help(help.clone());
    }
    shown.args(whole.get_arguments().cloned()).subcommands(commands)
}

/// Writes the man pages.
///
/// # Errors
/// If one cannot be written.
pub(crate) fn man(args: &ManArgs, whole: &Command) -> anyhow::Result<ExitCode> {
    let mut whole = shown(whole);
    whole.build();
    let commands = whole.get_subcommands().filter(|one| one.get_name() != "help");
    for command in [&whole].into_iter().chain(commands) {
        let name = command.get_display_name().unwrap_or_else(|| command.get_name());
        let path = args.folder.join(format!("{name}.1"));
        let page = page(command.clone())?;
        output::create(&path, |out| Ok(out.write_all(&page)?))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the page of one command.
fn page(command: Command) -> std::io::Result<Vec<u8>> {
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut page = Vec::new();
    let has_commands = command.has_subcommands();
    let synopsis = synopsis(&command).into_bytes();
    let man = Man::new(command)
        .manual("pagewise")
        .source(concat!("pagewise ", env!("CARGO_PKG_VERSION")));
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    page.extend(synopsis);
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    page.extend(as_written(&notes).into_bytes());
    Ok(page)
}

/// Formats the section of the command line: each argument with its values, the required ones last,
/// before those behind `--`.
/// clap leaves the values out. An option is not hyphenated.
fn synopsis(command: &Command) -> String {
    let visible = command.get_arguments().filter(|one| !one.is_hide_set());
    let mut arguments: Vec<&Arg> = visible.collect();
    arguments.sort_by_key(|one| (one.is_positional(), one.is_last_set(), one.is_required_set()));
    let words = arguments.into_iter().map(|argument| {
        // As in the help: `--seed <N>`, `<TRACE>...`.
        let text = argument.to_string();
        if argument.is_last_set() {
            return escaped(&format!("[-- {}]", text.replace(['[', ']'], "")));
        }
        let short = argument.get_short().filter(|_| argument.get_long().is_some());
        let text = short.map_or(text.clone(), |short| format!("-{short}|{text}"));
        // A positional argument is in brackets or not by itself.
        let is_bare = argument.is_required_set() || argument.is_positional();
        escaped(&if is_bare { text } else { format!("[{text}]") })
    });
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let commands = command.has_subcommands().then(|| "[COMMAND]".to_owned());
    let words: Vec<_> = words.chain(commands).map(|word| word.replace(' ', "\\ ")).collect();
    format!(".SH SYNOPSIS\n.nh\n.ad l\n\\fB{}\\fR {}\n.ad b\n.hy\n", escaped(name), words.join(" "))
}

/// Formats notes as roff: an unindented line that ends with a colon is a heading; the lines below
/// stay as they are.
fn as_written(notes: &str) -> String {
    let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in notes.lines() {
        let heading = line.strip_suffix(':').filter(|_| !line.starts_with(' '));
        match (heading, sections.last_mut()) {
            (Some(heading), _) => sections.push((heading, Vec::new())),
            (None, Some((_, lines))) => lines.push(line),
            (None, None) => sections.push(("Notes", vec![line])),
        }
    }
    let section = |(heading, lines): (&str, Vec<&str>)| {
        let lines: Vec<_> = lines.into_iter().map(escaped).collect();
        let text = lines.join("\n");
        format!(".SH \"{}\"\n.nf\n{}\n.fi\n", escaped(&heading.to_uppercase()), text.trim_end())
    };
    sections.into_iter().map(section).collect()
}

/// Escapes what roff would interpret in a line.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line,
    }
}

/// Prints completions.
///
/// # Errors
/// If they cannot be written.
pub(crate) fn completions(args: &CompletionsArgs, whole: &Command) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut shown(whole), "pagewise", &mut text);
    output::print(&String::from_utf8(text)?)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn notes_are_sections_whose_lines_stay() {
        let roff = as_written("Examples:\n  a --b\n.c\n\nWhat is measured:\n  d \\ e\n");
        let expected = ".SH \"EXAMPLES\"\n.nf\n  a \\-\\-b\n\\&.c\n.fi\n\
                        .SH \"WHAT IS MEASURED\"\n.nf\n  d \\e e\n.fi\n";
        assert_eq!(roff, expected);
        assert!(as_written("text\n").starts_with(".SH \"NOTES\"\n.nf\ntext\n"));
    }

    #[test]
    fn every_visible_command_has_a_page() {
        let folder = tempfile::tempdir().expect("a folder");
        man(&ManArgs { folder: folder.path().to_owned() }, &Cli::command()).expect("written");
        let names = std::fs::read_dir(folder.path()).expect("a folder").flatten();
        let names: std::collections::BTreeSet<_> =
            names.map(|entry| entry.file_name().into_string().expect("text")).collect();
        let commands = Cli::command();
        for command in commands.get_subcommands() {
            let page = format!("pagewise-{}.1", command.get_name());
            assert_eq!(names.contains(&page), !command.is_hide_set(), "{page}");
        }
        assert!(names.contains("pagewise.1") && !names.contains("pagewise-help.1"));
        let tune = std::fs::read_to_string(folder.path().join("pagewise-tune.1")).expect("a page");
        for part in [".TH pagewise", ".SH \"EXAMPLES\"", "\\-\\-candidates", "pagewise tune"] {
            assert!(tune.contains(part), "{part}: {tune}");
        }
        for part in [
            "[\\-\\-candidates\\ <N>]",
            "\\-\\-for\\ <GOAL>",
            " <TRACE>... [\\-\\-\\ PROGRAM...]\n.ad b\n",
        ] {
            assert!(tune.contains(part), "{part}: {tune}");
        }
    }

    #[test]
    fn completions_list_every_visible_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut shown(&Cli::command()), "pagewise", &mut text);
            let text = String::from_utf8(text).expect("text");
            assert!(text.contains("compare") && text.contains("candidates"), "{shell}");
            assert!(!text.contains("alone"), "{shell}");
        }
    }
}
