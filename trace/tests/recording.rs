//! `Recording<A>` as this program's own allocator. Each test starts the program again, armed, with
//! a scenario to play, and examines the logs it leaves.
#![cfg(target_os = "linux")]

mod storm;

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use pagewise_trace::raw::{
    self, Control, Converter, DIRECTORY, Dropped, EXTENSION, FAILED, LogOrigin, MAX_LOG, Record,
    Stopped,
};
use pagewise_trace::{Event, Ledger, Recording};
use storm::{ROUNDS, THREADS, storm};

#[global_allocator]
static ALLOCATOR: Recording<System> = Recording::new(System);

/// Environment variable that selects the scenario of the restarted program.
const SCENARIO: &str = "PAGEWISE_TEST_SCENARIO";

/// The contents of a log.
struct Recorded {
    origin: LogOrigin,
    events: Vec<Event>,
    threads: u32,
    dropped: Dropped,
    holes: u64,
    /// Number of events before each clock sample, and its time.
    looks: Vec<(usize, u64)>,
}

impl Recorded {
    fn read(path: &Path) -> Self {
        let mut records = raw::open(path).unwrap();
        let (mut converter, mut ledger, mut events) = (Converter::new(), Ledger::new(), Vec::new());
        let mut looks = Vec::new();
        while let Some(record) = records.next() {
            let (thread, record) = record.unwrap();
            if let Some(time) = records.nanoseconds()
                && looks.last().is_none_or(|&(_, last)| last != time)
            {
                looks.push((events.len(), time));
            }
            let emitted = converter.convert(thread, record, |event| {
                events.push(event);
                ledger.enter(event)
            });
            emitted.unwrap();
        }
        Self {
            origin: records.origin().clone(),
            events,
            threads: ledger.counts().threads,
            dropped: converter.dropped(),
            holes: records.holes(),
            looks,
        }
    }

    fn count(&self, wanted: impl Fn(&Event) -> bool) -> usize {
        self.events.iter().filter(|event| wanted(event)).count()
    }
}

/// Plays a scenario in its own process; returns the logs, parents before children.
fn play(scenario: &str) -> Vec<Recorded> {
    play_within(scenario, u64::MAX)
}

/// Like [`play`], with logs of at most `most` bytes.
fn play_within(scenario: &str, most: u64) -> Vec<Recorded> {
    play_prepared(scenario, most, |_, _| {})
}

