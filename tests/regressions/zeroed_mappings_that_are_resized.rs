//! A zeroed block of 1 to 16 MiB was a mapping, but was never resized as one: shrinking it by a
//! byte copied it into a heap. Now it is in a heap, and must still stay in place when it shrinks.

use std::alloc::{GlobalAlloc, Layout};
use std::hint::black_box;

use crate::child::passes_without_huge_pages;
use crate::{ALLOCATOR, resident};

const SIZE: usize = 8 << 20;

#[test]
fn a_zeroed_block_is_resized_without_copying() {
    passes_without_huge_pages("zeroed_mappings_that_are_resized::resized");
}

#[test]
#[ignore = "in a process of its own"]
fn resized() {
    let layout = Layout::from_size_align(SIZE, 16).expect("a valid layout");
    let block = black_box(ALLOCATOR.allocate_zeroed(SIZE));
    assert!(!block.is_null());
    // SAFETY: the block is written to within its size; after each change only the new one is used.
    unsafe {
        block.write(7);
        let before = resident();
        for less in [1, 2, 4096, SIZE / 4] {
            assert_eq!(ALLOCATOR.realloc(block, layout, SIZE - less), block, "{less} bytes less");
        }
        let taken = resident().saturating_sub(before);
        assert!(taken < 1 << 20, "{taken} bytes that were never touched take memory");
        let longer = ALLOCATOR.reallocate(block, 3 * SIZE);
        assert!(!longer.is_null() && *longer == 7);

        let short = ALLOCATOR.reallocate(longer, 50_000);
        assert!(*short == 7);
        ALLOCATOR.free(short);
    }
}
