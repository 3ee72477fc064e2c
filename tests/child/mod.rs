//! Runs an ignored test of the calling test program in a process of its own, with a time limit: a
//! deadlock is a failure then, and does not hold up the tests.

#![allow(dead_code, reason = "each test program uses what it needs of this")]

pub(crate) mod memory;
pub(crate) mod process;
#[cfg(target_os = "linux")]
pub(crate) mod sandbox;

use std::process::{Command, Stdio};
use std::time::Duration;

pub(crate) use process::Ended;

/// The longest a child may take. On an idle machine none needs more than a few seconds; on a busy one some took
/// half a minute.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// Windows' ERROR_INTERNAL_ERROR.
const INTERNAL: i32 = 1359;

/// Runs an ignored test in a process of its own; it must pass.
pub(crate) fn passes(test: &str) {
    passes_when(test, |_| {});
}

/// Like [`passes`], for a test that asks which OS pages take memory.
pub(crate) fn passes_without_huge_pages(test: &str) {
    passes_when(test, process::without_huge_pages);
}

/// Like [`passes`], in a process that `prepare` has seen to.
pub(crate) fn passes_when(test: &str, prepare: impl FnOnce(&mut Command)) {
    let Ended { code, signal, out, err } = run(test, prepare);
    let passed = code == Some(0) && out.contains("1 passed");
    assert!(passed, "{test}: code {code:?}, signal {signal:?}\n{out}{err}");
}

/// Runs an ignored test that must abort its process with one line on standard error that begins so.
pub(crate) fn aborts(test: &str, message: &str) {
    let ended = run(test, |_| {});
    let Ended { code, signal, out, err } = &ended;
    assert!(ended.was_aborted(), "{test}: code {code:?}, signal {signal:?}\n{out}{err}");
    let lines = err.lines().filter(|line| line.starts_with("pagewise:"));
    assert!(lines.clone().count() == 1 && err.contains(message), "{test}: {err}");
}

/// Runs an ignored test in a process of its own to its end.
pub(crate) fn run(test: &str, prepare: impl FnOnce(&mut Command)) -> Ended {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command.args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    prepare(&mut command);
    finish(&mut command, test)
}

/// Runs a command to its end, which must come within [`LIMIT`].
pub(crate) fn finish(command: &mut Command, name: &str) -> Ended {
    let command = command.stdin(Stdio::null()).stderr(Stdio::piped());
    let mut tries = 0;
    let ended = loop {
        match process::run(command, LIMIT) {
            // Beside others, wine fails now and then to start a program.
            Err(error) if cfg!(windows) && error.raw_os_error() == Some(INTERNAL) && tries < 10 => {
                tries += 1;
                std::thread::sleep(Duration::from_millis(200));
            }
            ended => break ended.expect("the child starts"),
        }
    };
    ended.unwrap_or_else(|| panic!("{name} did not end within {LIMIT:?}"))
}
