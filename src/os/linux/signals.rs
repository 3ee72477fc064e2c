//! Signals on which something is done, and the number to send them to.

use core::ffi::c_int;
use core::ptr;

/// Has a function called on a signal. Whether it could be done.
pub(crate) fn on_signal(signal: c_int, run: extern "C" fn(c_int)) -> bool {
    // SAFETY: all zeros is a value; the handler is one for this kind, and may run at any time.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = run as *const () as usize;
        // What the signal interrupts goes on.
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, ptr::null_mut()) == 0
    }
}

/// The number of this process.
pub(crate) fn process() -> u32 {
    // SAFETY: the call touches no memory of ours.
    unsafe { libc::getpid() as u32 }
}
