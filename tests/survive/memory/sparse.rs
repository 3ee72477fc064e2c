//! Sparsely touched memory does not become huge pages; filled memory does.

use std::hint::black_box;

use super::{MIB, resident};
use crate::ALLOCATOR;
use crate::child::passes;

/// Returns whether the system always makes huge pages, or never: then there is nothing to test.
fn is_not_asked() -> bool {
    let file = "/sys/kernel/mm/transparent_hugepage/enabled";
    !std::fs::read_to_string(file).is_ok_and(|setting| setting.contains("[madvise]"))
}

/// Writes a byte every `step` bytes of a block.
fn touch(block: *mut u8, len: usize, step: usize) {
    assert!(!block.is_null());
    for at in (0..len).step_by(step) {
        // SAFETY: the block has this byte.
        unsafe { block.wrapping_add(at).write_volatile(1) };
    }
}

/// Returns the bytes of this process in huge pages.
fn huge() -> usize {
    let status = std::fs::read_to_string("/proc/self/smaps_rollup").expect("there is a /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    let kib: usize =
        line.expect("its line").trim_end_matches("kB").trim().parse().expect("a number");
    kib << 10
}

#[test]
fn one_large_block() {
    passes("memory::sparse::one_large_block_alone");
}

#[test]
#[ignore = "in a process of its own"]
fn one_large_block_alone() {
    const LEN: usize = if usize::BITS == 64 { 8 << 30 } else { 512 << 20 };
    if is_not_asked() {
        return;
    }
    let before = resident();
    let block = ALLOCATOR.allocate(LEN);
    touch(block, LEN, 4 * MIB);
    let taken = resident() - before;
    assert!(taken < 64 * MIB, "{} MiB", taken / MIB);
    // SAFETY: the block is in use.
    unsafe { ALLOCATOR.free(block) };
}

/// Checks that `count` blocks of `size` bytes, with one byte written per `step`, take little memory
/// together.
fn hold_sparse_blocks(count: usize, size: usize, step: usize) {
    let before = resident();
    let blocks: Vec<_> = (0..count)
        .map(|_| {
            let block = ALLOCATOR.allocate(size);
            touch(block, size, step);
            block
        })
        .collect();
    let taken = resident() - before;
    assert!(taken < 32 * MIB, "{} MiB", taken / MIB);
    // SAFETY: each block is in use.
    blocks.into_iter().for_each(|block| unsafe { ALLOCATOR.free(block) });
}

#[test]
fn many_large_blocks() {
    passes("memory::sparse::many_large_blocks_alone");
}

#[test]
#[ignore = "in a process of its own"]
fn many_large_blocks_alone() {
    if is_not_asked() {
        return;
    }
    hold_sparse_blocks(if usize::BITS == 64 { 200 } else { 10 }, 12 * MIB, 8 * MIB);
}

#[test]
fn large_blocks_where_small_ones_were() {
    passes("memory::sparse::large_blocks_where_small_ones_were_alone");
}

/// A heap filled with small blocks has huge pages. Once freed and given back, its memory serves
/// large blocks, and must not become huge pages again.
#[test]
#[ignore = "in a process of its own"]
fn large_blocks_where_small_ones_were_alone() {
    if is_not_asked() {
        return;
    }
    let small: Vec<_> = (0..160 * 1024).map(|at| black_box(vec![at as u8; 1000])).collect();
    let taken = huge();
    assert!(taken > 100 * MIB, "{} MiB of 160 are huge pages", taken / MIB);
    drop(small);
    ALLOCATOR.purge();
    hold_sparse_blocks(15, 10 * MIB, 2 * MIB);
}

#[test]
fn a_block_that_grows() {
    passes("memory::sparse::a_block_that_grows_alone");
}

/// A vector that is filled and doubled has huge pages where it was extended.
#[test]
#[ignore = "in a process of its own"]
fn a_block_that_grows_alone() {
    if is_not_asked() || usize::BITS == 32 {
        return;
    }
    let mut vector = Vec::new();
    for at in 0..256 * MIB / 8 {
        vector.push(at);
    }
    let taken = huge();
    assert!(taken > 100 * MIB, "{} MiB of 256 are huge pages", taken / MIB);
    assert!(vector.iter().enumerate().all(|(at, &item)| at == item));
}
