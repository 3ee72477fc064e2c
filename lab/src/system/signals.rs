//! Handles signals while a command runs, if there is work to do after it has ended.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};

use super::inherited;

/// Process id of the running command; or `STARTING`, or `OVER`.
static COMMAND: AtomicI32 = AtomicI32::new(OVER);
const STARTING: i32 = -1;
const OVER: i32 = 0;
/// A signal that arrived while the command was starting.
static EARLY: AtomicI32 = AtomicI32::new(0);
/// The last signal that came when there was no command; 0: none.
static INTERRUPTED: AtomicI32 = AtomicI32::new(0);

/// Returns whether a signal asked this process to end after the command had ended.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed) != 0
}

/// If a signal asked this process to end, ends it by that signal, as in commands that handle none:
/// a shell that runs a script then stops, too. Call it when nothing is left to clean up.
pub(crate) fn end_if_interrupted() {
    let signal = INTERRUPTED.load(Ordering::Relaxed);
    if signal != 0 {
        // SAFETY: both calls are async-signal-safe; the default action runs no code of ours.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
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
        handle(signal, on_request as *const (), 0);
    }
}

/// Continues after a signal that was meant to end something else.
pub(crate) fn forget_interruption() {
    INTERRUPTED.store(0, Ordering::Relaxed);
}

pub(crate) fn pass_to(process: u32) {
    COMMAND.store(process as i32, Ordering::Relaxed);
    match EARLY.swap(0, Ordering::Relaxed) {
        0 => {}
        signal => pass(process as i32, signal),
    }
}

pub(crate) fn pass_to_nobody() {
    COMMAND.store(OVER, Ordering::Relaxed);
}

fn pass(command: i32, signal: libc::c_int) {
    // SAFETY: sends a signal to our child, which has not been waited for yet.
    unsafe { libc::kill(command, signal) };
}

/// The greatest `si_code` of a signal that a process sent. (Older versions of libc lack it.)
const SI_USER: libc::c_int = 0;

extern "C" fn on_signal(signal: libc::c_int, about: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid one to a handler with `SA_SIGINFO`.
    let is_of_process = unsafe { (*about).si_code } <= SI_USER;
    match COMMAND.load(Ordering::Relaxed) {
        // Whoever asks twice does not want to wait, as for a pipe that nobody reads.
        OVER if interrupted() => end_if_interrupted(),
        OVER => INTERRUPTED.store(signal, Ordering::Relaxed),
        // The terminal, which is no process, sends these to the command as well.
        _ if !is_of_process && (signal == libc::SIGINT || signal == libc::SIGQUIT) => {}
        STARTING => EARLY.store(signal, Ordering::Relaxed),
        command => pass(command, signal),
    }
}

/// Catches the signals that would end this process, except ignored ones. The command gets their
/// default actions again, since handlers do not survive an `exec`.
pub(crate) fn stand_back() {
    COMMAND.store(STARTING, Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
        handle(signal, on_signal as *const (), libc::SA_SIGINFO);
    }
}

/// Installs a handler, unless the signal is ignored. The handler only uses atomics, and may send a
/// signal; its parameters are those that the flags name.
fn handle(signal: libc::c_int, handler: *const (), flags: libc::c_int) {
    // SAFETY: the handlers are async-signal-safe; an all-zero `sigaction` is a valid value.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction != libc::SIG_IGN
        {
            action.sa_sigaction = handler as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART | flags;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Makes writing to a closed pipe an error, which does not end this process before it has released
/// another one, or said where a recording is kept. The command does not inherit this.
pub(crate) fn ignore_closed_pipes() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Lets the command ignore SIGPIPE if this process was started so, as by systemd. Otherwise Rust
/// gives the signal its default action.
pub(crate) fn inherit(command: &mut Command) {
    if !inherited::pipe_is_ignored() {
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
