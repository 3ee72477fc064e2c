//! Whether this process is in a sandbox of its own making, which may kill it for a system call that
//! the C library's allocator does not make.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

static IS_SANDBOXED: AtomicBool = AtomicBool::new(false);

/// From now on, of the calls that tell or change how memory is backed, only those are made that
/// give it back, and nobody asks which CPUs there are.
#[cfg_attr(
    not(feature = "initial-exec"),
    allow(dead_code, reason = "only `libpagewise.so` learns of sandboxes")
)]
pub(crate) fn enter_sandbox() {
    IS_SANDBOXED.store(true, Relaxed);
}

/// Returns whether such calls may kill the process.
pub(crate) fn is_sandboxed() -> bool {
    IS_SANDBOXED.load(Relaxed)
}
