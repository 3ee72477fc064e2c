//! `pagewise record`: runs a command under the recorder and writes the trace of what it allocated.
//!
//! ```text
//!  command ─► session: run it, LD_PRELOAD = the recorder, logs to a temporary directory
//!          ─► logs:    one per process image; convert, count, choose
//!          ─► trace
//! ```
//! The command's input and output pass straight through, signals reach it, and its exit status is
//! passed on. Everything pagewise says it says on stderr, after the command has ended.

pub(crate) mod logs;
mod recorder;
mod session;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;

use crate::error::Usage;
use crate::units;
use logs::{Limits, Log};
use session::Session;

/// Run a command and record what it allocates.
///
/// Every process the command starts is recorded, also through fork and exec; the one that
/// allocates most is written. Statically linked and setuid programs cannot be recorded.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The trace to write [default: PROGRAM.pwt].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the process of this name that allocates most.
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
    /// Write every process, in the order they started, to FILE.1.pwt, FILE.2.pwt, …
    #[arg(long)]
    all: bool,
    /// Keep only the first N events. The header will say so.
    #[arg(long, value_name = "N")]
    max_events: Option<u64>,
    /// Keep only as many of the first events as fit in a file of that size. The header will say
    /// so.
    #[arg(long, value_name = "BYTES", value_parser = units::parse_bytes)]
    max_bytes: Option<usize>,
    /// A text for the header: what the input was, say.
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const HELP: &str = "\
Examples:
  pagewise record -- gawk '{ n[$1]++ } END { print length(n) }' words.txt    to gawk.pwt
  pagewise record -o build.pwt --program rustc -- cargo build
  pagewise record --max-bytes 2M --note 'the first page' -o gs.pwt -- gs -q paper.ps
  pagewise compare gawk.pwt                                                  what to do next";

/// Runs the subcommand. The exit status is the command's, or an error's of our own.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    check_writable(args.output.as_deref())?;
    let session = Session::new()?;
    let end = session.run(&args.command)?;
    let logs = logs::survey(session.directory())?;
    if logs.is_empty() {
        anyhow::bail!(
            "{} left no recording ({end}): is it statically linked, setuid, or allocating nothing?",
            Path::new(&args.command[0]).display()
        );
    }
    if logs.len() > 1 {
        eprintln!("{}", logs::table(&logs));
    }
    let limits =
        Limits { events: args.max_events, bytes: args.max_bytes.map(|bytes| bytes as u64) };
    for (log, path) in chosen(&logs, args)? {
        let header = log.write(&path, &args.note, limits)?;
        eprintln!("pagewise: {}", log.told(&header, &path));
    }
    if !end.success() {
        eprintln!("pagewise: {} {end}", Path::new(&args.command[0]).display());
    }
    Ok(end.code())
}

/// The logs to write, each with its file.
fn chosen<'l>(logs: &'l [Log], args: &Args) -> anyhow::Result<Vec<(&'l Log, PathBuf)>> {
    let wanted = |log: &&Log| args.program.as_ref().is_none_or(|name| log.program() == name);
    let candidates: Vec<&Log> = logs.iter().filter(wanted).collect();
    // Of equals the first.
    let Some(&most) = candidates.iter().rev().max_by_key(|log| log.events()) else {
        let mut names: Vec<_> = logs.iter().map(Log::program).collect();
        names.sort_unstable();
        names.dedup();
        let name = args.program.as_deref().unwrap_or_default();
        return Err(Usage(format!(
            "no process called '{name}' was recorded, only {}",
            names.join(", ")
        ))
        .into());
    };
    let path = args.output.clone().unwrap_or_else(|| match most.program() {
        "" => PathBuf::from("unnamed.pwt"),
        name => PathBuf::from(format!("{name}.pwt")),
    });
    if !args.all {
        return Ok(vec![(most, path)]);
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = |number: usize| path.with_file_name(format!("{stem}.{number}.pwt"));
    Ok(candidates.into_iter().zip((1..).map(numbered)).collect())
}

/// Fails now rather than after a long run if the trace could not be written.
fn check_writable(output: Option<&Path>) -> anyhow::Result<()> {
    let path = output.unwrap_or(Path::new("."));
    let unwritable = || format!("{} cannot be written", path.display());
    if output.is_some_and(Path::is_dir) {
        anyhow::bail!("{} cannot be written: it is a directory", path.display());
    }
    let directory = match (output, path.parent()) {
        (Some(_), Some(parent)) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    tempfile::tempfile_in(directory).map(drop).with_context(unwritable)
}
