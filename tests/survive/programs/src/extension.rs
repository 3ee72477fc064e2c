//! A library that a program opens while it runs: allocates and frees by C's functions.

use std::ffi::c_void;

/// Returns a block for the program to free.
#[unsafe(no_mangle)]
pub extern "C" fn give(size: usize) -> *mut c_void {
    // SAFETY: any size may be asked for.
    unsafe { libc::malloc(size) }
}

/// Frees a block of the program's.
///
/// # Safety
/// As for `free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn take(block: *mut c_void) {
    // SAFETY: the caller guarantees it.
    unsafe { libc::free(block) };
}
