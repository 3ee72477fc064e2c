//! `free(p + 16)` freed the live block `p`, and `free(p + 1)` misaligned the next block of that
//! class. Either stops the process with one line, in every build.
//!
//! Not detected: a pointer at a multiple of 8 inside a small block, if the same thread is given it
//! again from its quick list before the list is returned; and a pointer to the start of another
//! block.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::ALLOCATOR;
use crate::child::{aborts, passes};

/// Detected when the blocks of a list are returned to their heap.
const AT_PUT_BACK: &str = "pagewise: a block was freed twice, or the pointer is not a block";
/// Detected at once.
const AT_ONCE: &str = "pagewise: a pointer was freed or resized that is not a block in use";

/// Frees the address `offset` bytes from the start of a block of `size` bytes, after `before` other
/// blocks.
fn free_within(size: usize, offset: usize, before: usize) {
    let blocks: Vec<*mut u8> = (0..40).map(|_| ALLOCATOR.allocate(size)).collect();
    // SAFETY: the last free is the misuse to be detected.
    unsafe {
        blocks[..before].iter().for_each(|&block| ALLOCATOR.free(block));
        ALLOCATOR.free(blocks[before].add(offset));
    }
    ALLOCATOR.purge();
}

macro_rules! freed_within {
    ($($test:ident: $alone:ident, $size:expr, $offset:expr, $before:expr, $message:expr;)*) => {$(
        #[test]
        fn $test() {
            aborts(concat!("a_pointer_into_a_block::", stringify!($alone)), $message);
        }

        #[test]
        #[ignore = "in a process of its own, which it stops"]
        fn $alone() {
            free_within($size, $offset, $before);
        }
    )*};
}

freed_within! {
    sixteen_bytes_into_a_block: sixteen, 100, 16, 0, AT_PUT_BACK;
    sixteen_bytes_into_a_block_after_others: after_others, 100, 16, 20, AT_PUT_BACK;
    the_last_bytes_of_a_large_class: last_bytes, 14_000, 13_984, 1, AT_PUT_BACK;
    one_byte_into_a_block: one, 100, 1, 0, AT_ONCE;
    four_bytes_into_a_block: four, 24, 4, 3, AT_ONCE;
    eight_bytes_into_a_block: eight, 24, 8, 3, AT_PUT_BACK;
    one_byte_into_a_medium_block: medium, 50_000, 1, 0, AT_ONCE;
    eight_bytes_into_a_medium_block: medium_8, 50_000, 8, 0, AT_PUT_BACK;
    sixteen_bytes_into_a_medium_block: medium_16, 50_000, 16, 0, AT_PUT_BACK;
    one_byte_into_a_mapping: mapping, 40 << 20, 1, 0, AT_ONCE;
    a_page_into_a_mapping: mapping_page, 40 << 20, 4096, 0, AT_ONCE;
}

/// Where pages of small blocks were before, a pointer 16 KiB into a larger block found their
/// quick list, and went onto it.
#[test]
fn far_into_a_medium_block_where_small_ones_were() {
    aborts("a_pointer_into_a_block::where_small_ones_were", AT_PUT_BACK);
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn where_small_ones_were() {
    let small: Vec<*mut u8> = (0..8000).map(|_| ALLOCATOR.allocate(4096)).collect();
    // SAFETY: each is freed once.
    small.into_iter().for_each(|block| unsafe { ALLOCATOR.free(block) });
    ALLOCATOR.purge();
    let blocks: Vec<*mut u8> = (0..60).map(|_| ALLOCATOR.allocate(100_000)).collect();
    let granule = blocks[30].map_addr(|at| (at + (16 << 10)).next_multiple_of(16 << 10));
    // SAFETY: the free is the misuse to be detected, before a list is put back.
    unsafe {
        ALLOCATOR.free(granule);
        libc::_exit(0);
    }
}

/// No lock is held when the line is written: a handler of the signal may allocate.
#[test]
fn a_handler_of_the_signal_may_allocate() {
    passes("a_pointer_into_a_block::handled");
}

static HANDLED: AtomicBool = AtomicBool::new(false);

extern "C" fn handle(_: libc::c_int) {
    for size in [16, 100, 1000, 10_000, 100_000, 3 << 20] {
        let blocks = [(); 40].map(|()| ALLOCATOR.allocate(size));
        // SAFETY: the blocks are in use, and freed once.
        blocks.into_iter().for_each(|block| unsafe {
            block.write(1);
            ALLOCATOR.free(block);
        });
    }
    HANDLED.store(true, Ordering::Relaxed);
    // SAFETY: either call ends the process like a passed test.
    unsafe {
        let passed = b"test result: 1 passed\n";
        libc::write(1, passed.as_ptr().cast(), passed.len());
        libc::_exit(0);
    }
}

#[test]
#[ignore = "in a process of its own, which it stops"]
fn handled() {
    // SAFETY: the handler is a function of that type.
    unsafe { libc::signal(libc::SIGABRT, handle as extern "C" fn(libc::c_int) as usize) };
    free_within(100, 16, 5);
}
