//! What the process does at a signal.

use core::ffi::c_int;
use core::ptr;

/// Returns what the process does at a signal; `None` if the system does not tell.
pub(in crate::os) fn action_of(signal: c_int) -> Option<libc::sigaction> {
    // SAFETY: all zeros is a valid value, and the call writes one action.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        (libc::sigaction(signal, ptr::null(), &raw mut action) == 0).then_some(action)
    }
}
