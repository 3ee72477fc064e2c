//! A library that a program opens at run time; it uses C's `malloc` and `free`.

use std::ffi::c_void;

/// Returns a block for the program to free.
#[unsafe(no_mangle)]
pub extern "C" fn give(size: usize) -> *mut c_void {
    // SAFETY: any size may be requested.
    unsafe { libc::malloc(size) }
}

/// Frees a block that the program allocated.
///
/// # Safety
/// As for `free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn take(block: *mut c_void) {
    // SAFETY: the caller guarantees it.
    unsafe { libc::free(block) };
}
