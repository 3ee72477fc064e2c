//! Tests of the global allocator, which also serves this test program.
//!
//! Properties of a whole process (memory, limits, forks) are tested in a child process: the test
//! runs this program again, with one of its ignored tests.
//!
//! With `--cfg pagewise_portable_os`, memory that was given back still counts as resident, and the
//! heaps' addresses count as used: modules that measure either are left out.

#![cfg(any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows))]

#[cfg(any(all(target_os = "linux", not(pagewise_portable_os)), windows))]
mod background;
#[path = "../child/mod.rs"]
mod child;
mod damage;
#[cfg(unix)]
mod fork;
mod free_memory;
mod layouts;
#[cfg(all(target_os = "linux", not(pagewise_portable_os)))]
mod limits;
mod medium;
#[cfg(any(all(target_os = "linux", not(pagewise_portable_os)), windows))]
mod memory;
mod misuse;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod pages;
#[path = "../random/mod.rs"]
mod random;
mod statistics;
mod threads;
mod tunings;

use pagewise::global::Pagewise;
use random::Random;

#[global_allocator]
static ALLOCATOR: Pagewise = Pagewise::new();

/// A block whose bytes differ from those of other blocks.
struct Marked(Vec<u8>);

impl Marked {
    fn new(size: usize, mark: usize) -> Self {
        Self((0..size).map(|index| (mark + index) as u8).collect())
    }

    /// Panics unless every byte is as written.
    fn check(&self, mark: usize) {
        let intact = self.0.iter().enumerate().all(|(index, &byte)| byte == (mark + index) as u8);
        assert!(intact, "a block of {} bytes is not what was written", self.0.len());
    }
}

impl Random {
    /// Returns a size as programs request it: mostly small, sometimes large.
    fn size(&mut self) -> usize {
        match self.below(1000) {
            0 => self.below(1 << 20),
            1..20 => self.below(100_000),
            20..200 => self.below(5_000),
            _ => self.below(300),
        }
    }
}
