//! Runs an ignored test of the calling test program in its own process, with a time limit: a
//! deadlock fails the test instead of hanging the run.

#![allow(dead_code, reason = "each test program uses what it needs of this")]

#[cfg(unix)]
pub(crate) mod fork;
pub(crate) mod memory;
pub(crate) mod process;
#[cfg(target_os = "linux")]
pub(crate) mod sandbox;

use std::process::{Command, Stdio};
use std::time::Duration;

pub(crate) use process::Ended;

/// Time limit of a child. On an idle machine none needs more than a few seconds; on a busy one,
/// some need half a minute.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// Windows' ERROR_INTERNAL_ERROR.
const INTERNAL: i32 = 1359;

/// Runs an ignored test in its own process; it must pass.
pub(crate) fn passes(test: &str) {
    passes_when(test, |_| {});
}

/// Like [`passes`], for a test that checks which OS pages are resident.
pub(crate) fn passes_without_huge_pages(test: &str) {
    passes_when(test, process::without_huge_pages);
}

/// Like [`passes`], in a process set up by `prepare`.
pub(crate) fn passes_when(test: &str, prepare: impl FnOnce(&mut Command)) {
    let Ended { code, signal, out, err } = run(test, prepare);
    let passed = code == Some(0) && out.contains("1 passed");
    assert!(passed, "{test}: code {code:?}, signal {signal:?}\n{out}{err}");
}

/// Runs an ignored test that must abort with one line on standard error that begins with `message`.
pub(crate) fn aborts(test: &str, message: &str) {
    let ended = run(test, |_| {});
    let Ended { code, signal, out, err } = &ended;
    assert!(ended.was_aborted(), "{test}: code {code:?}, signal {signal:?}\n{out}{err}");
    let lines = err.lines().filter(|line| line.starts_with("pagewise:"));
    assert!(lines.clone().count() == 1 && err.contains(message), "{test}: {err}");
}

/// Runs an ignored test in its own process, and waits for its end.
pub(crate) fn run(test: &str, prepare: impl FnOnce(&mut Command)) -> Ended {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command.args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    prepare(&mut command);
    finish(&mut command, test)
}

/// Runs a command to its end; panics after [`LIMIT`].
pub(crate) fn finish(command: &mut Command, name: &str) -> Ended {
    let command = command.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut tries = 0;
    let ended = loop {
        match process::run(command, LIMIT) {
            // When other processes run, wine sometimes fails to start a program.
            Err(error) if cfg!(windows) && error.raw_os_error() == Some(INTERNAL) && tries < 10 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(200));
            }
            ended => break ended.expect("the child starts"),
        }
    };
    ended.unwrap_or_else(|| panic!("{name} did not end within {LIMIT:?}"))
}
