//! The memory of a Nielsen algorithm could be one word longer than a length field can express: once
//! all of it was one free block again, that block's length was 0.

use pagewise::catalogue::nielsen;
use pagewise::{Reserved, Strategy};

use crate::layout;

/// Allocates two blocks, the second in the upper half of 4 GiB if that much can be reserved, and
/// frees both.
fn is_whole_again(mut heap: impl Strategy) {
    let layouts = [layout(1, 1), layout(1, 1 << 30)];
    let blocks = layouts.map(|layout| heap.allocate(layout).ok());
    for (block, layout) in blocks.into_iter().zip(layouts) {
        if let Some(block) = block {
            // SAFETY: the block was allocated with this layout, and is no longer used.
            unsafe { heap.deallocate(block.cast(), layout) };
        }
    }
    assert_eq!(heap.audit(), Ok(()));
}

#[test]
fn has_a_valid_length() {
    is_whole_again(nielsen::V1::new(64, Reserved::new(1 << 33), ()));
    is_whole_again(nielsen::V3::new(64, Reserved::new(1 << 33), ()));
}
