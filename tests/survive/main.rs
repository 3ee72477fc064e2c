//! Conditions that a program's allocator has to survive. Each test runs this program again, with one
//! of the tests that are otherwise ignored, in a process of its own and with a time limit: a deadlock
//! is a failure, not a hang.

#![cfg(target_os = "linux")]

mod fork;
mod memory;

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pagewise::global::Pagewise;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();

/// How long a process may take. Those that do not hang take a second or two on an idle machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs an ignored test in a process of its own; it must pass before the time limit.
fn survives(test: &str) {
    survives_when(test, |_| {});
}

/// As [`survives`], in a process that `prepare` has seen to.
fn survives_when(test: &str, prepare: impl FnOnce(&mut Command)) {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command.args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    prepare(&mut command);
    // A group of its own, so that its children end with it.
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("this program can be run");
    let group = i32::try_from(child.id()).expect("a process has a number");
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("the process can be waited for") {
            break Some(status);
        }
        if start.elapsed() > LIMIT {
            break None;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    // SAFETY: the signal goes to the processes started above alone.
    unsafe { libc::killpg(group, libc::SIGKILL) };
    let _ = child.wait();
    let (mut out, mut err) = (String::new(), String::new());
    let _ = child.stdout.take().map(|mut pipe| pipe.read_to_string(&mut out));
    let _ = child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut err));
    let said = format!("{out}{err}");
    let status = status.unwrap_or_else(|| panic!("{test} hangs: {said}"));
    assert!(status.success() && out.contains("1 passed"), "{test}: {status}: {said}");
}
