//! Runs a command to its end, with a time limit, in a process group of its own.

#![allow(dead_code, reason = "each program uses what it needs of this")]

use std::io::{self, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) out: String,
    /// Standard error, if it was piped.
    pub(crate) err: String,
}

/// Runs a command; `None` if it was not done within its time. What it leaves behind ends with it.
pub(crate) fn run(command: &mut Command, limit: Duration) -> io::Result<Option<Ended>> {
    let mut child = command.process_group(0).stdout(Stdio::piped()).spawn()?;
    let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = wait(&mut child, limit);
    let group = child.id().cast_signed();
    // SAFETY: the signal goes to what was started here alone.
    unsafe { libc::killpg(group, libc::SIGKILL) };
    let Some(status) = status else {
        child.wait()?;
        return Ok(None);
    };
    let text = |reader: JoinHandle<String>| reader.join().expect("its output was read");
    Ok(Some(Ended { code: status.code(), signal: status.signal(), out: text(out), err: text(err) }))
}

/// Reads all of a child's output, so that a full pipe does not stop it.
fn reader(from: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            from.read_to_end(&mut bytes).expect("the pipe can be read");
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for a child's end; `None` if it did not come within this time.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().expect("the child can be waited for") {
            return Some(status);
        }
        if Instant::now() > end {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}
