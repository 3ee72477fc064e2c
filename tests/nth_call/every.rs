//! Every n, in a process of its own.

use std::io::{Read, Write};
use std::ops::Range;

use crate::calls;
use crate::session::{Session, TUNINGS};

/// Requests of a session, more or less.
const STEPS: usize = 220;

/// A purge makes hundreds of calls; one in this many is tested as the first to be refused, unless
/// all are tested.
const STRIDE: usize = 16;

/// The most bytes that may stay resident because a single call was refused.
const MAY_STAY: usize = 256 << 10;

/// The results of a process: calls refused in its session, requests that failed, bytes of the
/// process that are resident when everything was freed; the numbers of the calls that are worth
/// refusing.
#[derive(Clone, Debug, Default)]
struct Outcome {
    refused: usize,
    failed: usize,
    resident: usize,
    calls: Vec<usize>,
}

/// Runs a session under one of the [`TUNINGS`] whose calls with these numbers are refused, and
/// another, all of whose calls are answered. Returns the results as numbers in a line.
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

/// Returns the bytes of this process that are resident.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("there is a /proc");
    let pages = status.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number") * 4096
}

/// Like [`session`], in a process of its own.
fn alone(tuning: usize, refused: Range<usize>, stride: usize) -> Outcome {
    let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
    // SAFETY: this process has one thread, so its child may do anything.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "a process can be made");
    if child == 0 {
        // SAFETY: a deadlock ends the process; without huge pages, only written memory stays
        // resident.
        unsafe {
            libc::alarm(120);
            libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
        }
        let written = writer.write_all(session(tuning, refused, stride).as_bytes());
        // SAFETY: nothing else remains for this process to do.
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

pub(crate) fn run() {
    let all = std::env::args().any(|argument| argument == "all");
    for tuning in 0..TUNINGS.len() {
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
}
