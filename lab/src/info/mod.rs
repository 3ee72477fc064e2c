//! Tells what is in a trace: where it comes from, and what the program asked for.

mod histogram;
mod markdown;
mod print;
mod statistics;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pagewise::trace::Header;
use serde::Serialize;

use self::statistics::Collector;
pub(crate) use self::statistics::{Split, Statistics};
use crate::units::thousands;
use crate::{input, output};

/// Tell what is in a trace: program, statistics, histograms
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Traces; `-` is standard input
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// Print a JSON array, one object per trace
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the three tables over all traces in Markdown
    #[arg(long)]
    markdown: bool,
}

const HELP: &str = "\
Examples:
  pagewise info gawk.pwt
  pagewise info --markdown traces/*.pwt

The statistics are those of Hasan & Chang (2006), Tables 1, 3 and 4. \"Allocated\" bytes are the
requested ones and eight more for header and trailer, rounded up to a multiple of eight, at least 16.
Small are blocks of up to 1 KiB so counted, large the others. %SS is the memory that a segregated
storage allocator would need that never uses a block for another size, in percent of the most bytes
allocated at one time. A reallocation counts in bytes and sizes as a request of its new size; it is
not counted among the allocations.
Lifetimes are counted in events of the trace. The lines of bars follow the program from beginning to
end, in equal parts of the trace; the highest bar is for the figure beside it.";

/// A trace and what is in it.
#[derive(Debug, Serialize)]
pub(crate) struct Info {
    /// The file's name without its extension.
    pub(crate) trace: String,
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
    /// When it was recorded, RFC 3339; null if unknown.
    pub(crate) date: Option<String>,
    pub(crate) note: String,
    pub(crate) pointer_width: u8,
    pub(crate) threads: u32,
    pub(crate) events: u64,
    /// Events of the recording of which these are the first.
    pub(crate) recorded_events: u64,
    #[serde(flatten)]
    pub(crate) statistics: Statistics,
}

impl Info {
    /// That the trace is only the beginning of a recording, if it is.
    pub(crate) fn part(&self) -> Option<String> {
        match self.recorded_events {
            Header::UNKNOWN => Some("the first of an unknown number: the recording was cut".into()),
            all if all > self.events => Some(format!("the first of {} recorded", thousands(all))),
            _ => None,
        }
    }

    /// Reads a trace through.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn of(path: &Path) -> anyhow::Result<Self> {
        let mut reader = input::open(path)?.with_progress();
        let mut collector = Collector::new(reader.header().events);
        let blocks = reader.header().peak_blocks;
        for event in &mut reader {
            if collector.enter(event?) {
                input::within_memory_of(path, blocks, collector.sizes())?;
            }
        }
        let Header { origin, events, recorded_events, threads, .. } = reader.header().clone();
        Ok(Self {
            trace: input::trace_name(path),
            program: origin.program,
            arguments: origin.arguments,
            date: date(origin.date),
            note: origin.note,
            pointer_width: origin.pointer_width,
            threads,
            events,
            recorded_events,
            statistics: collector.finish(),
        })
    }
}

/// Seconds since 1970 as a date, if it is known and makes sense.
fn date(seconds: u64) -> Option<String> {
    // What lies behind the year 9999 has no such form.
    (1..253_402_300_800).contains(&seconds).then(|| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        humantime::format_rfc3339_seconds(time).to_string()
    })
}

/// What the program asked for whose trace this is.
///
/// # Errors
/// A trace that cannot be read.
pub(crate) fn statistics(path: &Path) -> anyhow::Result<Statistics> {
    Ok(Info::of(path)?.statistics)
}

/// Runs the subcommand.
///
/// # Errors
/// A trace that cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let traces = input::settle(&args.traces)?;
    let traces = traces.iter().map(|path| Info::of(path));
    let traces = traces.collect::<anyhow::Result<Vec<_>>>()?;
    if args.json {
        output::print_json(&traces)?;
    } else if args.markdown {
        output::print(&markdown::tables(&traces))?;
    } else {
        let texts: Vec<_> = traces.iter().map(print::text).collect();
        output::print(&texts.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_if_known() {
        assert_eq!(date(0), None);
        assert_eq!(date(86_400).as_deref(), Some("1970-01-02T00:00:00Z"));
        assert_eq!(date(u64::MAX), None);
    }
}
