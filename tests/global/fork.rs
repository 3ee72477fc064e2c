//! A fork in a program with threads: the child can allocate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::{Marked, Random, run_alone};

#[test]
fn the_child_of_a_threaded_program_can_allocate() {
    run_alone("fork::fork");
}

#[test]
#[ignore = "in a process of its own"]
fn fork() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let threads: Vec<_> = (0..2)
        .map(|seed| {
            thread::spawn(move || {
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
    let kept = Marked::new(10_000, 3);
    for _ in 0..20 {
        // SAFETY: the child only allocates, which is what is tested, and ends by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            kept.check(3);
            let blocks: Vec<_> = (0..300).map(|size| Marked::new(size * 5, size)).collect();
            blocks.iter().enumerate().for_each(|(size, block)| block.check(size));
            drop(blocks);
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: the status is valid for writes.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "the child ended by itself");
    }
    STOP.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    kept.check(3);
}
