//! Runs the programs for Windows under wine.

use std::env;
use std::path::Path;
use std::process::Command;

/// The target that wine runs.
pub(crate) const TARGET: &str = "x86_64-pc-windows-gnu";

/// Seconds that a workload may take.
pub(crate) const LIMIT: &str = "60";

/// Exit status of `timeout` after it has killed a command.
pub(crate) const TIMED_OUT: i32 = 124;

/// The wine folder, shared with `tests/targets.sh windows`.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/wine");

/// Sets up wine's folder and starts its server, unless another folder is given. Otherwise the first
/// measured program would do that during its work, and print.
pub(crate) fn set_up() -> Result<(), String> {
    if env::var_os("WINEPREFIX").is_some() {
        return Ok(());
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/windows/prefix.sh");
    let output = Command::new(script).arg(FOLDER).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(())
}

/// Returns a command that runs the program, under wine if it has an extension, which means Windows.
pub(crate) fn command(program: &Path) -> Command {
    if program.extension().is_none() {
        return Command::new(program);
    }
    let mut command = Command::new("timeout");
    command.args([LIMIT, "wine"]).arg(program).env("WINEDEBUG", "-all");
    if env::var_os("WINEPREFIX").is_none() {
        command.env("WINEPREFIX", FOLDER);
    }
    command
}

/// Workloads are divided by this under wine, whose heap searches linearly when many blocks are
/// free.
pub(crate) fn parts(workload: &str) -> usize {
    match workload {
        "churn 100k" | "churn 1M" => 20,
        _ => 4,
    }
}

/// Returns the nanoseconds of CPU time of all child processes that were waited for.
#[cfg(unix)]
pub(crate) fn children_time() -> f64 {
    // SAFETY: all bits zero is a valid value, and the call writes one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let nanoseconds = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3;
    nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime)
}

/// Not available here.
#[cfg(not(unix))]
pub(crate) fn children_time() -> f64 {
    0.0
}

/// Returns the nanoseconds of CPU time of a run without a workload.
pub(crate) fn alone(program: &Path) -> f64 {
    let times = (0..5).map(|_| {
        let before = children_time();
        // Without arguments it fails, and lists the workloads.
        let _ = command(program).output();
        children_time() - before
    });
    times.fold(f64::INFINITY, f64::min)
}