/// Like [`play_within`], in a process set up by `prepare`, which gets the directory of the logs.
fn play_prepared(
    scenario: &str,
    most: u64,
    prepare: impl FnOnce(&mut Command, &Path),
) -> Vec<Recorded> {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "scenarios", "--nocapture"]);
    command.env(SCENARIO, scenario).env(DIRECTORY, directory.path()).env(MAX_LOG, most.to_string());
    prepare(&mut command, directory.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut logs: Vec<_> =
        files.filter(|path| is_log(path)).map(|path| Recorded::read(&path)).collect();
    logs.sort_by_key(|log| log.origin.started);
    logs
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

/// Not a test: plays the scenario it is started for.
#[test]
fn scenarios() {
    match std::env::var(SCENARIO).as_deref() {
        Ok("calls") => calls(),
        Ok("storm") => storm(),
        Ok("fork") => fork(),
        Ok("switched") => switched(),
        Ok("many") => many(),
        Ok("files") => files(),
        Ok("unwalked") => unwalked(),
        _ => {}
    }
}

/// Sizes and alignments that nothing else requests.
const ODD: usize = 123_457;

/// Every call of the allocator's interface once.
fn calls() {
    let layout = |size, align| Layout::from_size_align(size, align).unwrap();
    // SAFETY: every block is used with its layout, and freed once.
    unsafe {
        let block = ALLOCATOR.alloc(layout(ODD, 64));
        let block = ALLOCATOR.realloc(block, layout(ODD, 64), ODD + 1);
        ALLOCATOR.dealloc(block, layout(ODD + 1, 64));
        let block = ALLOCATOR.alloc_zeroed(layout(ODD + 2, 1));
        ALLOCATOR.dealloc(block, layout(ODD + 2, 1));
        // Fails, and is not recorded.
        assert!(ALLOCATOR.alloc(layout(isize::MAX as usize - 4096, 1)).is_null());
        let block = ALLOCATOR.alloc(layout(ODD + 3, 1));
        assert!(ALLOCATOR.realloc(block, layout(ODD + 3, 1), isize::MAX as usize - 4096).is_null());
        ALLOCATOR.dealloc(block, layout(ODD + 3, 1));
    }
}

#[test]
fn every_call_is_recorded() {
    let logs = play("calls");
    assert_eq!(logs.len(), 1);
    let log = &logs[0];
    assert!(log.dropped.is_nothing() && log.holes == 0, "{:?}", log.dropped);
    assert!(log.origin.origin.program.starts_with("recording"));
    assert_eq!(log.origin.origin.arguments[..2], ["--exact", "scenarios"]);

    let odd = ODD as u64..ODD as u64 + 9;
    let mut slots = HashMap::new();
    let mut seen = Vec::new();
    for &event in &log.events {
        match event {
            Event::Allocate { slot, size, align } if odd.contains(&size) => {
                slots.insert(slot, ());
                seen.push((size - odd.start, align));
            }
            Event::Reallocate { slot, size } if slots.contains_key(&slot) => {
                seen.push((size - odd.start, 0));
            }
            Event::Free { slot } if slots.remove(&slot).is_some() => seen.push((0, 1)),
            _ => {}
        }
    }
    let freed = (0, 1);
    assert_eq!(seen, [(0, 64), (1, 0), freed, (2, 1), freed, (3, 1), freed]);
}

#[test]
fn threads_are_distinguished_and_their_order_is_kept() {
    let logs = play("storm");
    assert_eq!(logs.len(), 1);
    let log = &logs[0];
    // A free recorded after its address was reused would show as a missing free and an unknown one.
    assert!(log.dropped.is_nothing() && log.holes == 0, "{:?}", log.dropped);
    assert!(log.threads > THREADS, "{} threads", log.threads);
    let reallocations = log.count(|event| matches!(event, Event::Reallocate { .. }));
    assert!(reallocations >= THREADS as usize * ROUNDS, "{reallocations}");
}

#[test]
fn the_clock_is_sampled_from_beginning_to_end() {
    let begin = std::time::Instant::now();
    let logs = play("storm");
    let passed = begin.elapsed().as_nanos() as u64;
    let Recorded { looks, events, .. } = &logs[0];
    assert_eq!(looks[0].1, 0);
    assert!(looks[0].0 < 10, "the first record is behind the first look");
    let (last, time) = looks[looks.len() - 1];
    // Most records are one word long. A thread that is delayed appends its sample later.
    assert!(events.len() - last <= 5000, "{last} of {}", events.len());
    assert!(events.len() / looks.len() <= 300, "{} looks at {}", looks.len(), events.len());
    assert!((1..passed).contains(&time), "{time} of {passed} ns");
    let backwards = looks.windows(2).filter(|two| two[1].1 < two[0].1).count();
    assert!(backwards < looks.len() / 4, "{backwards} of {}", looks.len());
}

/// A child that frees blocks of its parent, allocates, and has a child of its own.
fn fork() {
    let inherited: Vec<Box<[u8]>> = (0..50).map(|_| vec![0; ODD].into_boxed_slice()).collect();
    // SAFETY: the child only uses memory and ends without returning; no other thread of this
    // process holds a lock that it needs, since the test runner is waiting.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            drop(inherited);
            drop(vec![0_u8; ODD + 1]);
            if libc::fork() == 0 {
                drop(vec![0_u8; ODD + 2]);
                libc::_exit(0);
            }
            libc::wait(std::ptr::null_mut());
            libc::_exit(0);
        }
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    drop(vec![0_u8; ODD + 3]);
    drop(inherited);
}

