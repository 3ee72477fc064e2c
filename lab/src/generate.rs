//! Generates a trace from a distribution of sizes.

use std::process::ExitCode;

/// Generates a trace from a distribution of sizes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the subcommand.
pub(crate) fn run(_: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("generate is not built into this version")
}
