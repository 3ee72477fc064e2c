//! A region that was filled and emptied held fewer blocks the next time, and fewer each time after:
//! a frequently requested class got a whole page at once, however little of it was needed.

use std::ptr::NonNull;

use pagewise::pages::Config;
use pagewise::source::Region;
use pagewise::{PageHeap, Strategy};

use crate::{layout, leaked};

/// Fills the heap until a request fails, with blocks of all sizes, mostly small, and empties it.
/// Returns the bytes that were allocated.
fn fill(heap: &mut PageHeap<Region>, seed: u64) -> usize {
    let mut seed = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut below = |end: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % end
    };
    let mut blocks: Vec<(NonNull<u8>, usize)> = Vec::new();
    loop {
        let largest = 16 + below(10_000);
        let size = 4 + below(largest);
        match heap.allocate(layout(size, 8)) {
            Ok(block) => blocks.push((block.cast(), size)),
            Err(_) => break,
        }
        if below(5) == 0 {
            let (block, size) = blocks.swap_remove(below(blocks.len()));
            // SAFETY: as below.
            unsafe { heap.deallocate(block, layout(size, 8)) };
        }
    }
    for &(block, size) in &blocks {
        // SAFETY: the block was allocated with this layout, and is no longer used.
        unsafe { heap.deallocate(block, layout(size, 8)) };
    }
    assert_eq!(heap.audit(), Ok(()));
    blocks.iter().map(|(_, size)| size).sum()
}

#[test]
fn holds_as_much_as_a_fresh_one() {
    const REGION: usize = 16 << 20;
    let mut memory = vec![0_u64; REGION / 8];
    let mut worn = PageHeap::new(Config::arena(), leaked(REGION), ());
    let (mut fresh, mut again) = (0, 0);
    for seed in 0..24 {
        // SAFETY: the memory outlives the heap, and is used by it alone.
        let region = unsafe { Region::new(memory.as_mut_ptr().cast(), REGION) };
        fresh += fill(&mut PageHeap::new(Config::arena(), region, ()), seed);
        again += fill(&mut worn, seed);
    }
    // Within half a percent: the positions of free blocks are random.
    assert!(again + fresh / 200 > fresh, "{again} bytes, {fresh} in fresh regions");
}