#[test]
fn children_of_fork_have_logs_of_their_own() {
    let logs = play("fork");
    let allocations = |log: &Recorded, odd: usize| {
        log.count(|event| matches!(event, Event::Allocate { size, .. } if *size == odd as u64))
    };
    let [parent, child, grandchild] = &logs[..] else { panic!("{} logs", logs.len()) };
    assert_eq!([0, 1, 2, 3].map(|more| allocations(parent, ODD + more)), [50, 0, 0, 1]);
    assert_eq!([0, 1, 2, 3].map(|more| allocations(child, ODD + more)), [0, 1, 0, 0]);
    assert_eq!([0, 1, 2, 3].map(|more| allocations(grandchild, ODD + more)), [0, 0, 1, 0]);
    assert!(parent.dropped.is_nothing(), "{:?}", parent.dropped);
    // The 50 blocks and the vector that held them.
    assert_eq!(child.dropped, Dropped { unknown_frees: 51, ..Dropped::default() });
    assert_eq!(child.origin.parent, parent.origin.process);
    assert_eq!(grandchild.origin.parent, child.origin.process);
}

/// Allocates before recording is turned on, while it is on, off, and on again.
fn switched() {
    drop(vec![0_u8; ODD]);
    let control = Path::new(&std::env::var_os(DIRECTORY).unwrap()).join("control");
    let control = File::options().write(true).open(control).unwrap();
    for number in 1..=3_u32 {
        control.write_all_at(&number.to_ne_bytes(), 0).unwrap();
        drop(vec![0_u8; ODD + number as usize]);
    }
}

#[test]
fn each_time_that_recording_is_on_has_a_log() {
    let logs = play_prepared("switched", u64::MAX, |_, directory| {
        Control::create(directory, false).unwrap();
    });
    let [first, second] = &logs[..] else { panic!("{} logs", logs.len()) };
    let allocations = |log: &Recorded| {
        [0, 1, 2, 3].map(|more| {
            let odd = (ODD + more) as u64;
            log.count(|event| matches!(event, Event::Allocate { size, .. } if *size == odd))
        })
    };
    assert_eq!((allocations(first), allocations(second)), ([0, 1, 0, 0], [0, 0, 0, 1]));
}

/// Allocates more than fills the first part of a log, which holds 16,384 common records.
fn many() {
    for _ in 0..40_000 {
        drop(std::hint::black_box(vec![0_u8; ODD]));
    }
}

/// Regression: the recorder went on after `pagewise` was killed, until the disk was full.
#[test]
fn a_log_grows_only_while_its_keeper_is_there() {
    let stopped = |end: bool| {
        let mut kept = None;
        let logs = play_prepared("many", u64::MAX, |_, directory| {
            kept = Some(raw::Keeper::create(directory).unwrap()).filter(|_| !end);
        });
        drop(kept);
        assert_eq!(logs.len(), 1);
        (logs[0].origin.stopped, logs[0].count(|_| true) > 50_000)
    };
    assert_eq!(stopped(false), (None, true));
    assert_eq!(stopped(true), (Some(Stopped::Asked), false));
}

/// A program that closes, counts or numbers its files notices no log.
fn files() {
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let open = open.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
    let ours: Vec<_> = open.filter(|path| is_log(path) || path.ends_with("cmdline")).collect();
    assert!(ours.is_empty(), "{ours:?}");
}

#[test]
fn no_file_stays_open() {
    assert_eq!(play("files").len(), 1);
}

/// Makes a record that could have a call stack.
fn unwalked() {
    let record = Record::Allocated { address: 9, size: ODD as u64, align_log2: 0 };
    raw::record_at(1, record, |_, _| panic!("no stacks are requested"));
}

#[test]
fn a_stack_is_walked_only_on_request() {
    let logs = play("unwalked");
    let odd = |event: &Event| matches!(event, Event::Allocate { size, .. } if *size == ODD as u64);
    assert_eq!(logs[0].count(odd), 1);
}

#[test]
fn nothing_is_recorded_unless_armed() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    // Both exist, but one is not absolute, and the other is longer than the recorder allows.
    let relative = directory.path().join("relative");
    std::fs::create_dir(&relative).unwrap();
    let too_long = directory.path().join("./".repeat(600));
    for armed in [None, Some(&*missing), Some(Path::new("relative")), Some(&*too_long)] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "scenarios"])
            .env(SCENARIO, "calls")
            .env_remove(DIRECTORY)
            .current_dir(directory.path());
        if let Some(path) = armed {
            command.env(DIRECTORY, path);
        }
        assert!(command.output().unwrap().status.success(), "{armed:?}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    assert_eq!(std::fs::read_dir(relative).unwrap().count(), 0);
}

