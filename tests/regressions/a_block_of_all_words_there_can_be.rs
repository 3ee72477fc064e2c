//! A memory of Nielsen's algorithms could have one word more than a block's length can tell: once all of it was free again, and
//! one block, its length was 0.

use pagewise::catalogue::nielsen;
use pagewise::{Reserved, Strategy};

use crate::layout;

/// Two blocks, the second in the upper half of 4 GiB if these can be had, and all of it free again.
fn is_whole_again(mut heap: impl Strategy) {
    let layouts = [layout(1, 1), layout(1, 1 << 30)];
    let blocks = layouts.map(|layout| heap.allocate(layout).ok());
    for (block, layout) in blocks.into_iter().zip(layouts) {
        if let Some(block) = block {
            // SAFETY: the block was allocated for this layout, and nobody uses it.
            unsafe { heap.deallocate(block.cast(), layout) };
        }
    }
    assert_eq!(heap.audit(), Ok(()));
}

#[test]
fn is_told() {
    is_whole_again(nielsen::V1::new(64, Reserved::new(1 << 33), ()));
    is_whole_again(nielsen::V3::new(64, Reserved::new(1 << 33), ()));
}
