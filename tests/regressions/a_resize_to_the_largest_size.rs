//! `realloc` of a block of tens of kilobytes to one of the 14 sizes below `isize::MAX` made an
//! invalid `Layout`: rounded up to its alignment, it exceeds `isize::MAX`. Found by fuzzing the C
//! interface.

use crate::ALLOCATOR;
use crate::child::passes;

#[test]
fn is_refused() {
    passes("a_resize_to_the_largest_size::refused");
}

#[test]
#[ignore = "in a process of its own"]
fn refused() {
    for old_size in [100, 20_000, 100_000, 40 << 20] {
        for below in 0..40 {
            let block = ALLOCATOR.allocate(old_size);
            assert!(!block.is_null());
            // SAFETY: the block is in use, and stays so if there is no memory.
            unsafe {
                block.write(3);
                let moved = ALLOCATOR.reallocate(block, isize::MAX as usize - below);
                assert!(moved.is_null(), "{old_size} to isize::MAX - {below}");
                assert_eq!(block.read(), 3);
                ALLOCATOR.free(block);
            }
        }
    }
}
