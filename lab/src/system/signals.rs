//! Handles signals while a command runs, if there is work to do after it has ended.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The running command; `STARTING`, or `OVER`.
static COMMAND: AtomicI32 = AtomicI32::new(OVER);
const STARTING: i32 = -1;
const OVER: i32 = 0;
/// A signal that came while the command was starting.
static EARLY: AtomicI32 = AtomicI32::new(0);
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Returns whether a signal asked to end after the command had ended.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// A signal's request to the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Start,
    Stop,
}

/// The signal of the latest wish; 0: none.
static WISHED: AtomicI32 = AtomicI32::new(0);

/// Returns the latest request that has not been returned yet.
pub(crate) fn wish() -> Option<Wish> {
    match WISHED.swap(0, Ordering::Relaxed) {
        0 => None,
        libc::SIGUSR1 => Some(Wish::Start),
        _ => Some(Wish::Stop),
    }
}

extern "C" fn on_wish(signal: libc::c_int) {
    WISHED.store(signal, Ordering::Relaxed);
}

/// Takes SIGUSR1 as the wish to start, and SIGUSR2 as the wish to stop.
pub(crate) fn take_wishes() {
    for signal in [libc::SIGUSR1, libc::SIGUSR2] {
        handle(signal, on_wish);
    }
}

/// Goes on after a signal that asked for something else to end.
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
        // SAFETY: sends a signal to our child, which was not waited for yet.
        command => unsafe {
            libc::kill(command, signal);
        },
    }
}

/// Catches the signals that would end this process; one that is ignored stays so. The command
/// gets their default actions back, since handlers do not outlive an `exec`.
pub(crate) fn stand_back() {
    COMMAND.store(STARTING, Ordering::Relaxed);
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
        handle(signal, on_signal);
    }
}

/// Has a signal handled, unless it is ignored. The handler touches nothing but atomics, and may send a
/// signal.
fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: all that a handler does is allowed in one; an all-zero `sigaction` is a valid value.
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
