//! Handles signals while a command runs, if there is work to do after it has ended.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Process id of the running command; or `STARTING`, or `OVER`.
static COMMAND: AtomicI32 = AtomicI32::new(OVER);
const STARTING: i32 = -1;
const OVER: i32 = 0;
/// A signal that arrived while the command was starting.
static EARLY: AtomicI32 = AtomicI32::new(0);
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Returns whether a signal asked this process to end after the command had ended.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// A signal's request to the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Start,
    Stop,
}

/// The signal of the latest request; 0 if there is none.
static REQUESTED: AtomicI32 = AtomicI32::new(0);

/// Returns the latest request, once.
pub(crate) fn take_request() -> Option<Request> {
    match REQUESTED.swap(0, Ordering::Relaxed) {
        0 => None,
        libc::SIGUSR1 => Some(Request::Start),
        _ => Some(Request::Stop),
    }
}

extern "C" fn on_request(signal: libc::c_int) {
    REQUESTED.store(signal, Ordering::Relaxed);
}

/// Treats SIGUSR1 as the request to start, and SIGUSR2 as the request to stop.
pub(crate) fn handle_requests() {
    for signal in [libc::SIGUSR1, libc::SIGUSR2] {
        handle(signal, on_request);
    }
}

/// Continues after a signal that was meant to end something else.
pub(crate) fn forget_interruption() {
    INTERRUPTED.store(false, Ordering::Relaxed);
}

pub(crate) fn pass_to(process: u32) {
    COMMAND.store(process as i32, Ordering::Relaxed);
    match EARLY.swap(0, Ordering::Relaxed) {
        0 => {}
        signal => on_signal(signal),
    }
}

pub(crate) fn pass_to_nobody() {
    COMMAND.store(OVER, Ordering::Relaxed);
}

extern "C" fn on_signal(signal: libc::c_int) {
    match COMMAND.load(Ordering::Relaxed) {
        OVER => INTERRUPTED.store(true, Ordering::Relaxed),
        STARTING => EARLY.store(signal, Ordering::Relaxed),
        // The terminal sends these to the command as well.
        _ if signal == libc::SIGINT || signal == libc::SIGQUIT => {}
        // SAFETY: sends a signal to our child, which has not been waited for yet.
        command => unsafe {
            libc::kill(command, signal);
        },
    }
}

/// Catches the signals that would end this process, except ignored ones. The command gets their
/// default actions again, since handlers do not survive an `exec`.
pub(crate) fn stand_back() {
    COMMAND.store(STARTING, Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
        handle(signal, on_signal);
    }
}

/// Installs a handler, unless the signal is ignored. The handler only uses atomics, and may send a
/// signal.
fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: the handlers are async-signal-safe; an all-zero `sigaction` is a valid value.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction != libc::SIG_IGN
        {
            action.sa_sigaction = handler as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Whether this process was started with SIGPIPE ignored.
static PIPE_IS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Sets [`PIPE_IS_IGNORED`] before Rust's runtime, which then ignores SIGPIPE, calls `main`.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn before_main() {
        // SAFETY: an all-zero `sigaction` is a valid value, and valid for writes.
        let action = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut action);
            action
        };
        PIPE_IS_IGNORED.store(action.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
    }
    before_main
};

/// Makes writing to a closed pipe an error, which does not end this process before it has released
/// another one, or said where a recording is kept. The command does not inherit this.
pub(crate) fn ignore_closed_pipes() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Lets the command ignore SIGPIPE if this process was started so, as by systemd. Otherwise Rust
/// gives the signal its default action.
pub(crate) fn inherit(command: &mut Command) {
    if !PIPE_IS_IGNORED.load(Ordering::Relaxed) {
        return;
    }
    let ignore = || {
        // SAFETY: the call may be made between `fork` and `exec`, and runs no code of ours.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        Ok(())
    };
    // SAFETY: the closure does not allocate or take a lock.
    unsafe { command.pre_exec(ignore) };
}
