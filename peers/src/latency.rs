//! Measures single calls: percentiles of the calling thread's CPU time, which other load on the
//! machine hardly affects. Reading that clock takes longer than most calls, so the median
//! difference of two consecutive readings is subtracted; the largest such difference is reported as
//! well.

use std::hint::black_box;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::found::note;
use crate::random::Random;
use crate::system;
use crate::workloads::{Block, Workload, shuffle};

pub(crate) const WORKLOADS: &[(&str, Workload)] = &[
    ("latency small", |parts| pair(10_000, 1_000_000 / parts, small)),
    ("latency medium", |parts| {
        pair(500, 300_000 / parts, |random| (10 << 10) + random.below(90 << 10))
    }),
    ("latency beside small frees", |parts| beside_frees(small, parts)),
    ("latency beside mixed frees", |parts| beside_frees(mixed, parts)),
];

/// Buckets per doubling of a time.
const FINE: usize = 32;

/// A histogram of times, precise to a thirty-second; it allocates nothing.
struct Times([u32; FINE * 40]);

impl Times {
    const NONE: Self = Self([0; FINE * 40]);

    fn add(&mut self, time: u64) {
        let doubling = (time | FINE as u64).ilog2() as usize - FINE.ilog2() as usize;
        let bucket = doubling * FINE + (time >> doubling) as usize;
        self.0[bucket.min(self.0.len() - 1)] += 1;
    }

    fn join(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own += other);
    }

    /// Returns the smallest bucket's time that `of_million` of a million times do not exceed.
    fn percentile(&self, of_million: u64) -> usize {
        let count: u64 = self.0.iter().copied().map(u64::from).sum();
        let wanted = (count * of_million).div_ceil(1_000_000);
        let mut below = 0;
        let bucket = self.0.iter().position(|&times| {
            below += u64::from(times);
            below >= wanted
        });
        match bucket.unwrap_or(0) {
            bucket if bucket < 2 * FINE => bucket,
            bucket => (FINE + bucket % FINE) << (bucket / FINE - 1),
        }
    }

    /// Records the percentiles, minus the clock's own time.
    fn note(&self, names: [&'static str; 5], clock: usize) {
        for (name, of_million) in
            names.into_iter().zip([500_000, 990_000, 999_000, 999_900, 1_000_000])
        {
            note(name, self.percentile(of_million).saturating_sub(clock));
        }
    }
}

/// A thread's measurements.
struct Measured {
    clock: Times,
    malloc: Times,
    free: Times,
}

impl Measured {
    const NONE: Self = Self { clock: Times::NONE, malloc: Times::NONE, free: Times::NONE };

    /// Replaces a block by one of another size.
    fn replace(&mut self, block: &mut Block, size: usize) {
        let start = system::thread_time();
        let clock = system::thread_time();
        let fresh = Block::new(size);
        let malloc = system::thread_time();
        fresh.write_pages();
        let old = std::mem::replace(block, fresh);
        self.clock.add(clock - start);
        self.malloc.add(malloc - clock);
        self.free(old);
    }

    fn free(&mut self, block: Block) {
        let start = system::thread_time();
        drop(black_box(block));
        self.free.add(system::thread_time() - start);
    }

    fn join(mut self, other: &Self) -> Self {
        self.clock.join(&other.clock);
        self.malloc.join(&other.malloc);
        self.free.join(&other.free);
        self
    }

    /// Returns the nanoseconds that a clock reading takes.
    fn clock(&self) -> usize {
        self.clock.percentile(500_000)
    }

    fn note(&self) {
        let clock = self.clock();
        let malloc = ["malloc p50, ns", "p99", "p99.9", "p99.99", "most"];
        self.malloc.note(malloc, clock);
        self.free.note(["free p50, ns", "p99", "p99.9", "p99.99", "most"], clock);
        note("nothing p99.99, ns", self.clock.percentile(999_900).saturating_sub(clock));
        note("most", self.clock.percentile(1_000_000).saturating_sub(clock));
    }
}

/// Two threads replace random blocks of their own, and measure each call.
fn pair(live: usize, actions: usize, size: fn(&mut Random) -> usize) -> usize {
    let serve = |own: usize| {
        system::to_cpu(own);
        let mut random = Random::new(81 + own as u64);
        let mut blocks: Vec<Block> = (0..live).map(|_| Block::written(size(&mut random))).collect();
        let mut measured = Measured::NONE;
        for _ in 0..actions {
            let index = random.below(live);
            measured.replace(&mut blocks[index], size(&mut random));
        }
        measured
    };
    let [a, b] = std::thread::scope(|scope| {
        let threads = [0, 1].map(|own| scope.spawn(move || serve(own)));
        threads.map(|thread| thread.join().expect("it ends"))
    });
    a.join(&b).note();
    actions
}

/// 16 bytes to 1 KiB.
fn small(random: &mut Random) -> usize {
    16 + random.below(1_009)
}

/// 16 bytes to 128 KiB, log-uniform.
fn mixed(random: &mut Random) -> usize {
    let least = 16 << random.below(13);
    least + random.below(least)
}

/// One thread frees a gibibyte of blocks of these sizes, in random order; another replaces blocks
/// of all sizes and measures each call, until little is resident or some seconds have passed.
/// Figures: the percentiles, those of the frees of the gibibyte, and the milliseconds from their
/// end until less than 80 MiB are resident.
fn beside_frees(size: fn(&mut Random) -> usize, parts: usize) -> usize {
    const LITTLE: usize = 80 << 20;
    const PATIENCE: Duration = Duration::from_secs(5);
    let ended = AtomicBool::new(false);
    let serve = || {
        system::to_cpu(1);
        let mut random = Random::new(91);
        let mut blocks: Vec<Block> = (0..200).map(|_| Block::written(mixed(&mut random))).collect();
        let mut measured = Measured::NONE;
        while !ended.load(Relaxed) {
            let index = random.below(blocks.len());
            measured.replace(&mut blocks[index], mixed(&mut random));
        }
        measured
    };
    let drop_all = || {
        let mut random = Random::new(92);
        let (mut blocks, mut left) = (Vec::new(), (1_usize << 30) / parts);
        while left > 0 {
            let block = Block::written(size(&mut random));
            left = left.saturating_sub(block.1);
            blocks.push(block);
        }
        shuffle(&mut blocks);
        let mut measured = Measured::NONE;
        blocks.into_iter().for_each(|block| measured.free(block));
        measured
    };
    std::thread::scope(|scope| {
        let server = scope.spawn(serve);
        let freed = scope.spawn(drop_all).join().expect("it ends");
        let start = Instant::now();
        while system::resident() >= LITTLE && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        let waited = start.elapsed().as_millis() as usize;
        ended.store(true, Relaxed);
        let measured = server.join().expect("it ends");
        measured.note();
        let names = ["the gibibyte's p50, ns", "p99", "p99.9", "p99.99", "most"];
        freed.free.note(names, measured.clock());
        note("until < 80 MiB, ms", waited);
        waited
    })
}
