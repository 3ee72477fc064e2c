//! Settings with a misspelt name or an invalid value were silently ignored.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::{env, ptr};

use crate::child::{self, Ended};

const INVALID: &str =
    "pagewise: PAGEWISE_PURGE_DELAY=abc is ignored: expected a number of milliseconds, or never";
const MISSPELT: &str =
    "pagewise: PAGEWISE_HUGE_PAGE is unknown and ignored: did you mean PAGEWISE_HUGE_PAGES?";
const STRANGE: &str = "pagewise: PAGEWISE_\\x1b[31m\\xff is unknown and ignored";

/// Sets faulty variables, and one of the recorder's that the allocator does not read.
fn prepare(command: &mut Command) {
    let strange = OsStr::from_bytes(b"PAGEWISE_\x1b[31m\xff");
    command
        .env("PAGEWISE_PURGE_DELAY", "abc")
        .env("PAGEWISE_HUGE_PAGE", "0")
        .env(strange, "1")
        .env("PAGEWISE_BACKGROUND", "")
        .env("PAGEWISE_RECORD_DIR", "/nowhere")
        .env_remove("PAGEWISE_SHOW_STATS")
        .env_remove("PAGEWISE_VERBOSE");
}

/// Returns the messages about these faults, sorted, as the environment has no order.
fn complaints(err: &str) -> Vec<&str> {
    let mut lines: Vec<_> = err.lines().filter(|line| line.starts_with("pagewise:")).collect();
    lines.sort_unstable();
    lines
}

fn run(verbose: Option<&str>) -> Ended {
    child::run("settings_ignored_silently::nothing", |command| {
        prepare(command);
        command.envs(verbose.map(|value| ("PAGEWISE_VERBOSE", value)));
    })
}

#[test]
fn verbose_mode_reports_them() {
    let Ended { code, err, .. } = run(Some("1"));
    assert_eq!((code, complaints(&err)), (Some(0), vec![MISSPELT, INVALID, STRANGE]));
}

#[test]
fn a_log_file_gets_no_reports() {
    let Ended { code, err, .. } = run(None);
    assert_eq!((code, complaints(&err)), (Some(0), vec![]));
}

/// Runs a child whose standard error is a terminal. Returns what it prints there.
fn on_terminal(verbose: Option<&str>) -> String {
    let (mut ours, mut theirs) = (-1, -1);
    // SAFETY: the call writes two descriptors, which only this test owns.
    let (mut ours, theirs) = unsafe {
        let none = ptr::null_mut();
        let opened = libc::openpty(&mut ours, &mut theirs, none, ptr::null(), ptr::null());
        assert_eq!(opened, 0, "there are terminals");
        for end in [ours, theirs] {
            // Children of other tests must not hold it open.
            assert_eq!(libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC), 0);
        }
        (File::from_raw_fd(ours), File::from_raw_fd(theirs))
    };
    let mut command = Command::new(env::current_exe().expect("this program has a path"));
    command.args(["settings_ignored_silently::nothing", "--exact", "--ignored"]);
    prepare(&mut command);
    command.envs(verbose.map(|value| ("PAGEWISE_VERBOSE", value)));
    command.process_group(0);
    let mut child =
        command.stdout(Stdio::null()).stderr(Stdio::from(theirs)).spawn().expect("it starts");
    let status = child::process::wait(&mut child, child::LIMIT);
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    // Once the other end is closed everywhere, reading fails, which ends the output.
    drop(command);
    let mut written = Vec::new();
    let _ = ours.read_to_end(&mut written);
    String::from_utf8(written).expect("text")
}

#[test]
fn a_terminal_gets_reports() {
    assert_eq!(complaints(&on_terminal(None)), [MISSPELT, INVALID, STRANGE]);
    assert_eq!(complaints(&on_terminal(Some("0"))), [""; 0]);
}

#[test]
#[ignore = "in a process of its own, with such an environment"]
fn nothing() {
    drop(std::hint::black_box(vec![1; 100]));
}
