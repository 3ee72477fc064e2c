//! Runs commands under preloaded libraries and measures them.

mod library;

use std::process::{Command, Stdio};

pub(crate) use library::Library;

#[derive(Clone, Copy)]
pub(crate) struct Figures {
    /// CPU time, user and system.
    pub(crate) seconds: f64,
    /// Peak resident memory, KiB.
    pub(crate) peak: f64,
}

/// Runs a command with a library preloaded; `None` if it fails.
pub(crate) fn run(command: &mut Command, library: &Library) -> Option<Figures> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    library.preload(command);
    let child = command.spawn().ok()?;
    let mut status = 0;
    // SAFETY: all bits zero is a valid value; the child is ours and waited for once, here.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let waited = libc::wait4(child.id().cast_signed(), &raw mut status, 0, &raw mut usage);
        (waited >= 0 && status == 0).then_some(usage)?
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Some(Figures {
        seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        peak: usage.ru_maxrss as f64,
    })
}
