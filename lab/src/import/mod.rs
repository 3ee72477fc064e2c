//! `pagewise import`: converts other tools' recordings to traces.

mod rep;

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use pagewise::trace::raw::LogReader;
use pagewise::trace::{Header, Origin, Reader, Reason, Writer};
use pagewise_replay::input::Opened;
use pagewise_replay::progress::Progress;
use pagewise_replay::{input, output, units};

use crate::record::logs::{Limits, Log};
use rep::Most;

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
    output::claim([&*args.input], [&*args.output])?;
    let opened = Opened::new(&args.input)?;
    let name = opened.name().to_owned();
    let format = args.format.map_or_else(|| detect(opened.start()), Ok);
    let format = format.map_err(|problem| anyhow::anyhow!("{name}: {problem}"))?;
    let said = match format {
        Format::Rep => import_rep(args, opened)?,
        Format::Raw => {
            // What is no log is not copied.
            LogReader::new(opened.start())
                .err()
                .filter(|error| matches!(error.reason(), Reason::NotALog))
                .map_or(Ok(()), |error| Err(error.in_file(Path::new(&name))))?;
            import_raw(args, opened.rereadable()?)?
        }
    };
    output::say(&format!("pagewise: {said}"));
    Ok(ExitCode::SUCCESS)
}

/// Detects the format from the first bytes.
fn detect(start: &[u8]) -> Result<Format, &'static str> {
    match LogReader::new(start) {
        // A log with a fault keeps its format, so that the fault is named.
        Err(error) if matches!(error.reason(), Reason::NotALog) => {}
        _ => return Ok(Format::Raw),
    }
    match Reader::new(start) {
        Err(error) if matches!(error.reason(), Reason::NotATrace) => {}
        _ => return Err("already a pagewise trace"),
    }
    let text = start.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    let mut visible = start.iter().filter(|byte| !byte.is_ascii_whitespace());
    match visible.next() {
        Some(b'0'..=b'9' | b'a' | b'r' | b'f') if text => Ok(Format::Rep),
        _ => Err("neither a malloc lab file nor a raw log (--format sets the format)"),
    }
}

fn import_rep(args: &Args, opened: Opened) -> anyhow::Result<String> {
    let shown = opened.name().to_owned();
    let name = input::trace_name(Path::new(&shown));
    let note = match args.note.as_str() {
        "" if args.input == Path::new(input::STANDARD) => {
            "imported from a malloc lab file".to_owned()
        }
        "" => format!("imported from the malloc lab file {}", input::file_name(&args.input)),
        note => note.to_owned(),
    };
    let origin = Origin { program: name, note, ..Origin::default() };
    let (header, remark): (Header, Option<String>) = output::create(&args.output, |out| {
        let mut writer = Writer::new(out, origin)?;
        let most = Most { blocks: input::most_blocks(), events: input::most_events() };
        let import = rep::import(BufReader::new(opened.into_reader()), most, |event| {
            Ok(writer.write(event)?)
        });
        // The reason begins with a line number of that file.
        let remark = import.map_err(|error| anyhow::anyhow!("{shown}:{error:#}"))?;
        Ok((writer.finish()?, remark))
    })?;
    let mut said = format!(
        "{shown}: {} to {}, at most {} and {} live",
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
