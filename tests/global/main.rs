//! The global allocator, under this very test program.
//!
//! What is measured of the whole process (memory, limits, forks) is measured in a process of its
//! own: the test runs this program again, with one of the tests that are otherwise ignored.

#![cfg(any(target_os = "linux", windows))]

#[cfg(unix)]
mod background;
#[cfg(unix)]
#[path = "../child/mod.rs"]
mod child;
#[cfg(unix)]
mod damage;
#[cfg(unix)]
mod fork;
#[cfg(unix)]
mod free_memory;
mod layouts;
#[cfg(unix)]
mod limits;
mod medium;
#[cfg(unix)]
mod memory;
mod misuse;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod pages;
#[path = "../random/mod.rs"]
mod random;
mod statistics;
mod threads;
mod tunings;

use std::process::{Command, ExitStatus};

use pagewise::global::Pagewise;
use random::Random;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();

/// Runs an ignored test in a process of its own.
fn run_alone(test: &str) {
    run_prepared(test, |_| {});
}

/// Runs an ignored test in a process of its own, which `prepare` has seen to.
fn run_prepared(test: &str, prepare: impl FnOnce(&mut Command)) {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command.args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    prepare(&mut command);
    let output = command.output().expect("this program can be run");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{test}: {out}{err}");
}

/// Bytes of this process that are resident now.
#[cfg(unix)]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("there is a /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its line");
    let kib: usize = line.trim_end_matches("kB").trim().parse().expect("a number");
    kib << 10
}

/// As far as the allocator knows.
#[cfg(windows)]
fn resident() -> usize {
    ALLOCATOR.stats().resident
}

/// Whether a process stopped itself.
fn was_aborted(status: ExitStatus) -> bool {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGABRT);
    /// What the system calls a fault that the process found itself.
    #[cfg(windows)]
    const FAIL_FAST: i32 = 0xc000_0409_u32 as i32;
    #[cfg(windows)]
    return status.code() == Some(FAIL_FAST);
}

/// A block whose bytes can be told from those of other blocks.
struct Marked(Vec<u8>);

impl Marked {
    fn new(size: usize, mark: usize) -> Self {
        Self((0..size).map(|index| (mark + index) as u8).collect())
    }

    /// Panics unless every byte is as it was written.
    fn check(&self, mark: usize) {
        let intact = self.0.iter().enumerate().all(|(index, &byte)| byte == (mark + index) as u8);
        assert!(intact, "a block of {} bytes is not what was written", self.0.len());
    }
}

impl Random {
    /// A size as programs ask for: mostly small, now and then large.
    fn size(&mut self) -> usize {
        match self.below(1000) {
            0 => self.below(1 << 20),
            1..20 => self.below(100_000),
            20..200 => self.below(5_000),
            _ => self.below(300),
        }
    }
}
