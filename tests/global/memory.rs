//! Memory stays bounded, and goes back to the system.

use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use crate::{ALLOCATOR, Random, resident, run_alone, run_prepared};

/// Blocks of many sizes, this many bytes in all, every page of them touched.
fn blocks_of(total: usize) -> Vec<Vec<u8>> {
    let mut random = Random(6);
    let mut blocks = Vec::new();
    let mut bytes = 0;
    while bytes < total {
        let size = 4000 + random.size();
        blocks.push(vec![1; size]);
        bytes += size;
    }
    blocks
}

#[test]
fn memory_goes_back_after_the_delay() {
    run_prepared("memory::goes_back", |command| {
        command.env("PAGEWISE_PURGE_DELAY", "100");
    });
}

#[test]
#[ignore = "in a process of its own"]
fn goes_back() {
    const PEAK: usize = 1 << 30;
    let blocks = blocks_of(PEAK);
    assert!(resident() > PEAK * 9 / 10);
    drop(blocks);
    thread::sleep(Duration::from_millis(150));
    // It is looked at now and then, when something is freed.
    for _ in 0..40 {
        drop((0..300).map(|size| vec![0u8; size * 4]).collect::<Vec<_>>());
        thread::sleep(Duration::from_millis(5));
    }
    assert!(resident() < PEAK / 20, "{} MiB are resident", resident() >> 20);
}

#[test]
fn a_purge_gives_back_what_is_free() {
    run_prepared("memory::purged", |command| {
        command.env("PAGEWISE_PURGE_DELAY", "1000000");
    });
}

#[test]
#[ignore = "in a process of its own"]
fn purged() {
    const PEAK: usize = 256 << 20;
    let mut blocks = blocks_of(PEAK);
    // One block in 64 stays, so that far more OS pages are free than whole pages are.
    let mut index = 0;
    blocks.retain(|_| {
        index += 1;
        index % 64 == 0
    });
    ALLOCATOR.purge();
    assert!(resident() < PEAK / 8, "{} MiB are resident", resident() >> 20);
    assert!(blocks.iter().all(|block| block.iter().all(|&byte| byte == 1)));
    drop(blocks);
    ALLOCATOR.purge();
    assert!(resident() < PEAK / 16, "{} MiB are resident", resident() >> 20);
    assert!(ALLOCATOR.stats().purged > PEAK as u64 / 2);
}

#[test]
fn a_purge_may_come_from_any_thread() {
    let purging = thread::spawn(|| (0..20).for_each(|_| ALLOCATOR.purge()));
    let mut random = Random(7);
    for _ in 0..20_000 {
        let block = vec![3u8; random.size()];
        assert!(block.iter().all(|&byte| byte == 3));
    }
    purging.join().expect("it ends");
}

#[test]
fn a_thread_that_only_frees_keeps_memory_bounded() {
    run_alone("memory::only_freed");
}

#[test]
#[ignore = "in a process of its own"]
fn only_freed() {
    let (sender, receiver) = sync_channel::<Vec<u8>>(64);
    let freeing = thread::spawn(move || receiver.into_iter().map(|block| block.len()).sum());
    let mut before = 0;
    let mut total = 0;
    for round in 0..200_000usize {
        if round == 20_000 {
            before = resident();
        }
        let block = vec![1u8; 16 + round % 3000];
        total += block.len();
        sender.send(block).expect("the other thread lives");
    }
    drop(sender);
    let freed: usize = freeing.join().expect("it ends");
    assert_eq!(freed, total);
    assert!(resident() < before + (8 << 20), "{} KiB more", (resident() - before) >> 10);
}
