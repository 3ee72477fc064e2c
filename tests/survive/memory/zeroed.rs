//! Zeroed blocks are zero, and memory known to be zero is not written.

use std::alloc::{GlobalAlloc, Layout};

use super::{MIB, resident};
use crate::ALLOCATOR;
use crate::child::passes_without_huge_pages;
use crate::random::Random;

#[test]
fn untouched_blocks_take_no_memory() {
    passes_without_huge_pages("memory::zeroed::untouched");
}

#[test]
#[ignore = "in a process of its own"]
fn untouched() {
    let before = resident();
    let blocks: Vec<_> = (0..500).map(|_| ALLOCATOR.allocate_zeroed(1_000_000)).collect();
    assert!(blocks.iter().all(|block| !block.is_null()));
    let taken = resident() - before;
    assert!(taken < 60 * MIB, "{} MiB", taken / MIB);
    // SAFETY: each block is in use.
    blocks.iter().for_each(|&block| unsafe { ALLOCATOR.free(block) });
}

#[test]
fn memory_given_back_is_not_written_again() {
    passes_without_huge_pages("memory::zeroed::after_a_purge");
}

/// The heap's memory was written, freed and given back.
#[test]
#[ignore = "in a process of its own"]
fn after_a_purge() {
    drop((0..100).map(|_| vec![1u8; 2 * MIB]).collect::<Vec<_>>());
    ALLOCATOR.purge();
    let before = resident();
    let blocks: Vec<_> = (0..90).map(|_| vec![0u8; 2 * MIB]).collect();
    let taken = resident() - before;
    assert!(taken < 20 * MIB, "{} MiB", taken / MIB);
    assert!(blocks.iter().flatten().all(|&byte| byte == 0));
}

#[test]
fn mostly_untouched_tables_take_little_memory() {
    passes_without_huge_pages("memory::zeroed::again");
}

#[test]
#[ignore = "in a process of its own"]
fn again() {
    let before = resident();
    // In a heap, and as mappings.
    for (size, round) in [12, 24].into_iter().flat_map(|mib| (0..10).map(move |i| (mib * MIB, i))) {
        let mut table = vec![0u8; size];
        assert!(table.iter().step_by(MIB / 2).all(|&byte| byte == 0));
        table[round * MIB] = 1;
        let taken = resident() - before;
        assert!(taken < 8 * MIB, "{} MiB in round {round} of {size} bytes", taken / MIB);
    }
}

/// Random requests of all kinds: every zeroed block is zero, whatever its memory held before.
#[test]
fn zeroed_blocks_are_zeros() {
    const ROUNDS: usize = if cfg!(miri) { 300 } else { 30_000 };
    const ALIGNMENTS: [usize; 6] = [1, 16, 64, 4096, 16 << 10, 128 << 10];
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut random = |bound| random.below(bound);
    let mut live: Vec<(*mut u8, Layout)> = Vec::new();
    let mut bytes = 0;
    for round in 0..ROUNDS {
        let size = match random(8) {
            0 => 1 + random(300),
            1 => 1 + random(16 << 10),
            2..5 => 16 * 1024 + random(100 << 10),
            5 | 6 => 16 * 1024 + random(MIB),
            _ => MIB + random(3 * MIB),
        };
        let action = random(10);
        // SAFETY: each block has the requested size, and is freed once.
        unsafe {
            if action < 4 && bytes < 64 * MIB {
                let layout = Layout::from_size_align(size, ALIGNMENTS[random(6)]).expect("valid");
                let zeroed = random(2) == 0;
                let block =
                    if zeroed { ALLOCATOR.alloc_zeroed(layout) } else { ALLOCATOR.alloc(layout) };
                assert!(!block.is_null());
                if zeroed {
                    let contents = std::slice::from_raw_parts(block, size);
                    let dirty = contents.iter().position(|&byte| byte != 0);
                    assert_eq!(dirty, None, "of {size} bytes at {block:p} in round {round}");
                }
                if random(3) > 0 {
                    block.write_bytes(0xee, size);
                }
                bytes += size;
                live.push((block, layout));
            } else if action < 5 && !live.is_empty() {
                let at = random(live.len());
                let (block, layout) = live[at];
                let resized = ALLOCATOR.realloc(block, layout, size);
                assert!(!resized.is_null());
                resized.write_bytes(0xee, size);
                bytes = bytes - layout.size() + size;
                live[at] = (resized, Layout::from_size_align(size, layout.align()).expect("valid"));
            } else if !live.is_empty() {
                let (block, layout) = live.swap_remove(random(live.len()));
                ALLOCATOR.dealloc(block, layout);
                bytes -= layout.size();
            }
        }
        if random(100) == 0 {
            ALLOCATOR.purge();
        }
    }
    // SAFETY: as above.
    live.into_iter().for_each(|(block, layout)| unsafe { ALLOCATOR.dealloc(block, layout) });
}
