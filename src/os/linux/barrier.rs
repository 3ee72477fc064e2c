//! A memory barrier that one thread makes all others pass (`membarrier`), so that the others' fast
//! paths need none.

use core::ffi::{c_int, c_uint};

const EXPEDITED: c_int = 1 << 3;
const REGISTER_EXPEDITED: c_int = 1 << 4;

/// Registers the process for [`others_pass_barrier`]. Returns whether that call works. The
/// registration also holds in the child of a fork.
pub(crate) fn announce_barriers() -> bool {
    membarrier(REGISTER_EXPEDITED) && membarrier(EXPEDITED)
}

/// Makes every other thread of the process pass a full memory barrier before this call returns.
/// Returns whether it did.
pub(crate) fn others_pass_barrier() -> bool {
    membarrier(EXPEDITED)
}

/// Makes the system call, which Linux has from 4.14 on; returns whether it succeeded. A sandbox may
/// refuse it.
fn membarrier(command: c_int) -> bool {
    const NO_FLAGS: c_uint = 0;
    const NO_CPU: c_int = 0;
    // SAFETY: the call touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, NO_FLAGS, NO_CPU) == 0 }
}
