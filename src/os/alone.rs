//! Runs unit tests in processes of their own, for tests that change process-wide state or end the
//! process.

#[cfg(all(unix, not(miri)))]
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Output};

/// Runs the ignored unit test with the path `test` in a process of its own.
pub(crate) fn run(test: &str) -> Output {
    let program = std::env::current_exe().expect("it is known");
    Command::new(program).args([test, "--exact", "--ignored"]).output().expect("it starts")
}

/// Runs `test` as [`run`] does, and panics unless it passes.
pub(crate) fn passes(test: &str) -> Output {
    let run = run(test);
    let out = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && out.contains("1 passed"), "{test}: {out}");
    run
}

/// Returns whether `holds` does in the child of a fork, which runs nothing else. A panic ends the
/// child at once: the test runner would wait there for threads that stayed behind.
#[cfg(all(unix, not(miri)))]
pub(crate) fn in_child(holds: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `holds`, and ends; the status is valid for writes.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let held = catch_unwind(AssertUnwindSafe(holds));
            libc::_exit(if matches!(held, Ok(true)) { 7 } else { 8 });
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7
    }
}

/// Runs `action` while the process is at the system's limit on mappings, so that no mapping can be
/// split in two.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn without_more_mappings<R>(action: impl FnOnce() -> R) -> R {
    use super::{page_size, release, reserve};
    /// More than the limit, as far as the addresses reach.
    const MOST: usize = if cfg!(target_pointer_width = "64") { 1 << 20 } else { 1 << 17 };
    let page = page_size();
    let memory = reserve(2 * MOST * page).expect("there are addresses");
    // SAFETY: the pages were reserved here, and no other code knows of them.
    unsafe {
        let is_refused = (0..MOST).any(|at| !release(memory.add((2 * at + 1) * page), page));
        assert!(is_refused, "there are ever more mappings");
        let result = action();
        release(memory, 2 * MOST * page);
        result
    }
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use super::*;

    /// Only a child whose condition holds passes: not one where it does not, nor one that panics or
    /// ends by itself.
    #[test]
    fn a_child_of_a_fork_that_fails_is_noticed() {
        passes("os::alone::tests::children");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn children() {
        assert!(in_child(|| true));
        assert!(!in_child(|| false));
        assert!(!in_child(|| panic!("as if an assertion failed")));
        // SAFETY: the child has nothing to clean up.
        assert!(!in_child(|| unsafe { libc::_exit(0) }));
        // SAFETY: the signal goes to the child itself.
        assert!(!in_child(|| unsafe { libc::raise(libc::SIGKILL) == 0 }));
    }
}
