//! Compares every strategy over traces.

use std::path::PathBuf;
use std::process::ExitCode;

/// Compares every strategy over traces.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Traces to compare over; none: the bundled ones.
    #[arg(value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) options: Options,
}

/// What is compared, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// A trace to compare over; may be given more than once.
    #[arg(long = "trace", value_name = "FILE")]
    trace: Vec<PathBuf>,
}

/// Runs the subcommand.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let traces = args.traces.iter().chain(&args.options.trace);
    anyhow::bail!("no strategies to compare {} traces over", traces.count())
}
