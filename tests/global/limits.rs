//! Behaviour when memory is exhausted.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;

use crate::ALLOCATOR;
use crate::child::memory::{is_emulated, limit_addresses};
use crate::child::passes_when;

const LIMIT: u64 = 512 << 20;

#[test]
fn exhaustion_returns_null_and_loses_nothing() {
    passes_under_limit("limits::exhaust");
}

/// A block that grows gets a quarter more, unless there is memory only for what was asked.
#[test]
fn a_block_grows_into_the_last_memory() {
    passes_under_limit("limits::grow");
}

/// Runs a test whose process has a limit from `exec` on, before the allocator starts.
fn passes_under_limit(test: &str) {
    passes_when(test, |command| limit_addresses(command, LIMIT, 2 * LIMIT));
}

#[test]
#[ignore = "in a process of its own, under a limit"]
fn exhaust() {
    // Pages of the smallest blocks take most bookkeeping, of which enough is left for the others.
    for size in [8, 48, 1000, 12_000, 50_000, 3 << 20, 60 << 20] {
        let layout = Layout::from_size_align(size, size.min(16)).expect("a valid layout");
        let mut counts = [0; 2];
        for count in &mut counts {
            // Blocks are linked through their own memory, so that counting them needs none.
            let mut last: *mut *mut u8 = ptr::null_mut();
            // SAFETY: every block has room for a link, and is freed once.
            unsafe {
                loop {
                    let mut block = ALLOCATOR.alloc(layout).cast::<*mut u8>();
                    if block.is_null() {
                        block = ALLOCATOR.alloc_zeroed(layout).cast();
                        // qemu sometimes finds room for a mapping right after it had none.
                        assert!(block.is_null() || is_emulated());
                    }
                    if block.is_null() {
                        break;
                    }
                    block.write(last.cast());
                    last = block;
                    *count += 1;
                }
                while !last.is_null() {
                    let block = last;
                    last = block.read().cast();
                    ALLOCATOR.dealloc(block.cast(), layout);
                }
            }
        }
        let [first, second] = counts;
        println!("{size} B: {first}, then {second} blocks, {} MiB", (first * size) >> 20);
        assert!(first * size > 200 << 20, "{first} blocks of {size} B are too few");
        // In qemu the second round may find one mapping less.
        let found = second + usize::from(is_emulated());
        assert!(found * 100 >= first * 98, "{first} blocks of {size} B, then only {second}");
    }
    let huge = Layout::from_size_align(isize::MAX as usize / 2, 1 << 12).expect("a valid layout");
    // SAFETY: the layout has a size.
    assert!(unsafe { ALLOCATOR.alloc(huge) }.is_null());
    assert_eq!(String::from("still").len() + vec![0; 5000].len(), 5005);
}

#[test]
#[ignore = "in a process of its own, under a limit"]
fn grow() {
    let mut blocks: Vec<*mut u8> = Vec::with_capacity(1 << 20);
    let mut fill = |size| {
        let first = blocks.len();
        blocks.extend(
            std::iter::repeat_with(|| ALLOCATOR.allocate(size)).take_while(|b| !b.is_null()),
        );
        blocks[first..].to_vec()
    };
    let block = ALLOCATOR.allocate(1_000_000);
    let large = fill(1_100_000);
    fill(50_000);
    // SAFETY: each block is in use, and freed or resized once.
    unsafe {
        block.write_bytes(7, 1_000_000);
        ALLOCATOR.free(large[large.len() / 2]);
        let grown = ALLOCATOR.reallocate(block, 1_090_000);
        assert!(!grown.is_null(), "there are 1,100,000 bytes");
        assert!(std::slice::from_raw_parts(grown, 1_000_000).iter().all(|&byte| byte == 7));
    }
}
