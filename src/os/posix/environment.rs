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
    // SAFETY: null, or an array of C strings with a null at its end, which stays while nobody changes
    // the environment.
    unsafe {
        let mut next = environ();
        while !next.is_null() && !(*next).is_null() {
            let entry = CStr::from_ptr(*next).to_bytes();
            visit(entry.split(|&byte| byte == b'=').next().unwrap_or(entry));
            next = next.add(1);
        }
    }
}

/// Where the variables are: an array of their addresses, with a null at its end; or null.
#[cfg(not(target_os = "macos"))]
fn environ() -> *const *const c_char {
    unsafe extern "C" {
        static mut environ: *const *const c_char;
    }
    // SAFETY: the C library's variable, which every program has.
    unsafe { environ }
}

/// As above, by a call: a shared library cannot name the variable there.
#[cfg(target_os = "macos")]
fn environ() -> *const *const c_char {
    // SAFETY: the call answers with the address of the variable.
    unsafe { (*libc::_NSGetEnviron()).cast_const().cast() }
}
