//! Signal handlers.

use core::ffi::c_int;
use core::ptr;

/// Installs `run` as the handler of `signal`. Returns whether it did.
pub(crate) fn on_signal(signal: c_int, run: extern "C" fn(c_int)) -> bool {
    // SAFETY: all zeros is a valid value; `run` has the type of a plain handler, and may run at any
    // time.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = run as *const () as usize;
        // Interrupted system calls are restarted.
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, ptr::null_mut()) == 0
    }
}
