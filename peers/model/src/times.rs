//! The times of single steps, in nanoseconds.

use std::hint::black_box;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::Instant;
use std::{fmt, thread};

use anyhow::ensure;
use pagewise::global::Pagewise;
use serde::Serialize;

/// Times in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Times {
    /// An allocation, or a free, served by the thread's own list.
    pub(crate) operation: f64,
    /// A heap's work per block of a batch, under its lock.
    pub(crate) block: f64,
    /// The work per batch, under the lock.
    pub(crate) visit: f64,
    /// An atomic exchange on a cache line in the core's own cache.
    pub(crate) atomic: f64,
    /// A cache line from another core: of the same group, which shares a cache; of the same socket;
    /// of another socket.
    pub(crate) near: f64,
    pub(crate) far: f64,
    pub(crate) remote: f64,
}

/// Measured on 22 November 2026 on two virtual cores of an Intel Xeon server (`--measure`); `near`
/// and `remote` are assumed.
pub(crate) const RECORDED: Times = Times {
    operation: 1.7,
    block: 0.7,
    visit: 29.0,
    atomic: 4.4,
    near: 23.0,
    far: 65.0,
    remote: 163.0,
};

/// Assumed transfer times within a group, and from another socket, relative to that from another
/// group.
const NEAR: f64 = 0.35;
const REMOTE: f64 = 2.5;

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, block, visit, atomic, near, far, remote } = self;
        write!(
            f,
            "nanoseconds: operation {operation:.1}, block of a batch {block:.1}, batch {visit:.0}, atomic exchange \
             {atomic:.1}, cache line from the group {near:.0}, from the socket {far:.0}, from another {remote:.0}"
        )
    }
}

/// Measures the times, on two cores.
pub(crate) fn measure() -> anyhow::Result<Times> {
    let cpus = thread::available_parallelism()?.get();
    ensure!(cpus >= 2, "two cores are needed to measure how a cache line moves between them");
    // So few blocks that no heap is visited.
    let operation = nanoseconds(10_000_000, |count| waves(count, 64, 32)) / 2.0;
    // Blocks that are all allocated, then all freed, pass through the heap in batches: small ones
    // as many at a time as a list takes, larger ones a few.
    let through = |size, batch: f64| {
        let each = nanoseconds(1_000_000, |count| waves(count, size, 10_000)) / 2.0 - operation;
        (each * batch, batch)
    };
    let (many, most) = through(64, 128.0);
    let (few, least) = through(3_072, 5.0);
    let block = ((many - few) / (most - least)).max(0.1);
    let visit = (few - block * least).max(1.0);
    let counter = AtomicUsize::new(0);
    let atomic = nanoseconds(10_000_000, |count| {
        (0..count).for_each(|_| {
            counter.fetch_add(1, AcqRel);
        });
    });
    let far = nanoseconds(200_000, turns) / 2.0;
    Ok(Times { operation, block, visit, atomic, near: far * NEAR, far, remote: far * REMOTE })
}

/// Returns the median of five runs, per `count`.
fn nanoseconds(count: usize, mut action: impl FnMut(usize)) -> f64 {
    let mut runs = [(); 5].map(|()| {
        let start = Instant::now();
        action(count);
        start.elapsed().as_nanos() as f64 / count as f64
    });
    runs.sort_by(f64::total_cmp);
    runs[2]
}

const PAGEWISE: Pagewise = Pagewise::new();

/// Allocates and frees `count` blocks, `at_a_time` at a time.
fn waves(count: usize, size: usize, at_a_time: usize) {
    let mut blocks = Vec::with_capacity(at_a_time);
    for _ in 0..count / at_a_time {
        blocks.extend((0..at_a_time).map(|_| black_box(PAGEWISE.allocate(size))));
        // SAFETY: each was allocated above, and is freed once.
        blocks.drain(..).for_each(|block| unsafe { PAGEWISE.free(block) });
    }
}

/// Two threads on separate cores count by turns.
fn turns(count: usize) {
    let counter = &AtomicUsize::new(0);
    let turn = |core: usize| {
        pin(core);
        for turn in (core..2 * count).step_by(2) {
            // No pause instruction, which takes longer than the transfer.
            while counter.load(Acquire) != turn {}
            counter.store(turn + 1, Release);
        }
    };
    thread::scope(|scope| {
        scope.spawn(move || turn(0));
        scope.spawn(move || turn(1));
    });
}

/// Pins the calling thread to one of its allowed cores. Does nothing if that is refused.
fn pin(index: usize) {
    // SAFETY: all bits zero is a valid set, and the calls read and write sets.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut allowed);
        let mut cores =
            (0..libc::CPU_SETSIZE as usize).filter(|&core| libc::CPU_ISSET(core, &allowed));
        if let Some(core) = cores.nth(index) {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(core, &mut one);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const one);
        }
    }
}
