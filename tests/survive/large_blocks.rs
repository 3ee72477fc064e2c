//! Large blocks are put together of freed ones, whose pages the system moves to addresses that were
//! unmapped a moment before. Meanwhile other threads map memory of their own, and do the same.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{mem, thread};

use crate::child::passes_when;
use crate::random::Random;

#[test]
fn blocks_put_together_by_several_threads_are_their_own() {
    passes_when("large_blocks::replaced", |command| {
        command.env("PAGEWISE_MAPPING_FROM", "4M");
    });
}

const MIB: usize = 1 << 20;

#[test]
#[ignore = "in a process of its own"]
fn replaced() {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for mark in 1..3 {
            let is_over = &is_over;
            scope.spawn(move || maps(mark, is_over));
        }
        let replacing: Vec<_> = (3..6).map(|mark| scope.spawn(move || replaces(mark))).collect();
        let all_passed = replacing.into_iter().all(|thread| thread.join().is_ok());
        is_over.store(true, Ordering::Relaxed);
        assert!(all_passed);
    });
}

/// Replaces one of four blocks of 4 to 20 MiB by a longer or shorter one.
fn replaces(mark: u8) {
    let mut random = Random(mark.into());
    let mut blocks: [Vec<u8>; 4] = [const { Vec::new() }; 4];
    for round in 0..150_u8 {
        let block = &mut blocks[random.below(4)];
        assert!(block.iter().step_by(4096).all(|&byte| byte == block[0]), "round {round}");
        drop(mem::take(block));
        *block = vec![mark.wrapping_mul(round | 1); 4 * MIB + random.below(16 * MIB)];
        if random.below(5) == 0 {
            block.reserve_exact(block.len() / 4);
        }
    }
}

/// Maps and unmaps memory, in which nobody else writes.
fn maps(mark: u8, is_over: &AtomicBool) {
    let mut len = MIB;
    while !is_over.load(Ordering::Relaxed) {
        len = len % (9 * MIB) + MIB / 2;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the mapping is this thread's own.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0).cast::<u8>();
            assert_ne!(start.cast(), libc::MAP_FAILED);
            let all = || (0..len).step_by(64 << 10).map(|at| start.add(at));
            all().for_each(|byte| byte.write(mark));
            thread::yield_now();
            assert!(all().all(|byte| byte.read() == mark));
            libc::munmap(start.cast(), len);
        }
    }
}
