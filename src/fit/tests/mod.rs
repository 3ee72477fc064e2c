//! Code that all tests of the heap share, and tests of the heap's edge cases.

mod area;
mod audit;
mod choice;
mod reclaim;
mod resize;

use core::alloc::Layout;
use core::ptr::NonNull;

use super::*;
use crate::source::Reserved;
use crate::strategy::SpanKind;
use crate::tags::attack::{attack, try_free};
use crate::{FreeResult, Strategy};

type Heap<P, R = Immediate, A = NoArea> = BoundaryTagHeap<P, R, A, Reserved>;

fn heap<P: Index, R: Reclaim, A: Area>() -> Heap<P, R, A> {
    Heap::new(1 << 12, Reserved::new(1 << 24), ())
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 1).unwrap()
}

fn allocate(heap: &mut dyn Strategy, size: usize) -> NonNull<u8> {
    heap.allocate(layout(size)).expect("room enough").cast()
}

fn free(heap: &mut dyn Strategy, block: NonNull<u8>, size: usize) {
    // SAFETY: the tests free what they allocated, once, with its size.
    unsafe { heap.deallocate(block, layout(size)) };
}

fn resize(heap: &mut dyn Strategy, block: NonNull<u8>, from: usize, to: usize) -> bool {
    // SAFETY: the tests resize blocks in use with their size.
    unsafe { heap.resize_in_place(block, layout(from), to) }.is_some()
}

/// Makes a heap with holes of these sizes between blocks in use, freed in this order.
fn holes<P: Index, A: Area>(sizes: &[usize]) -> (Heap<P, Immediate, A>, Vec<NonNull<u8>>) {
    let mut heap = heap::<P, Immediate, A>();
    let between = |heap: &mut Heap<P, Immediate, A>, &size: &usize| {
        let block = allocate(heap, size);
        allocate(heap, 12);
        block
    };
    let blocks: Vec<_> = sizes.iter().map(|size| between(&mut heap, size)).collect();
    for (&block, &size) in blocks.iter().zip(sizes) {
        free(&mut heap, block, size);
        heap.audit().unwrap();
    }
    (heap, blocks)
}

/// Returns start and length of the free blocks except the wilderness, in address order.
fn free_blocks(heap: &dyn Strategy) -> Vec<(usize, usize)> {
    let mut free = Vec::new();
    let mut end = 0;
    heap.walk(&mut |span| {
        end = span.end();
        if span.kind == SpanKind::Free {
            free.push((span.start, span.len));
        }
    });
    // Only the last header lies behind the wilderness.
    free.pop_if(|&mut (start, len)| start + len + 4 == end);
    free
}

#[test]
fn the_least_block_takes_16_bytes() {
    let mut heap = heap::<Best, Immediate, NoArea>();
    let (first, second) = (allocate(&mut heap, 12), allocate(&mut heap, 13));
    assert_eq!(second.addr().get() - first.addr().get(), 16);
    assert_eq!(allocate(&mut heap, 28).addr().get() - second.addr().get(), 32);
}

#[test]
fn the_wilderness_is_spent_last_and_grows() {
    let mut heap = heap::<Worst, Immediate, NoArea>();
    let (low, high) = (allocate(&mut heap, 100), allocate(&mut heap, 12));
    free(&mut heap, low, 100);
    assert_eq!(allocate(&mut heap, 100), low, "though the wilderness is larger");
    free(&mut heap, high, 12);
    // Joined with what there was, it serves more than one growth unit.
    assert_eq!(allocate(&mut heap, 5_000), high);
    assert_eq!(heap.usage().held, 1 << 13);
}

#[test]
fn an_aligned_block_leaves_its_gap_free() {
    let mut heap = heap::<Best, Immediate, NoArea>();
    for align in [32, 256, 4096, 1 << 16] {
        let aligned = Layout::from_size_align(100, align).unwrap();
        let block = heap.allocate(aligned).unwrap().cast::<u8>();
        assert!(block.addr().get().is_multiple_of(align));
        heap.audit().unwrap();
    }
    assert!(heap.usage().held < 3 << 16);
    assert!(!free_blocks(&heap).is_empty());
}

#[test]
fn a_checked_free_refuses_all_but_a_block_in_use() {
    attack(&mut heap::<Best, Immediate, NoArea>());
    attack(&mut heap::<Good, Immediate, NoArea>());
    attack(&mut heap::<First, Deferred, NoArea>());
    attack(&mut heap::<First, Immediate, Apart>());
}

#[test]
fn an_overwritten_tag_is_found_and_a_checked_free_stays_in_the_heap() {
    let mut heap = heap::<Best, Immediate, NoArea>();
    let (low, high) = (allocate(&mut heap, 12), allocate(&mut heap, 12));
    // SAFETY: the word behind the block is the header of the next, in the heap's memory.
    unsafe { low.add(12).cast::<u32>().write(u32::MAX) };
    assert!(heap.audit().is_err());
    assert_eq!(try_free(&mut heap, high, layout(12)), FreeResult::Unallocated);
}
