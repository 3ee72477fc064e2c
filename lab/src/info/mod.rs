//! Describes a trace: its origin, and what the program requested.

mod content;
mod markdown;
mod print;

use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) use self::content::Info;
use pagewise_replay::{input, output};

/// Summarise a trace: program, statistics, histograms
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

The statistics are those of Hasan & Chang (2006), Tables 1, 3 and 4. \"Allocated\"
bytes of a block are the requested bytes and eight for header and trailer,
rounded up to a multiple of eight, at least 16. A block of up to 1 KiB allocated
is small, a larger one large. %SS is the memory that segregated storage needs if
it never uses a block for another size, in percent of the peak of allocated
bytes. A reallocation counts in bytes and sizes as a request of its new size,
but not as an allocation. Lifetimes are counted in events of the trace. The
lines of bars show the program from beginning to end, in equal parts of the
trace; the highest bar stands for the figure beside it.";

/// Below everything.
const NEXT: &str = "\
Next: `pagewise compare` finds the best allocator, `pagewise report` plots it.";

/// Runs the subcommand.
///
/// # Errors
/// A trace that cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let traces = input::rereadable(&args.traces)?;
    let traces = traces.iter().map(|path| Info::of(path));
    let traces = traces.collect::<anyhow::Result<Vec<_>>>()?;
    if args.json {
        output::print_json(&traces)?;
    } else if args.markdown {
        output::print(&markdown::tables(&traces))?;
    } else {
        let texts: Vec<_> = traces.iter().map(print::text).collect();
        output::print(&texts.join("\n"))?;
        output::print_line(&format!("\n{NEXT}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
