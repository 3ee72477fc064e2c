//! Runs random command lines, made of the commands and options in `--help`, with plausible and
//! hostile values. Each must work, or write one line on standard error that says what is wrong.
//!
//! A process gets one second of processor time, because some requests would run forever.
#![cfg(target_os = "linux")]

mod generate;
mod grammar;
#[path = "../../../tests/child/process.rs"]
mod process;
#[path = "../../../tests/random/mod.rs"]
mod random;

use std::ffi::OsString;
use std::fs;
use std::io::Error;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use generate::FILES;
use process::Ended;
use random::Random;
use tempfile::TempDir;

/// Far longer than a second of processor time can take.
const LIMIT: Duration = Duration::from_secs(600);

/// Limits of a process: seconds of processor time, and bytes of a file.
const LIMITS: [(libc::__rlimit_resource_t, u64); 2] =
    [(libc::RLIMIT_CPU, 1), (libc::RLIMIT_FSIZE, 256 << 20)];

/// Runs `pagewise` in this folder until it ends, or has used up its processor time.
fn run(folder: &Path, arguments: &[OsString]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pagewise"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).stderr(Stdio::piped());
    command.env("XDG_CACHE_HOME", folder).env("TMPDIR", folder);
    // SAFETY: only `setrlimit` is called between `fork` and `exec`.
    unsafe {
        command.pre_exec(|| {
            for (resource, most) in LIMITS {
                let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
                if libc::setrlimit(resource, &raw const limit) != 0 {
                    return Err(Error::last_os_error());
                }
            }
            Ok(())
        });
    }
    let ended = process::run(&mut command, LIMIT).expect("the binary runs");
    ended.unwrap_or_else(|| panic!("{arguments:?} did not end within {LIMIT:?}"))
}

/// Returns what is wrong with the result, if anything.
fn fault(arguments: &[OsString], ended: &Ended) -> Option<&'static str> {
    let Ended { code, signal, out, err } = ended;
    let told = err.lines().last().is_some_and(|line| line.starts_with("pagewise: "));
    let records = arguments.iter().any(|word| word == "record");
    match (signal, code) {
        (Some(libc::SIGXCPU | libc::SIGKILL | libc::SIGXFSZ), _) => None,
        (Some(_), _) => Some("a signal ends it"),
        _ if err.contains("panicked") => Some("it panics"),
        _ if err.chars().any(|c| c.is_control() && c != '\n') => {
            Some("it writes what it was given")
        }
        (_, Some(0)) => None,
        (_, Some(1 | 2)) if !told => Some("it does not say what is wrong"),
        (_, Some(2)) if !out.is_empty() => Some("it says more than what is wrong"),
        (_, Some(1 | 2)) => None,
        // The status of a recorded program, or of one that was not found.
        (_, Some(126 | 127)) if records => None,
        _ => Some("its status is none of ours"),
    }
}

/// Prepared files for running command lines.
struct Bench {
    commands: Vec<grammar::Command>,
    made: TempDir,
}

impl Bench {
    fn new() -> Self {
        let help = |path: &[String]| {
            let ended = run(Path::new("."), &path.iter().map(OsString::from).collect::<Vec<_>>());
            assert_eq!(ended.code, Some(0), "{path:?}: {}", ended.err);
            ended.out
        };
        let commands = grammar::commands(&help);
        assert!(commands.len() > 15 && commands.iter().all(|command| !command.options.is_empty()));
        let made = tempfile::tempdir().expect("a folder");
        generate::make_files(made.path(), |arguments| {
            let arguments: Vec<_> = arguments.iter().map(OsString::from).collect();
            let ended = run(made.path(), &arguments);
            assert_eq!(ended.code, Some(0), "{}", ended.err);
        });
        Self { commands, made }
    }

    /// Runs a command line in a folder of its own, since it may write to any file. Returns the
    /// status.
    fn answer(&self, arguments: &[OsString]) -> Option<i32> {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("folder")).expect("a new folder");
        for file in FILES {
            fs::copy(self.made.path().join(file), folder.path().join(file)).expect("a copy");
        }
        let ended = run(folder.path(), arguments);
        if let Some(fault) = fault(arguments, &ended) {
            let Ended { code, signal, out, err } = ended;
            panic!("{fault}: {arguments:?}, code {code:?}, signal {signal:?}\n{out}\n{err}");
        }
        ended.code
    }

    /// Runs random command lines from this seed on.
    fn try_random(&self, seed: u64, count: usize) {
        let mut random = Random(seed);
        let mut answers = [0_usize; 3];
        for _ in 0..count {
            let answer = self.answer(&generate::arguments(&self.commands, &mut random));
            let answer = answer.and_then(|code| answers.get_mut(usize::try_from(code).ok()?));
            answer.into_iter().for_each(|answer| *answer += 1);
        }
        println!("seed {seed}: statuses 0 to 2 {answers:?}");
        assert!(answers.iter().all(|&answers| answers > count / 40), "{answers:?} of each status");
    }
}

#[test]
fn random_command_lines() {
    Bench::new().try_random(0x5eed, 60);
}

#[test]
fn every_hostile_value_for_every_kind() {
    let bench = Bench::new();
    let lines = generate::hostile_values(&bench.commands);
    assert!(lines.len() > 500, "{} command lines", lines.len());
    for arguments in &lines {
        bench.answer(arguments);
    }
}

/// Run with `cargo test --release -p pagewise-lab --test arguments -- --ignored --nocapture`; takes
/// a seed and the number of command lines from the environment.
#[test]
#[ignore = "takes as long as one likes"]
fn many_command_lines() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let count = number("PAGEWISE_TEST_CASES").unwrap_or(10_000);
    let seed = number("PAGEWISE_TEST_SEED").unwrap_or(1);
    Bench::new().try_random(seed, usize::try_from(count).expect("a number of runs"));
}
