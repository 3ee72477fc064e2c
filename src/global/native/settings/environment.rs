//! The environment, as far as it is to be trusted: a program with more rights than its user has none here, as for
//! the loader.
//!
//! It is read at the allocator's first use only, mostly before a program has threads. A thread that
//! changes the environment at that very moment races with us, as it does with every `getenv`.

use core::ffi::CStr;

use crate::os;

/// Calls `read` with a variable's value, if it has one that is not empty.
pub(super) fn variable<R>(name: &CStr, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
    if os::is_privileged() {
        return None;
    }
    os::variable(name, |value| (!value.is_empty()).then(|| read(value))).flatten()
}

/// Calls `visit` with the name of each variable.
pub(super) fn for_each_name(visit: impl FnMut(&[u8])) {
    if !os::is_privileged() {
        os::for_each_variable(visit);
    }
}
