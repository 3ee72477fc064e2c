//! Free small blocks hold no data of the allocator: a write to one, while others of its page are in
//! use, does no harm until the block is allocated again.

use crate::ALLOCATOR;
use crate::child::passes;

#[test]
fn a_write_to_a_small_free_block_harms_no_other() {
    passes("free_memory::written");
}

#[test]
#[ignore = "in a process of its own: other threads may get the blocks"]
fn written() {
    for size in [8, 64, 100, 1000, 3000, 16_000] {
        let blocks: Vec<*mut u8> = (0..2000).map(|_| ALLOCATOR.allocate(size)).collect();
        // SAFETY: each block is in use while it is written to, except every other one, which is
        // free: the misuse that must do no harm.
        unsafe {
            blocks.iter().for_each(|block| block.write_bytes(0x11, size));
            blocks.iter().step_by(2).for_each(|&block| ALLOCATOR.free(block));
            blocks.iter().step_by(2).for_each(|block| block.write_bytes(0xa5, size));
        }
        let kept = blocks.into_iter().skip(1).step_by(2);
        let mut all: Vec<*mut u8> =
            kept.chain((0..3000).map(|_| ALLOCATOR.allocate(size))).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[1].addr() - pair[0].addr() >= size), "{size}");
        // SAFETY: each is in use.
        unsafe {
            all.iter().for_each(|block| block.write_bytes(0x22, size));
            all.into_iter().for_each(|block| ALLOCATOR.free(block));
        }
        ALLOCATOR.purge();
    }
}
