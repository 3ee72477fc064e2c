//! One run of a program, and what it cost.
//!
//! ```text
//!  pagewise tune ──spawns──► pagewise cost ──spawns──► PROGRAM
//! ```
//! Linux counts what was resident in a process before its `exec` as part of its peak, and a process
//! is forked with all that is resident in its parent. A search may have hundreds of megabytes, so
//! the program is started by a small process: this program, run again with the hidden subcommand
//! `cost`.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Seek};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use pagewise_replay::output;
use serde::{Deserialize, Serialize};

use crate::child::{self, Addresses};

/// Environment variables and their values.
pub(super) type Variables = Vec<(OsString, OsString)>;

/// Runs a program, for the parent process.
#[derive(Debug, clap::Args)]
pub(crate) struct CostArgs {
    /// Environment variables, as NAME=VALUE.
    #[arg(long)]
    variable: Vec<OsString>,
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// What a run cost. Includes the processes that the program started and waited for; the peak is
/// that of the largest of them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Cost {
    /// As `wait` returns it.
    pub(super) status: i32,
    /// Processor time, user and system, in seconds.
    pub(super) processor: f64,
    /// Seconds from the start to the end.
    pub(super) elapsed: f64,
    /// Peak of the resident bytes.
    pub(super) peak: u64,
    /// Minor page faults.
    pub(super) faults: u64,
}

/// Runs the hidden subcommand: prints the cost as a line of JSON.
///
/// # Errors
/// If the program cannot be run.
pub(crate) fn cost(args: &CostArgs) -> anyhow::Result<ExitCode> {
    let (program, arguments) = args.command.split_first().context("no program")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    for variable in &args.variable {
        let (name, value) = split(variable).context("a variable without a value")?;
        command.env(name, value);
    }
    child::prepare(&mut command, Addresses::Random);
    let started = Instant::now();
    let running = command
        .spawn()
        .with_context(|| format!("{} cannot be run", Path::new(program).display()))?;
    let mut status = 0;
    // SAFETY: all-zero bits are a valid value; the child is ours, and waited for here only.
    let (waited, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(running.id() as libc::pid_t, &raw mut status, 0, &raw mut usage), usage)
    };
    if waited < 0 {
        return Err(std::io::Error::last_os_error()).context("waiting for the program");
    }
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    let cost = Cost {
        status,
        processor: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        elapsed: started.elapsed().as_secs_f64(),
        peak: (usage.ru_maxrss as u64) << 10,
        faults: usage.ru_minflt as u64,
    };
    output::print_line(&serde_json::to_string(&cost)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Splits `NAME=VALUE`.
fn split(variable: &OsStr) -> Option<(&OsStr, &OsStr)> {
    let bytes = variable.as_bytes();
    let at = bytes.iter().position(|&byte| byte == b'=')?;
    Some((OsStr::from_bytes(&bytes[..at]), OsStr::from_bytes(&bytes[at + 1..])))
}

/// Runs the program once with these variables, and returns what it cost. It reads nothing, and its
/// output is discarded.
///
/// # Errors
/// If it cannot be run, or does not end with status 0.
pub(super) fn once(
    command: &[OsString],
    variables: &[(OsString, OsString)],
) -> anyhow::Result<Cost> {
    let myself =
        std::env::current_exe().context("the path of this program's executable is unknown")?;
    let mut helper = Command::new(myself);
    helper.arg("cost");
    for (name, value) in variables {
        let variable = [name.as_bytes(), b"=", value.as_bytes()].concat();
        helper.arg("--variable").arg(OsString::from_vec(variable));
    }
    helper.arg("--").args(command).stdin(Stdio::null());
    child::leave_out_settings(&mut helper);
    child::prepare(&mut helper, Addresses::Random);
    // A file, since a process that outlives the program would keep a pipe open.
    let mut messages = tempfile::tempfile().context("cannot make a temporary file")?;
    helper.stderr(messages.try_clone()?);
    let output = helper.output().context("cannot start a process to measure the program")?;
    messages.rewind()?;
    let mut said = Vec::new();
    messages.take(MOST_SAID).read_to_end(&mut said)?;
    let said = String::from_utf8_lossy(&said);
    let last = said.trim().lines().last().unwrap_or_default();
    if !output.status.success() {
        bail!("{}", last.trim_start_matches("pagewise: "));
    }
    let cost: Cost = serde_json::from_slice(&output.stdout)
        .context("the cost of the program's run is unreadable")?;
    let status = ExitStatus::from_raw(cost.status);
    if !status.success() {
        let name = Path::new(&command[0]).display();
        bail!("{name} failed ({status}){}{last}", if last.is_empty() { "" } else { ": " });
    }
    Ok(cost)
}

/// Most bytes of a program's messages that are read.
const MOST_SAID: u64 = 1 << 20;
