//! Reads the environment in place, since `std` would allocate.

use core::ffi::{CStr, c_char};

/// Calls `read` with the value of the variable `name`, if it exists.
pub(crate) fn variable<R>(name: &CStr, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
    // SAFETY: `getenv` returns null or a C string, which stays valid while no thread changes the
    // environment.
    let value = unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())?
    };
    Some(read(value))
}

/// Calls `visit` with the name of each variable.
pub(crate) fn for_each_variable(mut visit: impl FnMut(&[u8])) {
    // SAFETY: null, or a null-terminated array of C strings, which stays valid while no thread
    // changes the environment.
    unsafe {
        let mut next = environ();
        while !next.is_null() && !(*next).is_null() {
            let entry = CStr::from_ptr(*next).to_bytes();
            visit(entry.split(|&byte| byte == b'=').next().unwrap_or(entry));
            next = next.add(1);
        }
    }
}

/// Returns the null-terminated array of the variables' addresses, or null.
#[cfg(not(target_os = "macos"))]
fn environ() -> *const *const c_char {
    unsafe extern "C" {
        static mut environ: *const *const c_char;
    }
    // SAFETY: the C library's variable, which every program has.
    unsafe { environ }
}

/// Returns the array as above, by a call: on macOS a shared library cannot name the variable.
#[cfg(target_os = "macos")]
fn environ() -> *const *const c_char {
    // SAFETY: the call returns the address of the variable.
    unsafe { (*libc::_NSGetEnviron()).cast_const().cast() }
}
