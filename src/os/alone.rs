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
