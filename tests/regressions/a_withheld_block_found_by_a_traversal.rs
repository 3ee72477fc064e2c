//! A heap that collects withholds freed blocks until memory is scarce. A traversal of the tags took
//! them for free ones and handed them out; the collection then freed them while they were in use,
//! so that two blocks had the same memory.

use pagewise::Strategy;
use pagewise::fit::{
    Apart, Area, BoundaryTagHeap, Collected, Deferred, Immediate, Joining, NoArea, Reclaim,
    Releasing,
};
use pagewise::head_first::Traverse;

use crate::{layout, leaked};

/// Allocates and frees until memory was exhausted several times.
fn keeps_blocks_apart<R: Reclaim, A: Area>() {
    let mut heap = BoundaryTagHeap::<Traverse, R, A, _>::new(1024, leaked(1 << 13), ());
    let mut blocks = Vec::new();
    for step in 0..500 {
        let layout = layout(1 + step * 37 % 400, 8);
        if let Ok(block) = heap.allocate(layout) {
            let start = block.cast::<u8>().addr().get();
            let apart = |&(other, len): &(usize, usize)| {
                other + len <= start || start + block.len() <= other
            };
            assert!(blocks.iter().map(|&(_, _, place)| place).all(|place| apart(&place)), "{step}");
            blocks.push((block.cast(), layout, (start, block.len())));
        }
        if step % 3 > 0 && !blocks.is_empty() {
            let (block, layout, _) = blocks.swap_remove(step % blocks.len());
            // SAFETY: the block is in use, and not used afterwards.
            unsafe { heap.deallocate(block, layout) };
        }
        assert_eq!(heap.audit(), Ok(()), "{step}");
    }
}

#[test]
fn is_not_handed_out() {
    keeps_blocks_apart::<Collected, NoArea>();
    keeps_blocks_apart::<Collected, Apart>();
    keeps_blocks_apart::<Collected, Joining>();
    keeps_blocks_apart::<Collected, Releasing>();
}

/// The audit took the wilderness, which a traversal finds as well, for a block too many.
#[test]
fn and_the_wilderness_is_no_fault() {
    keeps_blocks_apart::<Immediate, NoArea>();
    keeps_blocks_apart::<Deferred, Joining>();
    keeps_blocks_apart::<Immediate, Releasing>();
}
