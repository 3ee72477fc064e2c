//! Attacks on the checked frees of heaps with tags, for their tests.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::layout::{CELL, TAG};
use crate::strategy::Span;
use crate::{FreeResult, Strategy};

/// Bytes of each block.
const SIZE: usize = 200;

/// The number of addresses that are tried on each side of the lowest block. Miri is slow.
const NEAR: usize = if cfg!(miri) { 40 } else { 5_000 };

/// Frees a block with a check, in a test that uses no block after it has freed it.
pub(crate) fn try_free(heap: &mut dyn Strategy, block: NonNull<u8>, layout: Layout) -> FreeResult {
    // SAFETY: if the block is freed, the test is done with it.
    unsafe { heap.try_free(block, layout) }
}

/// Attacks an empty heap with pointers and sizes that belong to no block, near used and freed
/// blocks whose contents look like headers. The heap must refuse all of them unchanged, and free
/// each real block once.
///
/// # Panics
/// If the heap accepts one of them.
pub(crate) fn attack(heap: &mut dyn Strategy) {
    let layout = |size| Layout::from_size_align(size, 1).unwrap();
    let wrong = |address| NonNull::new(core::ptr::without_provenance_mut(address)).unwrap();
    assert_eq!(
        try_free(heap, NonNull::dangling(), layout(8)),
        FreeResult::Unallocated,
        "no memory yet"
    );
    let blocks: Vec<NonNull<u8>> =
        (0..8).map(|_| heap.allocate(layout(SIZE)).unwrap().cast()).collect();
    let header = ((SIZE + TAG).div_ceil(CELL) as u32) << 2 | 3;
    for &block in &blocks {
        // SAFETY: the block is in use and this long.
        unsafe { block.cast().write([header; SIZE / size_of::<u32>()]) };
    }
    for &block in blocks.iter().step_by(2) {
        assert_eq!(try_free(heap, block, layout(SIZE)), FreeResult::Freed);
        assert_eq!(try_free(heap, block, layout(SIZE)), FreeResult::Unallocated, "a double free");
    }
    let kept: Vec<_> = blocks.iter().skip(1).step_by(2).map(|block| block.addr().get()).collect();
    let before = (heap.usage(), spans(heap));
    let low = blocks.iter().min().unwrap().addr().get();
    let near = low - NEAR..low + NEAR;
    let high = 1 << (usize::BITS - 1);
    let far = [1, CELL, usize::MAX, usize::MAX - 15, high, low ^ high >> 1];
    for address in near.chain(far) {
        for size in [1, SIZE / 2, SIZE, SIZE + 8, isize::MAX as usize] {
            if size != SIZE || !kept.contains(&address) {
                let answer = try_free(heap, wrong(address), layout(size));
                assert_eq!(answer, FreeResult::Unallocated, "{size} bytes at {address:#x}");
            }
        }
    }
    assert_eq!((heap.usage(), spans(heap)), before);
    heap.audit().unwrap();
}

fn spans(heap: &dyn Strategy) -> Vec<Span> {
    let mut spans = Vec::new();
    heap.walk(&mut |span| spans.push(span));
    spans
}
