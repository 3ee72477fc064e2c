//! `allocate_aligned(8, 1 << 63)` overflowed in a debug build, and in a release build continued
//! with an invalid `Layout`. Every size and alignment, in every function that takes them, must give
//! a block or null.

use std::hint::black_box;
use std::ptr;

use pagewise::global::{ClassStats, Pagewise};

use crate::ALLOCATOR;
use crate::child::passes;

/// 0, powers of two and their neighbours, up to the largest number.
fn numbers() -> impl Iterator<Item = usize> {
    let powers = (0..usize::BITS).map(|log2| 1_usize << log2);
    let near = powers.flat_map(|power| [power - 1, power, power + 1]);
    let ends = [isize::MAX as usize - 4096, usize::MAX - 4096, usize::MAX - 1, usize::MAX];
    near.chain(ends)
}

/// Sizes from here on are refused. (Between the machine's memory and this, the system decides.)
const REFUSED: usize = isize::MAX as usize;

/// Checks a block's alignment and both ends, and frees it.
fn check(block: *mut u8, size: usize, align: usize) {
    if black_box(block).is_null() {
        return;
    }
    assert!(size <= REFUSED && block.addr().is_multiple_of(align), "{size} at {align}: {block:?}");
    // SAFETY: the block has these bytes, and is freed once.
    unsafe {
        // Huge blocks take too long to clear.
        if (1..1 << 20).contains(&size) {
            block.write(1);
            block.add(size - 1).write(1);
        }
        ALLOCATOR.free(block);
    }
}

#[test]
fn every_size_and_alignment_gives_a_block_or_null() {
    passes("a_hostile_request::answered");
}

#[test]
#[ignore = "in a process of its own"]
fn answered() {
    for size in numbers() {
        check(ALLOCATOR.allocate(size), size, 16);
        check(ALLOCATOR.allocate_zeroed(size), size, 16);
        for align in numbers() {
            let block = ALLOCATOR.allocate_aligned(size, align);
            assert!(align.is_power_of_two() || block.is_null(), "{size} at {align}");
            assert!(size <= REFUSED || block.is_null(), "{size} at {align}");
            check(block, size, align);
        }
    }
    assert!(ALLOCATOR.allocate_aligned(8, 1 << (usize::BITS - 1)).is_null());
    assert!(ALLOCATOR.allocate_aligned(0, 1 << (usize::BITS - 1)).is_null());
}

#[test]
fn every_new_size_gives_a_block_or_null() {
    passes("a_hostile_request::resized");
}

#[test]
#[ignore = "in a process of its own"]
fn resized() {
    for old_size in [0, 1, 100, 20_000, 100_000, 3 << 20, 40 << 20] {
        for new_size in numbers() {
            let block = ALLOCATOR.allocate(old_size);
            assert!(!block.is_null());
            // SAFETY: the block is in use; afterwards only the returned block is used, if there is
            // one.
            unsafe {
                block.write_bytes(3, old_size.min(1));
                let moved = ALLOCATOR.reallocate(block, new_size);
                assert!(new_size <= REFUSED || moved.is_null(), "{old_size} to {new_size}");
                if moved.is_null() {
                    ALLOCATOR.free(block);
                } else {
                    assert!(old_size.min(new_size) == 0 || *moved == 3);
                    check(moved, new_size, 16);
                }
            }
        }
    }
}

/// A visitor of the classes may run any code: allocate, purge, walk the classes again, and panic.
#[test]
fn a_visitor_may_do_anything() {
    passes("a_hostile_request::visited");
}

#[test]
#[ignore = "in a process of its own"]
fn visited() {
    let kept: Vec<Vec<u8>> = (1..2000).map(|size| vec![1; size]).collect();
    let mut visits = 0;
    ALLOCATOR.for_each_class(|class: ClassStats| {
        visits += 1;
        drop(vec![1_u8; class.size]);
        drop(vec![0_u8; 40 << 20]);
        ALLOCATOR.purge();
        let mut inner = 0;
        ALLOCATOR.for_each_class(|_| inner += 1);
        assert!(inner > 0 && ALLOCATOR.stats().blocks > 0);
        std::thread::spawn(|| drop(vec![1_u8; 300])).join().expect("it ends");
    });
    assert!(visits > 10);
    let stopped = std::panic::catch_unwind(|| {
        ALLOCATOR.for_each_class(|class| assert!(class.size < 200, "this size is enough"));
    });
    assert!(stopped.is_err());
    // No lock is still held, and nothing is counted twice.
    drop(vec![1_u8; 300]);
    ALLOCATOR.purge();
    assert_eq!(kept.iter().map(Vec::len).sum::<usize>(), (1..2000).sum::<usize>());
}

/// All values of the type are one allocator, whatever their tuning: one frees the blocks of
/// another.
#[test]
fn another_value_is_the_same_allocator() {
    let other = Pagewise::default();
    for size in [10, 1000, 30_000, 2 << 20, 40 << 20] {
        // SAFETY: blocks are freed once, and written to within their size.
        unsafe {
            let block = ALLOCATOR.reallocate(other.allocate_zeroed(size), size * 2);
            assert!(!block.is_null() && (0..size).all(|index| *block.add(index) == 0));
            other.free(block);
        }
    }
    // SAFETY: null is no block.
    unsafe {
        other.free(ptr::null_mut());
        assert_eq!(other.usable_size(ptr::null_mut()), 0);
    }
}
