//! Runs a command to its end, with a time limit; on Unix in a process group of its own.

#![allow(dead_code, reason = "each program uses what it needs of this")]

use std::io::{self, Read};
#[cfg(unix)]
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

#[cfg(windows)]
use windows_sys::Win32::Foundation::{STATUS_ACCESS_VIOLATION, STATUS_STACK_BUFFER_OVERRUN};

/// How a command ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    /// The signal that ended it, on Unix.
    pub(crate) signal: Option<i32>,
    pub(crate) out: String,
    /// Standard error, if it was piped.
    pub(crate) err: String,
}

impl Ended {
    /// Returns whether it aborted, as the allocator does.
    pub(crate) fn was_aborted(&self) -> bool {
        #[cfg(unix)]
        return self.signal == Some(libc::SIGABRT);
        #[cfg(windows)]
        return self.code == Some(STATUS_STACK_BUFFER_OVERRUN);
    }

    /// Returns whether it was stopped by an access to inaccessible memory.
    pub(crate) fn touched_a_guard(&self) -> bool {
        #[cfg(unix)]
        return self.signal == Some(libc::SIGSEGV);
        #[cfg(windows)]
        return self.code == Some(STATUS_ACCESS_VIOLATION);
    }
}

/// Makes the program and its children use no huge pages, regardless of the system's setting: with
/// huge pages, touching one byte makes a whole huge page resident, bytes before the block included.
pub(crate) fn without_huge_pages(command: &mut Command) {
    #[cfg(target_os = "linux")]
    // SAFETY: `prctl` may be called between fork and exec, and touches no memory of ours.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
            Ok(())
        });
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// Runs a command; `None` if it did not end in time. On Unix, kills the processes that it leaves
/// behind.
pub(crate) fn run(command: &mut Command, limit: Duration) -> io::Result<Option<Ended>> {
    #[cfg(unix)]
    command.process_group(0);
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = wait(&mut child, limit);
    kill(&mut child);
    let Some(status) = status else {
        child.wait()?;
        return Ok(None);
    };
    #[cfg(unix)]
    let signal = status.signal();
    #[cfg(windows)]
    let signal = None;
    let text = |reader: JoinHandle<String>| reader.join().expect("its output was read");
    Ok(Some(Ended { code: status.code(), signal, out: text(out), err: text(err) }))
}

/// Kills a child; it may have ended already.
fn kill(child: &mut Child) {
    #[cfg(unix)]
    // SAFETY: the signal goes only to the process group started here.
    unsafe {
        libc::killpg(child.id().cast_signed(), libc::SIGKILL)
    };
    #[cfg(windows)]
    // Fails if the child has ended.
    let _ = child.kill();
}

/// Reads all of a child's output, so that a full pipe does not block it.
fn reader(from: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            from.read_to_end(&mut bytes).expect("the pipe can be read");
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for a child to end; `None` if it does not end within this time.
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