/// Limits the length of the files that a program can write.
fn limit_files(command: &mut Command, bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes as _, rlim_max: bytes as _ };
    // SAFETY: only `setrlimit` is called between `fork` and `exec`.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(libc::RLIMIT_FSIZE, &limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
}

#[test]
fn a_log_that_cannot_be_created_leaves_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "scenarios"]).env(SCENARIO, "calls").env(DIRECTORY, directory.path());
    limit_files(&mut command, 1000);
    assert!(command.output().unwrap().status.success());
    let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(Result::unwrap).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    let name = file.file_name().into_string().unwrap();
    assert!(name.ends_with(&format!(".0.{}.{FAILED}", libc::EFBIG)), "{name}");
    assert_eq!(file.metadata().unwrap().len(), 0);
}

/// A signal would kill the program if its log grew beyond the limit.
#[test]
fn a_limit_of_file_sizes_ends_the_log_and_not_the_program() {
    let logs = play_prepared("storm", u64::MAX, |command, _| limit_files(command, 300 << 10));
    let [log] = &logs[..] else { panic!("{} logs", logs.len()) };
    assert!(matches!(log.origin.stopped, Some(Stopped::Failed(_))), "{:?}", log.origin.stopped);
    assert!(log.events.len() > 1000, "what came before is there");
}

#[test]
fn a_log_that_reaches_its_limit_is_marked() {
    let whole = &play("calls")[0];
    assert_eq!(whole.origin.stopped, None);
    let cut = &play_within("storm", (64 << 10) + 4096)[0];
    assert_eq!(cut.origin.stopped, Some(Stopped::Limit));
    assert!((1..=4096 / 8).contains(&cut.events.len()), "{} events", cut.events.len());
}

/// Returns whether a cut before byte `cut` of a log removes some of a record's further words, or
/// all.
fn torn(log: &[u8], cut: usize) -> bool {
    let word = log[cut & !7..].first_chunk().map(|word| u64::from_ne_bytes(*word));
    word.is_some_and(|word| word & 7 == 7)
}

#[test]
fn a_damaged_log_is_refused_or_read_but_never_panics() {
    let directory = tempfile::tempdir().unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "scenarios"])
        .env(SCENARIO, "calls")
        .env(DIRECTORY, directory.path())
        .status();
    assert!(status.unwrap().success());
    let path = std::fs::read_dir(directory.path()).unwrap().next().unwrap().unwrap().path();
    let log = std::fs::read(path).unwrap();
    let convert = |bytes: &[u8]| {
        let mut converter = Converter::new();
        let records = raw::LogReader::new(bytes).ok()?;
        for record in records {
            let (thread, record): (u32, Record) = record.ok()?;
            converter.convert(thread, record, |_| Ok::<_, ()>(())).ok()?;
        }
        Some(())
    };
    assert!(convert(&log).is_some());
    // If the log is cut anywhere among its records, or has a claimed record that was never written,
    // the rest can be read, and is the same.
    let read = |bytes: &[u8]| {
        let mut reader = raw::LogReader::new(bytes).unwrap();
        let records: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
        (records, reader.holes())
    };
    let (all, none) = read(&log);
    assert_eq!(none, 0);
    for cut in 65_536..65_536 + 100 {
        let (records, holes) = read(&log[..cut]);
        assert!(all.starts_with(&records));
        // A truncated word, and the record that it belonged to.
        assert!(holes <= 2);
        assert_eq!(holes > 0, log[cut & !7..cut].iter().any(|&byte| byte != 0) || torn(&log, cut));
    }
    let mut missing = log.clone();
    missing[65_536 + 8..65_536 + 24].fill(0);
    let (records, holes) = read(&missing);
    assert_eq!((records[0], holes), (all[0], 1));
    assert!((1..=2).contains(&(all.len() - records.len())), "{} of {}", records.len(), all.len());
    for cut in [0, 7, 8, 65_535, 65_536, 65_537, 65_536 + 23, 65_536 + 24] {
        let _ = convert(&log[..cut]);
    }
    let mut damaged = log.clone();
    for byte in (0..64).chain(65_536..65_536 + 2400) {
        for bit in 0..8 {
            damaged[byte] ^= 1 << bit;
            let _ = convert(&damaged[..70_000]);
            damaged[byte] ^= 1 << bit;
        }
    }
}
