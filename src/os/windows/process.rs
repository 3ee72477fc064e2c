//! The process: its standard error, its rights, and its end.

use core::ptr;

use windows_sys::Win32::Foundation::{HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::Win32::Security::Authentication::Identity::RtlGenRandom;
use windows_sys::Win32::Storage::FileSystem::WriteFile;
use windows_sys::Win32::System::Console::{GetConsoleMode, GetStdHandle, STD_ERROR_HANDLE};

/// Returns 0: a process has no children with copies of its memory.
pub(crate) fn process() -> u32 {
    0
}

/// Returns whether the calling thread is the only one of its process for certain.
pub(crate) fn is_single_threaded() -> bool {
    false
}

/// Writes one line on standard error and ends the process.
#[cold]
pub(crate) fn stop(message: &[u8]) -> ! {
    write(message);
    abort()
}

/// Ends the process.
pub(crate) fn abort() -> ! {
    std::process::abort()
}

/// Returns the handle of standard error, if there is one.
fn error_handle() -> Option<HANDLE> {
    // SAFETY: the call may be made at any time.
    let handle = unsafe { GetStdHandle(STD_ERROR_HANDLE) };
    (!handle.is_null() && handle != INVALID_HANDLE_VALUE).then_some(handle)
}

/// Writes to standard error. Ignores failure: there is nowhere else to report it.
pub(crate) fn write(mut message: &[u8]) {
    let Some(handle) = error_handle() else { return };
    while !message.is_empty() {
        let (len, mut written) = (message.len().min(1 << 20) as u32, 0);
        // SAFETY: the message is valid for reads of its length; the call writes the number of bytes
        // written.
        let done = unsafe {
            WriteFile(handle, message.as_ptr(), len, &raw mut written, ptr::null_mut()) != 0
        };
        if !done || written == 0 {
            return;
        }
        message = &message[(written as usize).min(message.len())..];
    }
}

/// Does nothing: Windows has no `fork`.
///
/// # Safety
/// The handlers may run at any time.
pub(crate) unsafe fn at_fork(
    _: Option<unsafe extern "C" fn()>,
    _: Option<unsafe extern "C" fn()>,
    _: Option<unsafe extern "C" fn()>,
) {
}

/// Identifies a file among all files that are open: its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity(usize);

/// Returns the identity of standard error's file, or `None` if there is none.
pub(crate) fn standard_error() -> Option<FileIdentity> {
    error_handle().map(|handle| FileIdentity(handle.addr()))
}

/// Returns whether standard error is a console.
pub(crate) fn has_terminal() -> bool {
    let mut mode = 0;
    // SAFETY: the call writes the mode.
    error_handle().is_some_and(|handle| unsafe { GetConsoleMode(handle, &raw mut mode) != 0 })
}

/// Returns an unpredictable number; a merely hard-to-guess one if the system has none.
pub(crate) fn random() -> u64 {
    let mut number = 0_u64;
    // SAFETY: the call writes no more than the number's bytes.
    if unsafe { !RtlGenRandom((&raw mut number).cast(), size_of::<u64>() as u32) } {
        let place = (&raw const number).addr() as u64;
        number = (place ^ super::wait::now().rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    number
}

/// Returns false: the environment always comes from the user who runs the process.
pub(crate) fn is_privileged() -> bool {
    false
}

/// Registers a function to call when the process exits, or when the library with this code is
/// unloaded. Returns whether it did.
pub(crate) fn at_exit(run: extern "C" fn()) -> bool {
    unsafe extern "C" {
        fn atexit(run: extern "C" fn()) -> core::ffi::c_int;
    }
    // SAFETY: `atexit` is in the C runtime, which every program with `std` has; `run` may run at
    // any time.
    unsafe { atexit(run) == 0 }
}
