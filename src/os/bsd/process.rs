//! What macOS and FreeBSD know of the process, of the calling thread's `errno`, and of the processors.

use core::ffi::{c_int, c_void};

unsafe extern "C" {
    fn getentropy(to: *mut c_void, len: usize) -> c_int;
    fn issetugid() -> c_int;
}

/// Where the calling thread's `errno` lies: its own place, always valid.
#[inline]
pub(crate) fn errno_location() -> *mut c_int {
    // SAFETY: the call may be made at any time.
    unsafe { libc::__error() }
}

/// CPUs that are there, at least 1. (A jail of FreeBSD's may have fewer; what is counted here decides how many heaps there
/// may be, and no more are made than there are threads.)
pub(crate) fn cpus() -> usize {
    // SAFETY: the call touches no memory of ours.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).map_or(1, |n| n.max(1))
}

/// Quotas of processor time, as FreeBSD's `rctl` has them, are not looked at; macOS has none.
pub(crate) fn cpu_quota() -> Option<usize> {
    None
}

/// Memory is taken to be as near to each CPU: a process on macOS has one node, one on FreeBSD is not asked.
pub(crate) fn node() -> u32 {
    0
}

/// A number that nobody outside can foretell; where the system has none to give, one that is hard to.
pub(crate) fn random() -> u64 {
    let mut number = 0_u64;
    // SAFETY: the call writes no more than the number's bytes.
    if unsafe { getentropy((&raw mut number).cast(), size_of::<u64>()) } != 0 {
        let place = errno_location().addr() as u64;
        number = (place ^ crate::os::now().rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    number
}

/// Whether the process has more rights than the user who started it: its environment is then that user's, and not to be
/// trusted.
pub(crate) fn is_privileged() -> bool {
    // SAFETY: the call touches no memory of ours.
    unsafe { issetugid() != 0 }
}
