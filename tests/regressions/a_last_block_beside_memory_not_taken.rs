//! The last block of a [`SmallHeap`] did not grow over memory that the heap had not yet taken from
//! its region: a vector could not fill a fresh region, but could once the region had been full.

use pagewise::source::Region;
use pagewise::{SmallHeap, Strategy};

use crate::{layout, leaked};

const LEN: usize = 1 << 14;

/// A block grows to exactly the end of the region, and no further.
#[test]
fn grows_in_a_fresh_small_region_as_in_one_that_was_full() {
    let most = |heap: &mut SmallHeap<Region>| {
        let fits = |&len: &usize| {
            let block = heap.allocate(layout(len, 8)).ok();
            // SAFETY: the block is in use, with this layout.
            block.map(|block| unsafe { heap.deallocate(block.cast(), layout(len, 8)) }).is_some()
        };
        (1..LEN / 8).rev().map(|words| words * 8).find(fits).expect("room for a block")
    };
    let mut worn = SmallHeap::new(leaked(LEN), ());
    let most = most(&mut worn);
    for mut heap in [worn, SmallHeap::new(leaked(LEN), ())] {
        for grown in [most + 8, most] {
            let block = heap.allocate(layout(40, 8)).expect("room for a small block").cast();
            // SAFETY: the block is in use, with this layout; it is freed with its last one.
            unsafe {
                block.cast::<[u8; 40]>().write([7; 40]);
                let resized = heap.resize_in_place(block, layout(40, 8), grown);
                assert_eq!(resized.is_some(), grown == most, "{grown} of {most} bytes");
                assert_eq!((heap.audit(), block.cast::<[u8; 40]>().read()), (Ok(()), [7; 40]));
                let len = if resized.is_some() { grown } else { 40 };
                heap.deallocate(block, layout(len, 8));
            }
            assert_eq!((heap.audit(), heap.usage().block), (Ok(()), 0));
        }
    }
}
