//! The environment, read where it lies: `std` would allocate.

use core::ffi::{CStr, c_char};

/// Calls `read` with a variable's value, if there is such a variable.
pub(crate) fn variable<R>(name: &CStr, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
    // SAFETY: `getenv` returns null or a C string, which stays while nobody changes the environment.
    let value = unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())?
    };
    Some(read(value))
}

/// Calls `visit` with the name of each variable.
pub(crate) fn for_each_variable(mut visit: impl FnMut(&[u8])) {
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
