//! Processes of our own: this program, run again with a hidden subcommand that answers in one line
//! of JSON on stdout. Each has a heap of its own, as new as a program's at its start.

use std::process::Command;

use anyhow::{Context, bail};
use serde::de::DeserializeOwned;

use crate::input;

/// This program, to be run again with this subcommand and our limits on traces.
///
/// # Errors
/// If the program's own file is not known.
pub(crate) fn again(subcommand: &str) -> anyhow::Result<Command> {
    let myself = std::env::current_exe().context("this program's own file is not known")?;
    let mut command = Command::new(myself);
    command.arg(subcommand).args(input::Limits::options());
    Ok(command)
}

/// Runs it, and reads its answer. `who` it is that serves there stands in the errors.
///
/// # Errors
/// If the process cannot be run or fails, or its answer is none.
pub(crate) fn answer<T: DeserializeOwned>(command: &mut Command, who: &str) -> anyhow::Result<T> {
    let output = command.output().with_context(|| format!("{who} could not be run"))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message.trim().trim_start_matches("pagewise: ");
        bail!("{who} could not be run ({}): {message}", output.status);
    }
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("what the run of {who} said is unreadable"))
}

/// Has the kernel lay out the process's memory always alike, not at random, so that a heap lies the
/// same way in its pages and a run can be repeated.
pub(crate) fn fix_layout(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt;

        let fix = || {
            // SAFETY: the call changes how the next program of this process is laid out, no more.
            // Where it is forbidden the layout stays random.
            unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) };
            Ok(())
        };
        // SAFETY: between fork and exec the closure makes one system call; it takes no lock and no
        // memory.
        unsafe { command.pre_exec(fix) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}
