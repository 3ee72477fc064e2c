//! `pagewise record --pid`: a running process is recorded, released, and continues; a process that
//! cannot be recorded is refused in one line. Also recordings that are turned on and off.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "../../tests/executable/mod.rs"]
mod executable;
#[path = "common/interruptible.rs"]
mod interruptible;
mod obedient;
#[path = "common/place.rs"]
mod place;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use interruptible::interruptible;
use obedient::{ODD, OF_CHILD, Obedient, THREADS};
use pagewise::trace::{self, Event, Header, raw};
use place::Place;

/// Not a test: plays the recorded program.
#[test]
fn scenarios() {
    obedient::play();
}

/// A running `pagewise record`.
struct Recording(Child);

impl Recording {
    /// Starts recording a process with these options; unless paused, waits until it is attached.
    fn of(place: &Place, process: u32, options: &[&str]) -> Self {
        let process = process.to_string();
        let mut command = place.pagewise(&["record", "-o", "trace.pwt", "--pid", &process]);
        let log = fs::File::create(place.path("told")).unwrap();
        Self(interruptible(&mut command).args(options).stderr(log).spawn().unwrap())
    }

    /// Waits until it has printed a text.
    fn says(&mut self, place: &Place, what: &str) {
        let began = Instant::now();
        while !messages(place).contains(what) {
            assert!(began.elapsed() < Duration::from_secs(60), "{}", messages(place));
            assert!(self.0.try_wait().unwrap().is_none(), "{}", messages(place));
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the process is our child, and has not been waited for.
        unsafe { libc::kill(self.0.id() as i32, signal) };
    }

    /// Ends it as Ctrl-C does.
    fn end(mut self, place: &Place) -> String {
        self.signal(libc::SIGINT);
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{}", messages(place));
        messages(place)
    }
}

fn messages(place: &Place) -> String {
    fs::read_to_string(place.path("told")).unwrap_or_default()
}

fn read(path: &Path) -> (Header, Vec<Event>) {
    let reader = trace::open(path).unwrap();
    let header = reader.header().clone();
    (header, reader.map(|event| event.unwrap()).collect())
}

/// Counts the allocations of a size.
fn count(events: &[Event], wanted: u64) -> usize {
    let is = |event: &&Event| matches!(event, Event::Allocate { size, .. } if *size == wanted);
    events.iter().filter(is).count()
}

const ATTACHED: &str = "is being recorded; ";

#[test]
fn a_quiet_process_is_recorded_from_its_next_allocation_on() {
    let place = Place::new();
    let mut program = Obedient::start("quiet");
    program.tell('a');
    let mut recording = Recording::of(&place, program.child.id(), &[]);
    recording.says(&place, "waiting for ");
    // This call loads the recorder.
    program.tell('a');
    recording.says(&place, ATTACHED);
    for _ in 0..3 {
        program.tell('a');
    }
    recording.end(&place);
    program.tell('a');
    assert_eq!(count(&read(&place.path("trace.pwt")).1, ODD), 3);

    // It was released without changes, so it can be recorded again.
    let mut recording = Recording::of(&place, program.child.id(), &["--stacks"]);
    recording.says(&place, "waiting for ");
    program.tell('a');
    recording.says(&place, ATTACHED);
    program.tell('a');
    recording.end(&place);
    assert!(program.end());
    assert_eq!(count(&read(&place.path("trace.pwt")).1, ODD), 1);
    let who = place.pagewise(&["who", "trace.pwt"]).output().unwrap();
    let who = String::from_utf8(who.stdout).unwrap();
    assert!(who.contains("obey"), "{who}");
}

/// Regression: there was said to be no such process; one whose main thread ended while it was
/// recorded was taken for ended, and left with calls of the recorder.
#[test]
fn a_process_without_its_main_thread_is_recorded_and_released() {
    let place = Place::new();
    let mut program = Obedient::start("busy");
    let mut recording = Recording::of(&place, program.child.id(), &[]);
    recording.says(&place, ATTACHED);
    program.tell('m');
    thread::sleep(Duration::from_millis(300));
    program.tell('a');
    recording.end(&place);
    program.tell('a');
    assert_eq!(count(&read(&place.path("trace.pwt")).1, ODD), 1);

    let mut recording = Recording::of(&place, program.child.id(), &[]);
    recording.says(&place, ATTACHED);
    program.tell('a');
    recording.end(&place);
    assert_eq!(count(&read(&place.path("trace.pwt")).1, ODD), 1);
    let mut recording = Recording::of(&place, program.child.id(), &[]);
    recording.says(&place, ATTACHED);
    assert!(program.end());
    assert!(recording.0.wait().unwrap().success(), "{}", messages(&place));
}

/// Regression: of a process that the first recording waited for, the second said that it has an
/// allocator of its own.
#[test]
fn a_process_is_recorded_only_once_at_a_time() {
    let place = Place::new();
    let mut program = Obedient::start("quiet");
    let mut first = Recording::of(&place, program.child.id(), &[]);
    first.says(&place, "waiting for ");
    let process = program.child.id().to_string();
    let second = ["record", "--pid", &process, "--duration", "1s"];
    let second = place.pagewise(&second).output().unwrap();
    let told = String::from_utf8(second.stderr).unwrap();
    assert_eq!(second.status.code(), Some(1), "{told}");
    assert!(told.ends_with("is already being recorded\n") && told.lines().count() == 1, "{told}");
    program.tell('a');
    first.says(&place, ATTACHED);
    program.tell('a');
    first.end(&place);
    assert!(program.end());
}

/// Regression: the recorder went on until the disk was full, and the process was said to be
/// recorded already.
#[test]
fn a_process_whose_recording_was_killed_is_left_and_recorded_again() {
    let place = Place::new();
    let mut program = Obedient::start("busy");
    let mut recording = Recording::of(&place, program.child.id(), &[]);
    recording.says(&place, ATTACHED);
    recording.signal(libc::SIGKILL);
    recording.0.wait().unwrap();
    let folder = fs::read_dir(place.path("tmp")).unwrap().next().unwrap().unwrap().path();
    let files = || fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let is_log = |path: &PathBuf| path.extension().is_some_and(|is| is == raw::EXTENSION);
    // Threads that began at the same moment left empty logs behind.
    let has_stopped = |log: PathBuf| raw::stopped(&log).unwrap() == Some(raw::Stopped::Asked);
    let began = Instant::now();
    while !files().filter(is_log).any(has_stopped) {
        assert!(began.elapsed() < Duration::from_secs(60), "the log stops");
        thread::sleep(Duration::from_millis(20));
    }
    fs::remove_dir_all(&folder).unwrap();
    program.tell('a');
    for _ in 0..2 {
        let mut recording = Recording::of(&place, program.child.id(), &[]);
        recording.says(&place, ATTACHED);
        program.tell('a');
        recording.end(&place);
        assert_eq!(count(&read(&place.path("trace.pwt")).1, ODD), 1);
    }
    assert!(program.end());

    // It was killed before the recorder was loaded.
    let mut program = Obedient::start("quiet");
    let mut recording = Recording::of(&place, program.child.id(), &[]);
    recording.says(&place, "waiting for ");
    recording.signal(libc::SIGKILL);
    recording.0.wait().unwrap();
    for _ in 0..2 {
        let mut recording = Recording::of(&place, program.child.id(), &[]);
        recording.says(&place, "waiting for ");
        program.tell('a');
        recording.says(&place, ATTACHED);
        program.tell('a');
        recording.end(&place);
        assert_eq!(count(&read(&place.path("trace.pwt")).1, ODD), 1);
    }
    assert!(program.end());
}

/// Regression: the log had stopped, but pagewise waited for the process to end.
#[test]
fn a_recording_ends_at_its_limit() {
    let place = Place::new();
    let mut program = Obedient::start("idle");
    let mut recording = Recording::of(&place, program.child.id(), &["--max-events", "3"]);
    recording.says(&place, "waiting for ");
    program.tell('a');
    recording.says(&place, ATTACHED);
    let began = Instant::now();
    let status = loop {
        program.tell('a');
        if let Some(status) = recording.0.try_wait().unwrap() {
            break status;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{}", messages(&place));
        thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "{}", messages(&place));
    assert_eq!(read(&place.path("trace.pwt")).1.len(), 3, "{}", messages(&place));
    assert!(program.end());
}

/// Regression: pagewise waited for such a process without end, whatever `--duration` said.
#[test]
fn a_process_that_allocates_nothing_is_waited_for_as_long_as_the_recording_may_last() {
    let place = Place::new();
    let mut program = Obedient::start("idle");
    program.tell('a');
    let mut recording = Recording::of(&place, program.child.id(), &["--duration", "700ms"]);
    let status = recording.0.wait().unwrap();
    assert_eq!(status.code(), Some(1), "{}", messages(&place));
    let told = messages(&place);
    assert!(told.ends_with("was not changed: it allocated nothing in that time\n"), "{told}");
    assert!(!place.path("trace.pwt").exists());
    program.tell('a');
    assert!(program.end());
}

#[test]
fn busy_threads_are_recorded_and_continue() {
    let place = Place::new();
    let mut program = Obedient::start("busy");
    program.tell('a');
    for round in 0..3 {
        let mut recording = Recording::of(&place, program.child.id(), &[]);
        recording.says(&place, ATTACHED);
        program.tell('a');
        let told = recording.end(&place);
        let (header, events) = read(&place.path("trace.pwt"));
        assert!(header.threads > THREADS, "{round}: {}", header.threads);
        assert_eq!(count(&events, ODD), 1);
        // Frees of older blocks are left out and reported; no free is duplicated or missing.
        assert!(told.contains("frees of unknown blocks left out"), "{told}");
        for wrong in ["without", "cut short", "missing frees"] {
            assert!(!told.contains(wrong), "{told}");
        }
        program.tell('a');
    }
    assert!(program.end());
}

#[test]
fn a_forked_child_is_recorded_too() {
    let place = Place::new();
    let mut program = Obedient::start("busy");
    let mut recording = Recording::of(&place, program.child.id(), &["--all"]);
    recording.says(&place, ATTACHED);
    program.tell('f');
    recording.end(&place);
    program.tell('f');
    assert!(program.end());
    let traces = [1, 2].map(|number| read(&place.path(&format!("trace.{number}.pwt"))).1);
    assert_eq!(traces.map(|events| count(&events, OF_CHILD)), [0, 1]);
}

#[test]
fn a_library_that_is_loaded_later_is_recorded() {
    if !obedient::has_zlib() {
        return;
    }
    let place = Place::new();
    let mut program = Obedient::start("busy");
    let mut recording = Recording::of(&place, program.child.id(), &[]);
    recording.says(&place, ATTACHED);
    program.tell('l');
    recording.end(&place);
    assert!(program.end());
    let events = read(&place.path("trace.pwt")).1;
    assert!((65_536..65_600).any(|size| count(&events, size) > 0), "zlib's window is not there");
}

#[test]
fn a_process_that_cannot_be_stopped_at_the_end_does_not_lose_the_recording() {
    let place = Place::new();
    let mut program = Obedient::start("busy");
    let mut recording = Recording::of(&place, program.child.id(), &[]);
    recording.says(&place, ATTACHED);
    program.tell('a');
    program.tell('v');
    recording.signal(libc::SIGINT);
    let status = recording.0.wait().unwrap();
    let told = messages(&place);
    assert_eq!(status.code(), Some(1), "{told}");
    assert!(told.contains("cannot be stopped: a thread does not stop; it may go on"), "{told}");
    assert_eq!(count(&read(&place.path("trace.pwt")).1, ODD), 1);
    program.tell('a');
    assert!(program.end());
}

#[test]
fn the_end_of_the_process_and_a_limit_end_the_recording() {
    let place = Place::new();
    let mut program = Obedient::start("busy");
    let mut recording = Recording::of(&place, program.child.id(), &["--duration", "300ms"]);
    assert!(recording.0.wait().unwrap().success(), "{}", messages(&place));
    let header = read(&place.path("trace.pwt")).0;
    assert_eq!(header.origin.note, "cut short: the recording was stopped");

    let mut recording = Recording::of(&place, program.child.id(), &[]);
    recording.says(&place, ATTACHED);
    program.tell('a');
    assert!(program.end());
    assert!(recording.0.wait().unwrap().success(), "{}", messages(&place));
    assert!(count(&read(&place.path("trace.pwt")).1, ODD) > 0);
}

#[test]
fn unsuitable_processes_are_refused_in_one_line() {
    let place = Place::new();
    let refused = |process: u32, why: &str| {
        let process = process.to_string();
        let output = place.pagewise(&["record", "--pid", &process]).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains(why), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    };
    refused(0, "there is no process 0");
    refused(u32::MAX, "there is no process 4294967295");
    refused(1 << 30, "there is no process 1073741824");

    let mut program = Obedient::start("busy");
    program.tell('a');
    let mut recording = Recording::of(&place, program.child.id(), &[]);
    recording.says(&place, ATTACHED);
    refused(program.child.id(), "is already being recorded");
    recording.end(&place);

    // SAFETY: sends signals to our child.
    unsafe { libc::kill(program.child.id() as i32, libc::SIGSTOP) };
    thread::sleep(Duration::from_millis(200));
    refused(program.child.id(), "is stopped: resume it first (`kill -CONT ");
    // SAFETY: as above.
    unsafe { libc::kill(program.child.id() as i32, libc::SIGCONT) };
    refuses_another_user(&place, program.child.id());
    assert!(program.end());
    refuses_a_static_program(&refused);
}

/// Only root can run a process of another user.
fn refuses_another_user(place: &Place, process: u32) {
    // SAFETY: the call always succeeds.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    // A copy that every user may execute.
    let copy = PathBuf::from(format!("/tmp/pagewise-attach-{}", std::process::id()));
    executable::write(&copy, &fs::read(env!("CARGO_BIN_EXE_pagewise")).unwrap());
    let output = Command::new(&copy)
        .args(["record", "--pid", &process.to_string(), "-o", "/tmp/pagewise-none.pwt"])
        .current_dir("/")
        .uid(65534)
        .output();
    fs::remove_file(&copy).unwrap();
    let text = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(
        text.contains("belongs to another user: run pagewise as that user, or as root"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text} {}", place.root().display());
}

/// A program without a loader, which waits forever.
fn refuses_a_static_program(refused: &impl Fn(u32, &str)) {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("idle.c");
    fs::write(&source, "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n").unwrap();
    let program = folder.path().join("idle");
    let built = Command::new("cc").arg("-static").arg(&source).arg("-o").arg(&program).output();
    if !built.is_ok_and(|output| output.status.success()) {
        return;
    }
    let mut child = Command::new(&program).spawn().unwrap();
    refused(child.id(), "is statically linked");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Waits until a recording in this place has been turned on or off, as requested.
fn wait_until(place: &Place, on: bool) {
    // The switch in the recording's directory counts its turns.
    let turns = || {
        let directory = fs::read_dir(place.path("tmp")).unwrap().next()?.unwrap().path();
        let turns = fs::read(directory.join("control")).ok()?;
        Some(u32::from_ne_bytes(turns.try_into().ok()?))
    };
    let start = Instant::now();
    while turns().is_none_or(|turns| (turns % 2 == 1) != on) {
        assert!(start.elapsed() < Duration::from_secs(60), "the request is carried out");
        thread::sleep(Duration::from_millis(10));
    }
    // The logs are stopped next, and the program's recorder looks at the switch.
    thread::sleep(Duration::from_millis(300));
}

/// Lets a program allocate while recording is off, on, off, on, and off again, as switched by
/// `turn`; the traces must contain exactly the allocations made while it was on.
fn records_only_while_on(place: &Place, options: &[&str], turn: impl Fn(u32, bool)) {
    let mut command = place.pagewise(&["record", "--paused", "--all", "-o", "trace.pwt"]);
    command.args(options).arg("--").arg(std::env::current_exe().unwrap());
    let mut pagewise = Obedient::of(obedient::command(&mut command, "busy"));
    pagewise.tell('a');
    for on in [true, false, true, false] {
        turn(pagewise.child.id(), on);
        wait_until(place, on);
        pagewise.tell('a');
        pagewise.tell('a');
    }
    assert!(pagewise.end());
    for number in [1, 2] {
        let (header, events) = read(&place.path(&format!("trace.{number}.pwt")));
        assert_eq!(count(&events, ODD), 2);
        assert_eq!(header.origin.note, "cut short: the recording was stopped");
    }
    assert!(!place.path("trace.3.pwt").exists());
}

#[test]
fn a_recording_is_turned_on_and_off_by_a_file() {
    let place = Place::new();
    let file = place.path("control");
    records_only_while_on(&place, &["--control", file.to_str().unwrap()], |_, on| {
        fs::write(&file, if on { "start\n" } else { "stop\n" }).unwrap();
    });
}

/// Regression: the `stop` of an earlier recording turned this one off, and nothing was said.
#[test]
fn what_the_control_file_holds_already_does_not_count() {
    let place = Place::new();
    let file = place.path("control");
    fs::write(&file, "stop\n").unwrap();
    let control = ["--control", file.to_str().unwrap()];
    let record = [&["record", "-o", "trace.pwt"], &control[..], &["--", "ls"]].concat();
    let output = place.pagewise(&record).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let told = "contains `stop` already: that counts once it is written again\npagewise: ls (";
    assert!(output.status.success() && text.contains(told), "{text}");
    // The same word counts when it is written again.
    fs::write(&file, "start\n").unwrap();
    records_only_while_on(&place, &control, |_, on| {
        thread::sleep(Duration::from_millis(50));
        fs::write(&file, if on { "start\n" } else { "stop\n" }).unwrap();
    });
}

#[test]
fn a_recording_is_turned_on_and_off_by_signals() {
    records_only_while_on(&Place::new(), &[], |pagewise, on| {
        let signal = if on { libc::SIGUSR1 } else { libc::SIGUSR2 };
        // SAFETY: sends a signal to our child, which has not been waited for.
        unsafe { libc::kill(pagewise as i32, signal) };
    });
}

#[test]
fn a_recording_that_was_never_turned_on_says_so() {
    let place = Place::new();
    let file = place.path("control");
    fs::write(&file, "go\n").unwrap();
    let file = file.to_str().unwrap();
    let output = place
        .pagewise(&["record", "--paused", "--control", file, "--", "sh", "-c", "sleep 0.5"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let said = format!("pagewise: {file} contains neither `start` nor `stop`\n");
    let rest = text.strip_prefix(&said).unwrap_or(&text);
    assert!(
        rest.starts_with(
            "pagewise: sh left no recording (exited with status 0): recording was never"
        )
    );
    assert!(!output.status.success() && rest.lines().count() == 1, "{text}");
}
