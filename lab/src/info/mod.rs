//! Tells what is in a trace.

use std::process::ExitCode;

/// Tells what is in a trace.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the subcommand.
pub(crate) fn run(_: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("info is not built into this version")
}
