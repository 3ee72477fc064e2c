//! Records a program run.

use std::process::ExitCode;

/// Records a program run.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the subcommand.
pub(crate) fn run(_: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("record is not built into this version")
}
