//! What a process of the grid does: one pattern of calls, with blocks of one size.

use std::ffi::c_void;
use std::hint::black_box;
use std::str::FromStr;
use std::{fs, ptr, thread};

use crate::random::Random;

/// One point of the grid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) pattern: Pattern,
    /// Bytes of a block.
    pub(crate) size: usize,
    /// Blocks in use at a time, where the pattern has several.
    pub(crate) live: usize,
    /// Whether blocks are written all over, or only in their first and last byte.
    pub(crate) writes_all: bool,
}

/// A pattern of calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    pub(crate) name: &'static str,
    /// Whether it has several blocks in use at a time.
    pub(crate) has_several: bool,
    /// Makes some calls and returns their number. An allocation and a free are one.
    calls: fn(&mut Run) -> usize,
}

impl Pattern {
    /// With one block at a time.
    const fn one(name: &'static str, calls: fn(&mut Run) -> usize) -> Self {
        Self { name, has_several: false, calls }
    }

    /// With several blocks at a time.
    const fn several(name: &'static str, calls: fn(&mut Run) -> usize) -> Self {
        Self { name, has_several: true, calls }
    }

    pub(crate) const ALL: &[Self] = &[
        Self::one("pair", |run| run.replace_with(|_| 0, |run| run.size)),
        Self::several("in turn", |run| run.replace_with(Run::next, |run| run.size)),
        Self::several("at random", |run| run.replace_with(Run::any, |run| run.size)),
        Self::several("random sizes", |run| run.replace_with(Run::any, Run::any_size)),
        Self::several("waves", |run| run.wave(|run| run.size, false)),
        Self::several("reversed waves", |run| run.wave(|run| run.size, true)),
        Self::several("waves of sizes", |run| run.wave(Run::any_size, false)),
        Self::several("calloc", |run| run.replace(Run::any, Run::zeroed)),
        Self::several("aligned to 64", |run| run.replace(Run::any, |run| run.aligned(64))),
        Self::several("aligned to 4096", |run| run.replace(Run::any, |run| run.aligned(4096))),
        Self::one("doubling", Run::double),
        Self::one("growing by a little", Run::grow_by_a_little),
        Self::several("growing side by side", Run::grow_by_a_little),
        Self::one("shrinking", Run::shrink),
        Self::several("four threads", Run::threads),
        Self::one("a thread's start", Run::start),
    ];
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.iter().find(|pattern| pattern.name == name).copied().ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|pattern| pattern.name).collect();
            format!("unknown pattern {name:?}; available: {}", names.join(", "))
        })
    }
}

/// What a process measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// CPU time of a call, or of a pair of calls; the least of several parts of the run.
    pub(crate) nanoseconds: f64,
    /// Peak resident memory.
    pub(crate) mebibytes: f64,
}

impl Figures {
    pub(crate) const MOST: Self = Self { nanoseconds: f64::INFINITY, mebibytes: f64::INFINITY };

    pub(crate) fn min(self, other: Self) -> Self {
        Self {
            nanoseconds: self.nanoseconds.min(other.nanoseconds),
            mebibytes: self.mebibytes.min(other.mebibytes),
        }
    }
}

/// Runs a pattern for some five times `part` seconds of CPU time.
pub(crate) fn measure(point: Point, part: f64) -> Figures {
    let mut run = Run {
        size: point.size,
        writes_all: point.writes_all,
        blocks: vec![ptr::null_mut(); if point.pattern.has_several { point.live } else { 1 }],
        last: 0,
        random: Random::new(7),
    };
    let calls = point.pattern.calls;
    calls(&mut run);
    let mut least = f64::INFINITY;
    for _ in 0..5 {
        let (start, mut count) = (cpu_seconds(), 0);
        let seconds = loop {
            count += calls(&mut run);
            let seconds = cpu_seconds() - start;
            if seconds >= part {
                break seconds;
            }
        };
        least = least.min(seconds / count as f64);
    }
    Figures { nanoseconds: least * 1e9, mebibytes: peak() }
}

/// The CPU time of this process.
fn cpu_seconds() -> f64 {
    // SAFETY: all bits zero is a valid value, and the call writes to it.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time);
        time
    };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The peak resident memory of this process since it began to run this program, in MiB.
fn peak() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    let kibibytes = line.trim().trim_end_matches(" kB").parse::<f64>();
    kibibytes.unwrap_or(f64::NAN) / 1024.0
}

/// The state of a run. A null block is none.
struct Run {
    size: usize,
    writes_all: bool,
    blocks: Vec<*mut c_void>,
    last: usize,
    random: Random,
}

/// Calls between two looks at the clock.
const CALLS: usize = 100;

impl Run {
    fn next(&mut self) -> usize {
        self.last = (self.last + 1) % self.blocks.len();
        self.last
    }

    fn any(&mut self) -> usize {
        self.random.below(self.blocks.len())
    }

    /// A size from half of the block's to one and a half times that.
    fn any_size(&mut self) -> usize {
        self.size / 2 + 1 + self.random.below(self.size)
    }

    fn zeroed(&mut self) -> *mut c_void {
        // SAFETY: a call of `calloc`.
        unsafe { libc::calloc(1, self.size) }
    }

