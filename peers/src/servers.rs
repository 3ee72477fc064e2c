//! Workloads like those of servers: threads that come, go and wait, and share live blocks.

use std::sync::Barrier;
use std::time::Duration;

use crate::allocator::thread_idle;
use crate::found::note;
use crate::random::Random;
use crate::system;
use crate::workloads::{Block, Workload};

pub(crate) const WORKLOADS: &[(&str, Workload)] = &[
    ("idle threads", |parts| idle_threads(parts, || ())),
    ("idle threads told", |parts| idle_threads(parts, thread_idle)),
    ("many threads", many_threads),
    ("thread for each request", thread_for_each_request),
    ("5 to 16 KiB 4 threads", random_5_to_16),
];

/// Threads finish their work one after another, free all their blocks, call `idle`, and then only
/// wait. Figure: resident memory per thread, including its stack.
fn idle_threads(parts: usize, idle: fn()) -> usize {
    const THREADS: usize = 64;
    let (done, all_done) = (Barrier::new(2), Barrier::new(THREADS + 1));
    let serve = |seed: usize| {
        mixed_work(seed as u64, 10_000 / parts);
        idle();
        done.wait();
        all_done.wait();
    };
    let serve = &serve;
    let before = system::resident();
    std::thread::scope(|scope| {
        for seed in 0..THREADS {
            scope.spawn(move || serve(seed));
            done.wait();
        }
        // Other threads continue: enough for an allocator that gives memory back periodically.
        for _ in 0..15 {
            mixed_work(99, 1_000 / parts);
            std::thread::sleep(Duration::from_millis(100));
        }
        let after = system::resident();
        all_done.wait();
        note("resident for each, KiB", after.saturating_sub(before) / 1024 / THREADS);
        after
    })
}

/// Thousands of threads that did little wait at the same time, and end. Figures: resident memory
/// for each while they wait, including its stack, and how much of it is left after their end, while
/// the main thread continues.
fn many_threads(parts: usize) -> usize {
    let threads = 2_000 / parts;
    let (ready, all_done) = (Barrier::new(threads + 1), Barrier::new(threads + 1));
    let serve = |seed: u64| {
        let mut random = Random::new(81 + seed);
        let mut new = || {
            let block = Block::new(16 + random.below(2_000));
            // SAFETY: the block has this many bytes.
            unsafe { block.0.write_bytes(1, block.1) };
            block
        };
        for _ in 0..4 {
            let blocks: Vec<Block> = (0..40).map(|_| new()).collect();
            drop(blocks);
        }
        ready.wait();
        all_done.wait();
    };
    let serve = &serve;
    let before = system::resident();
    let each = |resident: usize| resident.saturating_sub(before) / 1024 / threads;
    let waiting = std::thread::scope(|scope| {
        for seed in 0..threads as u64 {
            scope.spawn(move || serve(seed));
        }
        ready.wait();
        let waiting = system::resident();
        all_done.wait();
        waiting
    });
    for _ in 0..15 {
        mixed_work(99, 1_000 / parts);
        std::thread::sleep(Duration::from_millis(100));
    }
    note("resident for each, KiB", each(waiting));
    note("left of that, KiB", each(system::resident()));
    waiting
}

/// Replaces blocks of 16 bytes to 16 KiB, log-uniform, and writes all of each.
pub(crate) fn mixed_work(seed: u64, actions: usize) {
    let mut random = Random::new(41 + seed);
    let mut blocks: Vec<Block> = Vec::new();
    for _ in 0..actions {
        let least = 16 << random.below(10);
        let block = Block::new(least + random.below(least));
        // SAFETY: the block has this many bytes.
        unsafe { block.0.write_bytes(1, block.1) };
        if blocks.len() < 300 {
            blocks.push(block);
        } else {
            blocks[random.below(300)] = block;
        }
    }
}

/// Two clients: each request starts a thread that works, answers with a few blocks, and ends.
fn thread_for_each_request(parts: usize) -> usize {
    let serve = |seed: u64| {
        mixed_work(seed, 400);
        let mut random = Random::new(51 + seed);
        (0..20).map(|_| Block::new(16 + random.below(1_009))).collect::<Vec<_>>()
    };
    let client = |own: usize| {
        system::to_cpu(own);
        (0..5_000 / parts as u64)
            .map(|request| {
                std::thread::spawn(move || serve(request)).join().expect("it ends").len()
            })
            .sum::<usize>()
    };
    std::thread::scope(|scope| {
        let clients = [0, 1].map(|own| scope.spawn(move || client(own)));
        clients.into_iter().map(|client| client.join().expect("it ends")).sum()
    })
}

/// Four threads replace random blocks of 5 to 16 KiB and write all of each. Reports resident memory
/// relative to the live bytes.
fn random_5_to_16(parts: usize) -> usize {
    const THREADS: usize = 4;
    let (ready, all_done) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    let serve = |own: usize| {
        system::to_cpu(own);
        let mut random = Random::new(61 + own as u64);
        let mut new = || {
            let block = Block::new((5 << 10) + random.below(11 << 10));
            // SAFETY: the block has this many bytes.
            unsafe { block.0.write_bytes(1, block.1) };
            block
        };
        let mut blocks: Vec<Block> = (0..4_000 / parts).map(|_| new()).collect();
        let mut random = Random::new(71 + own as u64);
        for _ in 0..300_000 / parts {
            let index = random.below(blocks.len());
            blocks[index] = new();
        }
        ready.wait();
        all_done.wait();
        blocks.iter().map(|block| block.1).sum::<usize>()
    };
    let serve = &serve;
    let before = system::resident();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|own| scope.spawn(move || serve(own))).collect();
        ready.wait();
        let held = system::resident() - before;
        all_done.wait();
        let live: usize = threads.into_iter().map(|thread| thread.join().expect("it ends")).sum();
        note("resident, % of live", held * 100 / live);
        live
    })
}
