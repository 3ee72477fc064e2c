//! Unit tests in processes of their own: of what is the whole process's, or stops it.

use std::process::{Command, Output};

/// Runs an ignored unit test, named by its path, in a process of its own.
pub(crate) fn run(test: &str) -> Output {
    let program = std::env::current_exe().expect("it is known");
    Command::new(program).args([test, "--exact", "--ignored"]).output().expect("it starts")
}

/// As [`run`]; it must pass.
pub(crate) fn passes(test: &str) -> Output {
    let run = run(test);
    let out = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && out.contains("1 passed"), "{test}: {out}");
    run
}

/// Runs `action` while this process may have no more mappings, so that none is cut in two.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn without_more_mappings<R>(action: impl FnOnce() -> R) -> R {
    use super::{page_size, release, reserve};
    const MOST: usize = 1 << 20;
    let page = page_size();
    let memory = reserve(2 * MOST * page).expect("there are addresses");
    // SAFETY: the pages are nobody else's.
    unsafe {
        let is_refused = (0..MOST).any(|at| !release(memory.add((2 * at + 1) * page), page));
        assert!(is_refused, "there are ever more mappings");
        let result = action();
        release(memory, 2 * MOST * page);
        result
    }
}
