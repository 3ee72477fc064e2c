//! Runs an ignored test of the calling test program in a process of its own, with a time limit: a
//! deadlock is a failure then, and does not hold up the tests.

#![allow(dead_code, reason = "each test program uses what it needs of this")]

pub(crate) mod sandbox;

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The longest a child may take. On an idle machine none needs more than a few seconds.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// How a child ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs an ignored test in a process of its own; it must pass.
pub(crate) fn passes(test: &str) {
    passes_when(test, |_| {});
}

/// As [`passes`], in a process that `prepare` has seen to.
pub(crate) fn passes_when(test: &str, prepare: impl FnOnce(&mut Command)) {
    let Ended { code, signal, out, err } = run(test, prepare);
    let passed = code == Some(0) && out.contains("1 passed");
    assert!(passed, "{test}: code {code:?}, signal {signal:?}\n{out}{err}");
}

/// Runs an ignored test that must abort its process with one line on standard error that begins so.
pub(crate) fn aborts(test: &str, message: &str) {
    let Ended { signal, out, err, .. } = run(test, |_| {});
    assert_eq!(signal, Some(libc::SIGABRT), "{test}: {out}{err}");
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

/// Runs a command to its end, and kills it after [`LIMIT`].
pub(crate) fn finish(command: &mut Command, name: &str) -> Ended {
    // A group of its own: what the child leaves behind ends with it.
    let command = command.process_group(0).stdin(Stdio::null());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the child starts");
    let out = reader(child.stdout.take());
    let err = reader(child.stderr.take());
    let status = wait(&mut child, name);
    let group = i32::try_from(child.id()).expect("a process has a number");
    // SAFETY: the signal goes to what was started here alone.
    unsafe { libc::killpg(group, libc::SIGKILL) };
    let text = |reader: thread::JoinHandle<String>| reader.join().expect("its output was read");
    Ended { code: status.code(), signal: status.signal(), out: text(out), err: text(err) }
}

/// Reads all of a child's output, so that a full pipe does not stop it.
fn reader(from: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.expect("it is a pipe").read_to_end(&mut bytes).expect("the pipe can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

pub(crate) fn wait(child: &mut Child, name: &str) -> std::process::ExitStatus {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait().expect("the child can be waited for") {
            return status;
        }
        if Instant::now() > end {
            let group = i32::try_from(child.id()).expect("a process has a number");
            // SAFETY: the signal goes to what was started here alone.
            unsafe { libc::killpg(group, libc::SIGKILL) };
            let _ = child.wait();
            panic!("{name} did not end within {LIMIT:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}
