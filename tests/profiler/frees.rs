//! Every free of a sampled block is counted, whichever function does it: no byte of a freed block
//! remains live.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::mpsc;

use pagewise::global::ProfileError;

use crate::random::Random;
use crate::sites::{SITES, block_of, figures};
use crate::{ALLOCATOR, child, passes_in_both_modes, profiler};

/// Returns the sum of the sites' live blocks and bytes in the profile.
fn live() -> f64 {
    let told = figures(&profiler().snapshot().expect("there is a profile"));
    told[..SITES].iter().map(|[blocks, bytes, ..]| blocks + bytes).sum()
}

const SIZES: [usize; 9] = [1, 16, 100, 1000, 5000, 16_000, 40_000, 200_000, 40 << 20];

#[test]
fn a_freed_block_is_not_live() {
    passes_in_both_modes("frees::every_way");
}

struct Sent(*mut u8);
// SAFETY: the block is owned.
unsafe impl Send for Sent {}

#[test]
#[ignore = "in a process of its own"]
fn every_way() {
    profiler().start(64).expect("it begins");
    let mut random = Random(7);
    for round in 0..300 {
        let mut blocks: Vec<(*mut u8, Layout)> = Vec::new();
        for index in 0..60 {
            // There are few mappings.
            let size = SIZES[(index + round) % (SIZES.len() - usize::from(index > 0))];
            let size = 1 + size / 2 + random.below(size / 2 + 1);
            let align = 1 << random.below(8);
            let layout = Layout::from_size_align(size, align).expect("a layout");
            blocks.push((block_of(index % SITES, layout), layout));
        }
        assert!(live() > 60.0 * 100.0, "it is sampled");
        for (index, (block, layout)) in blocks.into_iter().enumerate() {
            // SAFETY: each block is in use, and freed once.
            unsafe {
                match (round + index) % 5 {
                    0 => ALLOCATOR.dealloc(block, layout),
                    1 => ALLOCATOR.free(block),
                    2 => ALLOCATOR.free_sized(block, layout.size()),
                    3 => {
                        let size = 1 + random.below(2 * layout.size());
                        let block = ALLOCATOR.realloc(block, layout, size);
                        ALLOCATOR.dealloc(
                            block,
                            Layout::from_size_align_unchecked(size, layout.align()),
                        );
                    }
                    _ if layout.align() <= 16 => {
                        ALLOCATOR.free(ALLOCATOR.reallocate(block, 2 * layout.size()));
                    }
                    _ => ALLOCATOR.free(block),
                }
            }
        }
        assert_eq!(live(), 0.0, "round {round}");
    }
}

#[test]
fn remote_frees_are_counted() {
    passes_in_both_modes("frees::by_others");
}

/// Blocks are passed around among threads that come and go; the last owner frees each.
#[test]
#[ignore = "in a process of its own"]
fn by_others() {
    profiler().start(500).expect("it begins");
    let layout = |index: usize| Layout::from_size_align(1 + index * 97 % 3000, 8).expect("valid");
    for _ in 0..20 {
        let (senders, receivers): (Vec<_>, Vec<_>) =
            (0..4).map(|_| mpsc::channel::<(Sent, usize)>()).unzip();
        let threads: Vec<_> = receivers
            .into_iter()
            .enumerate()
            .map(|(own, receiver)| {
                let senders = senders.clone();
                std::thread::spawn(move || {
                    for index in 0..2000 {
                        let block = Sent(block_of(own, layout(index)));
                        senders[(own + index) % 4].send((block, index)).expect("it is received");
                    }
                    drop(senders);
                    for (Sent(block), index) in receiver {
                        // SAFETY: it is in use, and freed once.
                        unsafe { ALLOCATOR.dealloc(block, layout(index)) };
                    }
                })
            })
            .collect();
        drop(senders);
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        assert_eq!(live(), 0.0);
    }
}

#[test]
fn profiling_can_be_switched_on_and_off() {
    passes_in_both_modes("frees::on_and_off");
}

#[test]
#[ignore = "in a process of its own"]
fn on_and_off() {
    let layout = |index: usize| Layout::from_size_align(1 + index * 7 % 40_000, 8).expect("valid");
    let free = |blocks: Vec<*mut u8>| {
        for (index, block) in blocks.into_iter().enumerate() {
            // SAFETY: they are in use, and freed once.
            unsafe { ALLOCATOR.dealloc(block, layout(index)) };
        }
    };
    let blocks = || (0..3000).map(|index| block_of(0, layout(index))).collect::<Vec<_>>();
    assert_eq!(profiler().snapshot().err(), Some(ProfileError::NeverStarted));
    assert_eq!(profiler().stop(), Ok(()));
    assert_eq!(profiler().start(0), Err(ProfileError::RateOutOfRange));
    assert_eq!(profiler().start((1 << 30) + 1), Err(ProfileError::RateOutOfRange));
    let before = blocks();
    for round in 0..5 {
        assert_eq!(profiler().start(100), Ok(()));
        assert_eq!(profiler().start(100), Err(ProfileError::AlreadyOn));
        assert_eq!(live(), 0.0, "what was before is forgotten");
        let during = blocks();
        let told = live();
        assert!(told > 1e7);
        assert_eq!(profiler().stop(), Ok(()));
        let after = blocks();
        free(during);
        free(after);
        assert_eq!(live(), told, "it stays as it was: round {round}");
    }
    assert_eq!(profiler().start(100), Ok(()));
    free(before);
    assert_eq!(live(), 0.0);
}

#[test]
fn a_forked_child_continues_the_profile() {
    child::passes("frees::forks");
}

#[test]
#[ignore = "in a process of its own"]
fn forks() {
    profiler().start(100).expect("it begins");
    let layout = Layout::from_size_align(500, 8).expect("valid");
    let others: Vec<_> = (0..3)
        .map(|site| {
            std::thread::spawn(move || {
                for _ in 0..300_000 {
                    let block = block_of(1 + site, layout);
                    // SAFETY: it is in use, and freed once.
                    unsafe { ALLOCATOR.dealloc(block, layout) };
                }
            })
        })
        .collect();
    for _ in 0..100 {
        let blocks: Vec<_> = (0..50).map(|_| block_of(0, layout)).collect();
        let told = || figures(&profiler().snapshot().expect("there is a profile"))[0][1];
        assert!(told() > 10_000.0);
        // SAFETY: each block is freed once in a process.
        let free = |block: &*mut u8| unsafe { ALLOCATOR.dealloc(*block, layout) };
        child::fork::in_child(|| {
            let before = told();
            let more: Vec<_> = (0..50).map(|_| block_of(0, layout)).collect();
            assert!(told() > before);
            blocks.iter().chain(&more).for_each(free);
            assert_eq!(told(), 0.0);
        });
        blocks.iter().for_each(free);
        assert_eq!(told(), 0.0);
    }
    others.into_iter().for_each(|other| other.join().expect("it ends"));
    assert_eq!(live(), 0.0);
}
