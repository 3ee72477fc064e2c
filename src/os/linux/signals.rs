//! Signal handlers.

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI32, AtomicUsize};

/// The signal and the handler that were installed last; 0 if none was.
static INSTALLED: (AtomicI32, AtomicUsize) = (AtomicI32::new(0), AtomicUsize::new(0));

/// Has the signal ignored when the library with this code is unloaded, so that it does not call
/// code that is gone, unless the program installed another handler. Also runs when a program exits.
#[cfg(not(miri))]
#[used]
#[unsafe(link_section = ".fini_array")]
static CLOSE: extern "C" fn() = close;

#[cfg(not(miri))]
extern "C" fn close() {
    let (signal, handler) = (INSTALLED.0.load(Relaxed), INSTALLED.1.load(Relaxed));
    // SAFETY: all zeros is a valid value, and the call writes one action.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        if signal != 0
            && libc::sigaction(signal, ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == handler
        {
            libc::signal(signal, libc::SIG_IGN);
        }
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
