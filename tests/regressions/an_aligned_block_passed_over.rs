//! A large aligned request skipped the free block that the previous such request had left, although
//! it was aligned as needed, and took a larger one to align within. Aligned buffers that replace
//! each other held 1.6 times the live bytes.

use core::alloc::Layout;
use core::ptr::NonNull;

use pagewise::pages::Config;
use pagewise::{PageHeap, Strategy};

use crate::{layout, leaked};

#[test]
fn takes_the_place_of_the_last_one() {
    const BLOCKS: usize = 40;
    const SIZE: usize = 100_000;
    for align in [16, 64, 4096] {
        let mut heap = PageHeap::new(Config::arena(), leaked(3 * BLOCKS * SIZE), ());
        let (block, small) = (layout(SIZE, align), layout(20_016, 16));
        let mut random = 7_usize;
        let take = |heap: &mut PageHeap<_, _>, layout: Layout| -> NonNull<u8> {
            heap.allocate(layout).expect("there is memory").cast()
        };
        let mut blocks: Vec<_> = (0..BLOCKS).map(|_| take(&mut heap, block)).collect();
        // Blocks of other sizes are between them.
        let mut others: Vec<_> = (0..10).map(|_| take(&mut heap, small)).collect();
        for _ in 0..2_000 {
            random = random.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            let index = random / 65_536 % BLOCKS;
            let new = take(&mut heap, block);
            // SAFETY: the blocks are in use, and not used afterwards.
            unsafe {
                heap.deallocate(core::mem::replace(&mut blocks[index], new), block);
                let other = index % others.len();
                let new = take(&mut heap, small);
                heap.deallocate(core::mem::replace(&mut others[other], new), small);
            }
        }
        heap.audit().expect("every invariant holds");
        let live = (BLOCKS + 1) * SIZE.next_multiple_of(align) + 11 * 20_016;
        let held = heap.usage().held;
        assert!(held <= live + live / 5, "{held} bytes held for {live}, aligned to {align}");
    }
}
