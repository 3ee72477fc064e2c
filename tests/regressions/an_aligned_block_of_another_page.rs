//! When memory was exhausted, an aligned request for a small block failed, though another page of
//! the class than the current one had such a block.

use pagewise::PageHeap;
use pagewise::Strategy;
use pagewise::pages::Config;

use crate::{layout, leaked};

#[test]
fn is_found() {
    const PAGE: usize = 1 << 14;
    for (size, align) in [(24, 16), (40, 16), (72, 16), (24, 64), (48, 32)] {
        for target in 0..5 {
            let mut heap = PageHeap::new(Config::arena(), leaked(6 * PAGE), ());
            let plain = layout(size, 8);
            let mut blocks = Vec::new();
            while let Ok(block) = heap.allocate(plain) {
                blocks.push(block.cast::<u8>());
            }
            let page = |index: usize| blocks[0].addr().get() / PAGE + index;
            // Aligned blocks become free in one page, and only others in all others.
            let mut aligned = 0;
            for block in &blocks {
                let address = block.addr().get();
                let is_target = address / PAGE == page(target);
                if address.is_multiple_of(align) == is_target {
                    aligned += usize::from(is_target);
                    // SAFETY: the block is in use with this layout, and freed once.
                    unsafe { heap.deallocate(*block, plain) };
                }
            }
            for count in 0..aligned {
                let block = heap.allocate(layout(size, align));
                let block = block.unwrap_or_else(|_| {
                    panic!("{size} bytes at {align}, page {target}: {count} of {aligned}")
                });
                assert!(block.cast::<u8>().addr().get().is_multiple_of(align));
            }
            assert_eq!(heap.audit(), Ok(()));
        }
    }
}
