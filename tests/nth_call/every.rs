//! Tries every n, each in its own process.

use std::io::{Read, Write};
use std::ops::Range;

use crate::calls;
use crate::session::{Session, TUNINGS};

/// Requests per session, approximately.
const STEPS: usize = 220;

/// A purge makes hundreds of calls; only every 16th of them is tried as the first to be refused,
/// unless all are.
const STRIDE: usize = 16;

/// Bytes that may stay resident after a single refused call.
const MAY_STAY: usize = 256 << 10;

/// The results of a process: refused calls, failed requests, bytes resident after everything was
/// freed, and the numbers of the calls worth refusing.
#[derive(Clone, Debug, Default)]
struct Outcome {
    refused: usize,
    failed: usize,
    resident: usize,
    calls: Vec<usize>,
}

/// Runs a session under one of the [`TUNINGS`] with these calls refused, and another with none
/// refused. Returns the results as numbers in a line.
fn session(tuning: usize, refused: Range<usize>, stride: usize) -> String {
    let mut session = Session::new(&TUNINGS[tuning]);
    calls::refuse(refused);
    session.perform(STEPS);
    session.end();
    calls::refuse(0..0);
    let found = [calls::refused(), session.failed];
    let calls: Vec<usize> = calls::chosen(stride).collect();
    let mut again = Session::new(&TUNINGS[tuning]);
    again.perform(STEPS);
    assert_eq!(again.failed, 0, "everything is served again");
    again.end();
    assert_eq!(again.blocks_in_use(), 0, "everything was freed");
    let all = found.into_iter().chain([resident()]).chain(calls);
    all.map(|number| format!("{number} ")).collect()
}

/// Returns the resident bytes of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("there is a /proc");
    let pages = status.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number") * 4096
}

/// Like [`session`], in its own process.
fn alone(tuning: usize, refused: Range<usize>, stride: usize) -> Outcome {
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    // SAFETY: this process has one thread, so its child may run any code.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "a process can be made");
    if child == 0 {
        // SAFETY: the alarm ends the process after a deadlock; without huge pages, only written
        // memory stays resident.
        unsafe {
            libc::alarm(120);
            libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
        }
        let written = writer.write_all(session(tuning, refused, stride).as_bytes());
        // SAFETY: the process has nothing left to do.
        unsafe { libc::_exit(i32::from(written.is_err())) };
    }
    drop(writer);
    let (mut told, mut status) = (String::new(), 0);
    reader.read_to_string(&mut told).expect("the pipe can be read");
    // SAFETY: the child is ours.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "tuning {tuning}, calls {refused:?} refused: status {status:#x}");
    let mut numbers = told.split_terminator(' ').map(|word| word.parse().expect("a number"));
    let mut next = || numbers.next().expect("three numbers and more");
    let (refused, failed, resident) = (next(), next(), next());
    Outcome { refused, failed, resident, calls: numbers.collect() }
}

/// Tries every n of one of the [`TUNINGS`].
fn tried(tuning: usize, all: bool) {
    let plain = alone(tuning, 0..0, if all { 1 } else { STRIDE });
    assert_eq!((plain.refused, plain.failed), (0, 0));
    let one: fn(usize) -> Range<usize> = |first| first..first + 1;
    for (mode, which) in [("one", one), ("all from one on", |first| first..usize::MAX)] {
        let mut sum = Outcome::default();
        for &first in &plain.calls {
            let found = alone(tuning, which(first), 1);
            assert!(found.refused > 0, "call {first} was made");
            let stays = found.resident.saturating_sub(plain.resident);
            assert!(found.refused > 1 || stays <= MAY_STAY, "call {first}: {stays} bytes stay");
            sum.refused += found.refused;
            sum.failed += found.failed;
            sum.resident = sum.resident.max(found.resident);
        }
        println!(
            "tuning {tuning}, {mode} refused: {} sessions survived {} refusals, by which {} \
             requests failed; at most {} KiB resident at the end, {} without refusals",
            plain.calls.len(),
            sum.refused,
            sum.failed,
            sum.resident >> 10,
            plain.resident >> 10
        );
    }
}

/// A process for each of the [`TUNINGS`], at the same time.
pub(crate) fn run() {
    let all = std::env::args().any(|argument| argument == "all");
    let children: Vec<_> = (0..TUNINGS.len())
        .map(|tuning| {
            // SAFETY: this process has one thread, so its child may run any code.
            let child = unsafe { libc::fork() };
            assert!(child >= 0, "a process can be made");
            if child == 0 {
                tried(tuning, all);
                // SAFETY: the process has nothing left to do; what it printed ended with a line.
                unsafe { libc::_exit(0) };
            }
            child
        })
        .collect();
    let wait = |child| {
        let mut status = 0;
        // SAFETY: the child is ours.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        status
    };
    let statuses: Vec<i32> = children.into_iter().map(wait).collect();
    assert!(statuses.iter().all(|&status| status == 0), "{statuses:x?}: a status for each tuning");
}
