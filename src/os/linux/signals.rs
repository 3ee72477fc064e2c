//! Signal handlers.

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI32, AtomicUsize};

#[cfg(not(miri))]
use crate::os::posix::action_of;

/// The signal and the handler that were installed last; 0 if none was.
static INSTALLED: (AtomicI32, AtomicUsize) = (AtomicI32::new(0), AtomicUsize::new(0));

/// Has the signal ignored, unless the program installed another handler since.
#[cfg(not(miri))]
pub(in crate::os) fn ignore_signal() {
    let (signal, handler) = (INSTALLED.0.load(Relaxed), INSTALLED.1.load(Relaxed));
    if signal != 0 && action_of(signal).is_some_and(|action| action.sa_sigaction == handler) {
        // SAFETY: the signal calls nothing from now on.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Installs `run` as the handler of `signal`. Returns whether it did.
pub(crate) fn on_signal(signal: c_int, run: extern "C" fn(c_int)) -> bool {
    // SAFETY: all zeros is a valid value; `run` has the type of a plain handler, and may run at any
    // time.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = run as *const () as usize;
        // Interrupted system calls are restarted.
        action.sa_flags = libc::SA_RESTART;
        let done = libc::sigaction(signal, &raw const action, ptr::null_mut()) == 0;
        if done {
            INSTALLED.0.store(signal, Relaxed);
            INSTALLED.1.store(action.sa_sigaction, Relaxed);
        }
        done
    }
}
