//! Access to the environment. In a privileged program, one with more rights than its user, the
//! environment is not trusted, and appears empty; the loader does the same.
//!
//! The environment is read only at the allocator's first use, usually before a program has threads.
//! A thread that changes it at that moment races with the allocator, as it does with every
//! `getenv`.

use core::ffi::CStr;

use crate::os;

/// Calls `read` with a variable's value, if it is set and not empty.
pub(super) fn variable<R>(name: &CStr, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
    if os::is_privileged() {
        return None;
    }
    os::variable(name, |value| (!value.is_empty()).then(|| read(value))).flatten()
}

/// Returns whether the name of any variable starts with `prefix`. Cheaper than a look for each name
/// that there might be.
pub(super) fn has_name_with(prefix: &[u8]) -> bool {
    let mut found = false;
    for_each_name(|name| found |= name.starts_with(prefix));
    found
}

/// Calls `visit` with the name of each variable.
pub(super) fn for_each_name(visit: impl FnMut(&[u8])) {
    if !os::is_privileged() {
        os::for_each_variable(visit);
    }
}
