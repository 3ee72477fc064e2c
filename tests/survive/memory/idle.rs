//! Free memory after a peak is given back even if the program is idle, or only allocates and frees
//! one block.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use super::{MIB, resident};
use crate::ALLOCATOR;
use crate::child::fork::in_child;
use crate::child::memory::threads;
use crate::child::{LIMIT, passes_when};

/// Allocates and writes 1,000 MiB in large blocks.
fn large_blocks() -> Vec<Vec<u8>> {
    (0..if usize::BITS == 64 { 100 } else { 20 }).map(|_| vec![1u8; 10 * MIB]).collect()
}

/// Allocates and writes 512 MiB in small blocks.
fn small_blocks() -> Vec<Vec<u8>> {
    (0..if usize::BITS == 64 { 512 } else { 128 } * 1024).map(|_| vec![1u8; 1000]).collect()
}

/// Repeats `action` until at most this much is resident.
fn until_resident(most: usize, mut action: impl FnMut()) {
    let start = Instant::now();
    while resident() > most {
        action();
        assert!(start.elapsed() < LIMIT / 2, "{} MiB stay", resident() / MIB);
    }
}

/// The purge delay, if free memory is not given back at once.
const DELAY: Duration = Duration::from_millis(200);

/// A purge delay that ends after the test.
const FOR_EVER: Duration = LIMIT;

macro_rules! alone {
    ($($test:ident, $alone:ident, $delay:expr, $background:expr;)*) => {$(
        #[test]
        fn $test() {
            passes_when(concat!("memory::idle::", stringify!($alone)), |command| {
                command.env("PAGEWISE_PURGE_DELAY", $delay.as_millis().to_string());
                command.env("PAGEWISE_BACKGROUND", $background);
            });
        }
    )*};
}

alone! {
    large_blocks_go_back_at_once, large, FOR_EVER, "0";
    mappings_that_were_replaced_go_back_at_once, replaced, FOR_EVER, "0";
    a_hot_loop_gives_back, hot, DELAY, "0";
    an_event_loop_gives_back, maintained, DELAY, "0";
    a_background_thread_gives_back, background, DELAY, "1";
    a_background_thread_is_started_again_in_a_child, background_in_child, DELAY, "1";
}

#[test]
#[ignore = "in a process of its own"]
fn large() {
    drop(black_box(large_blocks()));
    // On a busy machine the visit at a free may be over too early: then the next ones go on, unless
    // the program takes much memory again.
    until_resident(100 * MIB - 1, || drop(black_box(vec![1u8; MIB / 2])));
}

/// Freed mappings that the program used again are kept, but not for ever.
#[test]
#[ignore = "in a process of its own"]
fn replaced() {
    let mut blocks: Vec<Vec<u8>> = (0..10).map(|_| Vec::new()).collect();
    for round in 0..40 {
        let block = &mut blocks[round % 10];
        drop(std::mem::take(block));
        *block = vec![1; (17 + 7 * round % 20) * MIB];
    }
    drop(black_box(blocks));
    let left = resident();
    assert!(left < 100 * MIB, "{} MiB", left / MIB);
}

#[test]
#[ignore = "in a process of its own"]
fn hot() {
    let blocks = black_box(small_blocks());
    let start = Instant::now();
    drop(blocks);
    let left = resident();
    // On a busy machine the delay may already be over.
    assert!(left > 100 * MIB || start.elapsed() > DELAY, "it goes back later");
    until_resident(40 * MIB, || {
        for size in 0..1_000_000_usize {
            drop(black_box(vec![1u8; 100 + size % 2]));
        }
    });
}

#[test]
#[ignore = "in a process of its own"]
fn maintained() {
    drop(black_box(small_blocks()));
    let mut calls = 0;
    while let Some(pause) = ALLOCATOR.maintain() {
        thread::sleep(pause);
        calls += 1;
        assert!(calls < 100_000, "it does not end: {} MiB", resident() / MIB);
    }
    let left = resident();
    assert!(left < 40 * MIB, "{} MiB after {calls} calls", left / MIB);
}

#[test]
#[ignore = "in a process of its own"]
fn background() {
    // The main thread and the test's, which may be the same. The background thread may have started
    // already: the test runner's list of tests may be a medium block, which is due once freed.
    let own = if thread::current().name() == Some("main") { 1 } else { 2 };
    let before = threads();
    drop(vec![1u8; MIB]);
    assert_eq!(threads(), before, "it is not started before there is something to do");
    drop(black_box(small_blocks()));
    assert_eq!(threads(), own + 1);
    until_resident(40 * MIB, || thread::sleep(Duration::from_millis(20)));
    // The thread sleeps, and continues when there is more to do.
    drop(black_box(small_blocks()));
    until_resident(40 * MIB, || thread::sleep(Duration::from_millis(20)));
    assert_eq!(threads(), own + 1);
}

#[test]
#[ignore = "in a process of its own"]
fn background_in_child() {
    drop(black_box(small_blocks()));
    in_child(|| {
        assert_eq!(threads(), 1, "the thread stayed behind");
        drop(black_box(small_blocks()));
        until_resident(60 * MIB, || thread::sleep(Duration::from_millis(20)));
    });
}
