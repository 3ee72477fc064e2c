//! `pagewise import`: converts other tools' recordings to traces.

mod rep;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use pagewise::trace::raw;
use pagewise::trace::{Header, Origin, Reason, Writer};
use pagewise_replay::progress::Progress;
use pagewise_replay::{input, output, units};

use crate::record::logs::{Limits, Log};

/// Convert a malloc lab file (.rep), or the raw log of a program with `Recording`, to a trace.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The file to read; `-` is standard input.
    #[arg(value_name = "FILE")]
    input: PathBuf,
    /// The trace to write; `-` is standard output.
    #[arg(short, long, value_name = "OUT.pwt")]
    output: PathBuf,
    /// Format of FILE [default: detected from its content].
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Text for the trace's header.
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
}

const HELP: &str = "\
Examples:
  pagewise import amptjp-bal.rep -o amptjp.pwt
  pagewise import 4711.0.pwlog -o mine.pwt
      the raw log of a Rust program";

/// Input formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Text format of the malloc lab: `a id size`, `r id size`, `f id`.
    Rep,
    /// A recorder's raw log, PID.N.pwlog.
    Raw,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // Before a long log is read.
    output::check(&args.output)?;
    let path = input::rereadable_file(&args.input)?;
    let format = args.format.map_or_else(|| detect(&path), Ok)?;
    let said = match format {
        Format::Rep => import_rep(args, &path)?,
        Format::Raw => import_raw(args, path)?,
    };
    output::say(&format!("pagewise: {said}"));
    Ok(ExitCode::SUCCESS)
}

/// Detects the format from the first bytes.
fn detect(path: &Path) -> anyhow::Result<Format> {
    match raw::open(path) {
        // A log with a fault keeps its format, so that the fault is named.
        Err(error) if matches!(error.reason(), Reason::NotALog | Reason::Io(_)) => {}
        _ => return Ok(Format::Raw),
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(512).read_to_end(&mut start));
    read.with_context(|| input::shown(path))?;
    if pagewise::trace::open(path).is_ok() {
        anyhow::bail!("{}: already a pagewise trace", input::shown(path));
    }
    let text = start.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    let mut visible = start.iter().filter(|byte| !byte.is_ascii_whitespace());
    match visible.next() {
        Some(b'0'..=b'9' | b'a' | b'r' | b'f') if text => Ok(Format::Rep),
        _ => anyhow::bail!(
            "{}: neither a malloc lab file nor a raw log (--format sets the format)",
            input::shown(path)
        ),
    }
}

fn import_rep(args: &Args, path: &Path) -> anyhow::Result<String> {
    let file = File::open(path).with_context(|| input::shown(path))?;
    let name = input::trace_name(path);
    let note = match args.note.as_str() {
        "" => format!("imported from the malloc lab file {name}.rep"),
        note => note.to_owned(),
    };
    let origin = Origin { program: name, note, ..Origin::default() };
    let (header, remark): (Header, Option<String>) = output::create(&args.output, |out| {
        let mut writer = Writer::new(out, origin)?;
        let import = rep::import(BufReader::new(file), input::most_blocks(), |event| {
            Ok(writer.write(event)?)
        });
        // The reason begins with a line number of that file.
        let remark = import.map_err(|error| anyhow::anyhow!("{}:{error:#}", input::shown(path)))?;
        Ok((writer.finish()?, remark))
    })?;
    let mut said = format!(
        "{}: {} to {}, at most {} and {} live",
        input::shown(path),
        units::count(header.events, "event"),
        output::shown(&args.output),
        units::count(header.peak_blocks, "block"),
        units::bytes(header.peak_bytes),
    );
    if let Some(remark) = remark {
        said += &format!("; {remark}");
    }
    Ok(said)
}

fn import_raw(args: &Args, path: PathBuf) -> anyhow::Result<String> {
    let length = std::fs::metadata(&path).with_context(|| input::shown(&path))?.len();
    let progress = Progress::new(length);
    let log = Log::survey(path, &progress, Some(&args.note));
    progress.finish();
    let mut log = log?;
    let header = log.write(&args.output, &args.note, Limits { events: None, bytes: None })?;
    Ok(log.description(&header, &args.output))
}
