//! Tests when freed blocks become free memory.

use super::*;
use crate::source::Region;

#[test]
fn deferred_blocks_serve_as_they_are_and_are_joined_when_a_search_fails() {
    let mut heap = heap::<Best, Deferred, NoArea>();
    let blocks: Vec<_> = (0..63).map(|_| allocate(&mut heap, 60)).collect();
    free(&mut heap, blocks[10], 60);
    free(&mut heap, blocks[11], 60);
    assert_eq!(free_blocks(&heap).len(), 2, "side by side");
    heap.audit().unwrap();
    assert_eq!(allocate(&mut heap, 60), blocks[10]);
    for index in [10, 20, 21, 22] {
        free(&mut heap, blocks[index], 60);
    }
    // The rest of 4096 bytes above 63 blocks of 64 is too short a wilderness for 124 more.
    let held = heap.usage().held;
    assert_eq!(allocate(&mut heap, 124), blocks[10], "smaller than the other two joined");
    assert_eq!(allocate(&mut heap, 188), blocks[20]);
    assert_eq!(heap.usage().held, held);
    heap.audit().unwrap();
}

#[test]
fn a_deferred_heap_joins_what_little_was_freed_before_it_gives_up() {
    let mut memory = [const { core::mem::MaybeUninit::<u128>::uninit() }; 4096];
    // SAFETY: the heap, the only user of the memory, is dropped before it.
    let region = unsafe { Region::new(memory.as_mut_ptr().cast(), size_of_val(&memory)) };
    let mut heap = BoundaryTagHeap::<Best, Deferred, NoArea, _>::new(16, region, ());
    let mut blocks = Vec::new();
    while let Ok(block) = heap.allocate(layout(60)) {
        blocks.push(block.cast::<u8>());
    }
    free(&mut heap, blocks[7], 60);
    assert!(heap.allocate(layout(124)).is_err());
    free(&mut heap, blocks[8], 60);
    assert_eq!(allocate(&mut heap, 124), blocks[7]);
    heap.audit().unwrap();
}

#[test]
fn withheld_blocks_serve_nothing_until_an_allocation_fails() {
    let mut heap = heap::<Segregated, Collected, NoArea>();
    let blocks: Vec<_> = (0..63).map(|_| allocate(&mut heap, 60)).collect();
    let held = heap.usage().held;
    for &index in &[5, 3, 4] {
        free(&mut heap, blocks[index], 60);
        assert_eq!(try_free(&mut heap, blocks[index], layout(60)), FreeResult::Unallocated);
        heap.audit().unwrap();
    }
    assert_eq!(heap.usage().blocks, 60);
    assert!(!resize(&mut heap, blocks[2], 60, 61), "what is above is withheld, not free");
    assert!(allocate(&mut heap, 12) > blocks[62], "the wilderness is there still");
    // The three together serve a request that no other block serves, without any growth.
    assert_eq!(allocate(&mut heap, 188), blocks[3]);
    assert_eq!(heap.usage().held, held);
    heap.audit().unwrap();
}

#[test]
fn the_uppermost_withheld_block_is_no_wilderness() {
    let mut heap =
        BoundaryTagHeap::<Best, Collected, NoArea, _>::new(16, Reserved::new(1 << 20), ());
    let blocks: Vec<_> = (0..4).map(|_| allocate(&mut heap, 60)).collect();
    free(&mut heap, blocks[3], 60);
    heap.audit().unwrap();
    assert_eq!(allocate(&mut heap, 60), blocks[3]);
    free(&mut heap, blocks[3], 60);
    // It is joined with the memory that the heap grows by.
    assert_eq!(allocate(&mut heap, 600), blocks[3]);
    heap.audit().unwrap();
}
