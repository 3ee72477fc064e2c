//! A barrier that all threads pass because one asks for it, so that the others need none where they are called often.

use core::ffi::{c_int, c_uint};

const EXPEDITED: c_int = 1 << 3;
const REGISTER_EXPEDITED: c_int = 1 << 4;

/// Says that [`others_pass_barrier`] will be called; whether it can be. The child of a fork can call it, too.
pub(crate) fn announce_barriers() -> bool {
    membarrier(REGISTER_EXPEDITED) && membarrier(EXPEDITED)
}

/// Has every other thread of the process pass a full memory barrier between this call and its return; whether that could
/// be done.
pub(crate) fn others_pass_barrier() -> bool {
    membarrier(EXPEDITED)
}

/// Linux 4.14 and later, where no sandbox refuses it.
fn membarrier(command: c_int) -> bool {
    const NO_FLAGS: c_uint = 0;
    const NO_CPU: c_int = 0;
    // SAFETY: the call touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, NO_FLAGS, NO_CPU) == 0 }
}
