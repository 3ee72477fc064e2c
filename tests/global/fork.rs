//! A fork in a program with threads: the child can allocate.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::child::fork::in_child;
use crate::child::passes;
use crate::{ALLOCATOR, Marked, Random};

#[test]
fn the_child_of_a_threaded_program_can_allocate() {
    passes("fork::fork");
}

#[test]
#[ignore = "in a process of its own"]
fn fork() {
    static STOP: AtomicBool = AtomicBool::new(false);
    // A starting thread holds a lock of the standard library, which a forked child would find
    // locked.
    static BEGUN: Barrier = Barrier::new(3);
    let threads: Vec<_> = (0..2)
        .map(|seed| {
            thread::spawn(move || {
                BEGUN.wait();
                let mut random = Random(seed + 1);
                let mut blocks: Vec<Vec<u8>> = Vec::new();
                while !STOP.load(Ordering::Relaxed) {
                    blocks.push(vec![1; random.size()]);
                    if blocks.len() > 100 {
                        blocks.swap_remove(random.below(100));
                    }
                }
            })
        })
        .collect();
    BEGUN.wait();
    let kept = Marked::new(10_000, 3);
    for _ in 0..60 {
        in_child(|| {
            kept.check(3);
            let blocks: Vec<_> = (0..300).map(|size| Marked::new(size * 5, size)).collect();
            blocks.iter().enumerate().for_each(|(size, block)| block.check(size));
            drop(blocks);
            let threads: Vec<_> = (0..3)
                .map(|mark| thread::spawn(move || Marked::new(900, mark).check(mark)))
                .collect();
            threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
            kept.check(3);
        });
    }
    STOP.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    kept.check(3);
}

#[test]
fn a_forked_child_reuses_blocks_of_missing_threads() {
    passes("fork::left_behind");
}

#[test]
#[ignore = "in a process of its own"]
fn left_behind() {
    let (freed, forked) = (Barrier::new(3), Barrier::new(3));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                drop((0..20_000).map(|size| vec![1u8; 16 + size % 1000]).collect::<Vec<_>>());
                freed.wait();
                forked.wait();
            });
        }
        freed.wait();
        assert!(ALLOCATOR.stats().quick > 100_000, "{}", ALLOCATOR.stats());
        in_child(|| {
            ALLOCATOR.purge();
            let stats = ALLOCATOR.stats();
            assert!(stats.quick == 0 && stats.live < 1 << 20, "{stats}");
        });
        assert!(ALLOCATOR.stats().quick > 100_000, "{}", ALLOCATOR.stats());
        forked.wait();
    });
}

#[test]
fn the_parent_keeps_all_heaps_after_a_fork() {
    passes("fork::parent");
}

/// After a fork, other threads of the parent still reach every heap and every block.
#[test]
#[ignore = "in a process of its own"]
fn parent() {
    const BLOCKS: usize = 5_000;
    let blocks: Vec<_> = (0..BLOCKS).map(|size| Marked::new(size, 5)).collect();
    let before = ALLOCATOR.stats();
    in_child(|| {});
    let after = thread::spawn(|| ALLOCATOR.stats()).join().expect("it ends");
    assert!(after.heaps >= before.heaps && after.blocks >= BLOCKS, "{before}{after}");
    // The blocks that they free can be allocated again.
    thread::spawn(move || drop(blocks)).join().expect("it ends");
    let last = thread::spawn(|| {
        ALLOCATOR.purge();
        ALLOCATOR.stats()
    });
    let last = last.join().expect("it ends");
    assert!(last.blocks + BLOCKS <= after.blocks + 100, "{after}{last}");
}
