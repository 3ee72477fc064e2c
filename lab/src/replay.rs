//! Replays a trace once under one strategy.

use std::process::ExitCode;

/// Replays a trace once under one strategy.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the subcommand.
pub(crate) fn run(_: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("replay is not built into this version")
}
