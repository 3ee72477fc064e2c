//! Runs code in the child of a fork, and tells whether it succeeded there.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Status of a child that panicked: that of a Rust program.
const PANICKED: libc::c_int = 101;

/// Runs `action` in the child of a fork, which must end normally; see [`status_of_child`].
pub(crate) fn in_child(action: impl FnOnce()) {
    assert_eq!(status_of_child(action), 0, "the child succeeds");
}

/// Runs `action` in the child of a fork, and returns the status that `waitpid` tells. A panic ends
/// the child at once: the test runner, which would catch it, has no other thread there to tell, and
/// the child would end with status 0, or not at all.
pub(crate) fn status_of_child(action: impl FnOnce()) -> libc::c_int {
    // SAFETY: the child runs the code under test, and ends with `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "a process can be made");
    if child == 0 {
        let ended = catch_unwind(AssertUnwindSafe(action));
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(if ended.is_ok() { 0 } else { PANICKED }) };
    }
    let mut status = 0;
    // A signal may interrupt the wait.
    // SAFETY: the status is valid for writes.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } != child {}
    status
}
