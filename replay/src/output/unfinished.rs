//! The unfinished file, which a signal must remove.

use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Its name, a C string, or null.
static NAME: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

/// Sets the name while the file is being written.
pub(super) struct Name;

impl Name {
    pub(super) fn new(path: &Path) -> Self {
        if let Ok(name) = CString::new(path.as_os_str().as_bytes()) {
            NAME.store(name.into_raw(), Ordering::SeqCst);
            [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter().for_each(catch);
        }
        Self
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let name = NAME.swap(ptr::null_mut(), Ordering::SeqCst);
        if !name.is_null() {
            // SAFETY: the name comes from `into_raw`, and no other code uses it any more.
            drop(unsafe { CString::from_raw(name) });
        }
    }
}

/// Handles the signal here, unless it is ignored, or a recording handles it.
fn catch(signal: c_int) {
    // SAFETY: an all-zero `sigaction` is a valid value; the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let known = libc::sigaction(signal, ptr::null(), &raw mut action) == 0;
        if known && action.sa_sigaction == libc::SIG_DFL {
            action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
            libc::sigaction(signal, &raw const action, ptr::null_mut());
        }
    }
}

/// Removes the file and ends the process with the same signal.
extern "C" fn on_signal(signal: c_int) {
    let name = NAME.swap(ptr::null_mut(), Ordering::SeqCst);
    // SAFETY: all three calls are async-signal-safe; the name is a C string or null.
    unsafe {
        if !name.is_null() {
            libc::unlink(name);
        }
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
