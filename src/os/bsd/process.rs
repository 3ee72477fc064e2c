//! macOS and FreeBSD: the process, the calling thread's `errno`, and the processors.

use core::ffi::{c_int, c_void};

use crate::os::CpuSet;

unsafe extern "C" {
    fn getentropy(to: *mut c_void, len: usize) -> c_int;
    fn issetugid() -> c_int;
}

/// Returns the address of the calling thread's `errno`, which is always valid.
#[inline]
pub(crate) fn errno_location() -> *mut c_int {
    // SAFETY: the call may be made at any time.
    unsafe { libc::__error() }
}

/// Returns the number of CPUs that are online, at least 1, whatever threads were seen on. (A FreeBSD jail may have fewer. The
/// number only limits how many heaps there may be, and there are never more heaps than threads.)
pub(crate) fn cpus(_: &mut CpuSet) -> usize {
    // SAFETY: the call touches no memory of ours.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).map_or(1, |n| n.max(1))
}

/// Returns `None`: quotas of processor time (FreeBSD's `rctl`) are not read; macOS has none.
pub(crate) fn cpu_quota() -> Option<usize> {
    None
}

/// Returns 0: on macOS a process has one node, and FreeBSD is not asked.
pub(crate) fn node() -> u32 {
    0
}

/// Returns an unpredictable number; a merely hard-to-guess one if the system has none.
pub(crate) fn random() -> u64 {
    let mut number = 0_u64;
    // SAFETY: the call writes no more than the number's bytes.
    if unsafe { getentropy((&raw mut number).cast(), size_of::<u64>()) } != 0 {
        let place = errno_location().addr() as u64;
        number = (place ^ crate::os::now().rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    number
}

/// Returns whether the process has more rights than the user who started it. Its environment comes
/// from that user and cannot be trusted then.
pub(crate) fn is_privileged() -> bool {
    // SAFETY: the call touches no memory of ours.
    unsafe { issetugid() != 0 }
}
