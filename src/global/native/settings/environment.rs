//! The environment, read where it lies: `std` would allocate.
//!
//! It is read at the allocator's first use only, mostly before a program has threads. A thread that
//! changes the environment at that very moment races with us, as it does with every `getenv`.
//!
//! A program with more rights than its user has no environment here, as for the loader.

use core::ffi::{CStr, c_char};

use crate::os;

/// Calls `read` with a variable's value, if it has one that is not empty.
pub(super) fn variable<R>(name: &CStr, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
    if os::is_privileged() {
        return None;
    }
    // SAFETY: `getenv` returns null or a C string, which stays while nobody changes the environment.
    let value = unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())?
    };
    (!value.is_empty()).then(|| read(value))
}

/// Calls `visit` with the name of each variable.
pub(super) fn for_each_name(mut visit: impl FnMut(&[u8])) {
    if os::is_privileged() {
        return;
    }
    unsafe extern "C" {
        static mut environ: *const *const c_char;
    }
    // SAFETY: null, or an array of C strings with a null at its end, which stays while nobody changes
    // the environment.
    unsafe {
        let mut next = environ;
        while !next.is_null() && !(*next).is_null() {
            let entry = CStr::from_ptr(*next).to_bytes();
            visit(entry.split(|&byte| byte == b'=').next().unwrap_or(entry));
            next = next.add(1);
        }
    }
}
