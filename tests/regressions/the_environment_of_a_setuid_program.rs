//! A program with more privileges than its user read its settings from that user's environment.

use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;
use std::{env, fs, path::Path};

use crate::executable;

/// Another user, without privileges.
const NOBODY: u32 = 65_534;

/// Runs a copy of this program with these permissions, owned by nobody. Returns its messages about
/// settings, or `None` if it should gain privileges but the machine does not grant them.
fn messages(mode: u32) -> Option<String> {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let copy = folder.path().join("program");
    let program = env::current_exe().expect("this program has a path");
    executable::write(&copy, &fs::read(program).expect("a program"));
    if chown(&copy, Some(NOBODY), Some(NOBODY)).is_err() {
        return None;
    }
    fs::set_permissions(&copy, fs::Permissions::from_mode(mode)).expect("permissions");
    let test = "the_environment_of_a_setuid_program::inside";
    let output = run(&copy, test);
    let privileged = output.contains("privileged: true");
    (privileged == (mode & 0o4000 != 0)).then_some(output)
}

fn run(program: &Path, test: &str) -> String {
    let output = Command::new(program)
        .args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env("PAGEWISE_SHOW_STATS", "1")
        .env("PAGEWISE_VERBOSE", "1")
        .env("PAGEWISE_UNKNOWN", "1")
        .output()
        .expect("the program runs");
    assert!(output.status.success());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn is_not_read() {
    let Some(said_by_a_plain_program) = messages(0o755) else {
        println!("not here: only root gives files away");
        return;
    };
    assert!(said_by_a_plain_program.contains("pagewise: PAGEWISE_UNKNOWN is unknown"));
    assert!(said_by_a_plain_program.contains("blocks in use"));
    match messages(0o4755) {
        Some(said) => assert!(!said.contains("pagewise: "), "{said}"),
        None => println!("not here: the file system does not know setuid"),
    }
}

#[test]
#[ignore = "as a copy with more rights"]
fn inside() {
    // SAFETY: the call touches no memory of ours.
    let privileged = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    println!("privileged: {privileged}");
}
