//! What this process was started with, as far as Rust's runtime changes it before `main`: it
//! ignores SIGPIPE, and opens `/dev/null` in place of standard files that are closed.

use std::sync::atomic::{AtomicBool, Ordering};

static PIPE_IS_IGNORED: AtomicBool = AtomicBool::new(false);
static OUTPUT_IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Sets both before the runtime starts.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = {
    extern "C" fn before_main() {
        // SAFETY: an all-zero `sigaction` is a valid value, and valid for writes.
        let action = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut action);
            action
        };
        PIPE_IS_IGNORED.store(action.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
        // SAFETY: the call touches no memory.
        let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
        OUTPUT_IS_CLOSED.store(flags == -1, Ordering::Relaxed);
    }
    before_main
};

/// Returns whether SIGPIPE was ignored.
pub(super) fn pipe_is_ignored() -> bool {
    PIPE_IS_IGNORED.load(Ordering::Relaxed)
}

/// Returns whether there was no standard output, as after `>&-` in a shell.
pub(crate) fn output_is_closed() -> bool {
    OUTPUT_IS_CLOSED.load(Ordering::Relaxed)
}