    fn aligned(&mut self, align: usize) -> *mut c_void {
        let mut block = ptr::null_mut();
        // SAFETY: the call writes a pointer, or fails.
        let error = unsafe { libc::posix_memalign(&raw mut block, align, self.size) };
        assert_eq!(error, 0, "there is memory");
        block
    }

    /// Writes to a new block, or to the new part of one, of `size` bytes.
    fn write(&self, block: *mut c_void, size: usize) -> *mut c_void {
        assert!(!block.is_null(), "there is memory");
        let bytes = black_box(block).cast::<u8>();
        // SAFETY: the block has `size` bytes, and nobody else uses it.
        unsafe {
            if self.writes_all {
                bytes.write_bytes(1, size);
            } else {
                bytes.write(1);
                bytes.add(size - 1).write(1);
            }
        }
        block
    }

    /// Replaces the blocks that `choose` names by those that `allocate` returns.
    fn replace(
        &mut self,
        choose: impl Fn(&mut Self) -> usize,
        allocate: impl Fn(&mut Self) -> *mut c_void,
    ) -> usize {
        for _ in 0..CALLS {
            let number = choose(self);
            // SAFETY: the block is in use or null, and replaced.
            unsafe { libc::free(self.blocks[number]) };
            let block = allocate(self);
            self.blocks[number] = self.write(block, self.size);
        }
        CALLS
    }

    /// As [`replace`](Self::replace), by blocks of the sizes that `size` returns.
    fn replace_with(
        &mut self,
        choose: impl Fn(&mut Self) -> usize,
        size: impl Fn(&mut Self) -> usize,
    ) -> usize {
        for _ in 0..CALLS {
            let (number, size) = (choose(self), size(self));
            // SAFETY: the block is in use or null, and replaced.
            let block = unsafe {
                libc::free(self.blocks[number]);
                libc::malloc(size)
            };
            self.blocks[number] = self.write(block, size);
        }
        CALLS
    }

    /// Allocates all blocks, then frees all.
    fn wave(&mut self, size: impl Fn(&mut Self) -> usize, last_first: bool) -> usize {
        for number in 0..self.blocks.len() {
            let size = size(self);
            // SAFETY: a call of `malloc`.
            self.blocks[number] = self.write(unsafe { libc::malloc(size) }, size);
        }
        self.free_all(last_first);
        self.blocks.len()
    }

    fn free_all(&mut self, last_first: bool) {
        if last_first {
            self.blocks.reverse();
        }
        for block in &mut self.blocks {
            // SAFETY: the block is in use or null, and forgotten.
            unsafe { libc::free(std::mem::replace(block, ptr::null_mut())) };
        }
    }

    fn resize(&mut self, number: usize, size: usize) {
        // SAFETY: the block is in use or null; from then on only the one returned is used.
        let block = unsafe { libc::realloc(self.blocks[number], size) };
        assert!(!block.is_null(), "there is memory");
        // Growing does not write the old part again.
        // SAFETY: the block has this many bytes.
        unsafe { block.cast::<u8>().add(size - 1).write(1) };
        self.blocks[number] = block;
    }

    /// Doubles the size of one block from 16 bytes on, then frees it.
    fn double(&mut self) -> usize {
        let (mut size, mut count) = (16, 0);
        while count == 0 || size < self.size {
            size *= 2;
            self.resize(0, size);
            count += 1;
        }
        self.free_all(false);
        count
    }

    /// Grows blocks in turn, in 16 steps, then frees them.
    fn grow_by_a_little(&mut self) -> usize {
        for step in 1..=16 {
            for number in 0..self.blocks.len() {
                self.resize(number, (self.size * step / 16).max(1));
            }
        }
        self.free_all(false);
        16 * self.blocks.len()
    }

    /// Shrinks a block to half its size and to a quarter; a call is one of the two.
    fn shrink(&mut self) -> usize {
        for _ in 0..CALLS / 2 {
            // SAFETY: a call of `malloc`.
            self.blocks[0] = self.write(unsafe { libc::malloc(self.size) }, self.size);
            self.resize(0, self.size / 2 + 1);
            self.resize(0, self.size / 4 + 1);
            self.free_all(false);
        }
        CALLS
    }

    /// Four threads replace blocks at random, each its own.
    fn threads(&mut self) -> usize {
        const ROUNDS: usize = 100;
        let (size, writes_all, live) = (self.size, self.writes_all, self.blocks.len());
        thread::scope(|scope| {
            for seed in 1..=4 {
                scope.spawn(move || {
                    let blocks = vec![ptr::null_mut(); live];
                    let random = Random::new(seed);
                    let mut own = Run { size, writes_all, blocks, last: 0, random };
                    (0..ROUNDS).for_each(|_| {
                        own.replace_with(Run::any, |run| run.size);
                    });
                    own.free_all(false);
                });
            }
        });
        4 * ROUNDS * CALLS
    }

    /// A thread allocates eight blocks, and frees them.
    fn start(&mut self) -> usize {
        let (size, writes_all) = (self.size, self.writes_all);
        let work = move || {
            let (blocks, random) = (vec![ptr::null_mut(); 8], Random::new(1));
            Run { size, writes_all, blocks, last: 0, random }.wave(|run| run.size, false);
        };
        thread::spawn(work).join().expect("it ends");
        1
    }
}
