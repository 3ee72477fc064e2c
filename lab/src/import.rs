//! Imports a trace from the malloc lab text format.

use std::process::ExitCode;

/// Imports a trace from the malloc lab text format.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the subcommand.
pub(crate) fn run(_: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("import is not built into this version")
}
