//! Each policy against a plain search of the walk; what the heap does at its edges.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::*;
use crate::Freed;
use crate::source::Reserved;
use crate::walk::SpanKind;

type Heap<P> = BoundaryTagHeap<P, Reserved>;

fn heap<P: Policy>() -> Heap<P> {
    Heap::new(1 << 12, Reserved::new(1 << 24), ())
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 1).unwrap()
}

fn allocate<P: Policy>(heap: &mut Heap<P>, size: usize) -> NonNull<u8> {
    heap.allocate(layout(size)).expect("room enough").cast()
}

fn free<P: Policy>(heap: &mut Heap<P>, block: NonNull<u8>, size: usize) {
    // SAFETY: the tests free what they allocated, once, with its size.
    unsafe { heap.deallocate(block, layout(size)) };
}

fn resize<P: Policy>(heap: &mut Heap<P>, block: NonNull<u8>, from: usize, to: usize) -> bool {
    // SAFETY: the tests resize blocks in use with their size.
    unsafe { heap.resize_in_place(block, layout(from), to) }.is_some()
}

/// Start and length of the free blocks but the wilderness, in address order.
fn free_blocks<P: Policy>(heap: &Heap<P>) -> Vec<(usize, usize)> {
    let mut free = Vec::new();
    let mut end = 0;
    heap.walk(&mut |span| {
        end = span.end();
        if span.kind == SpanKind::Free {
            free.push((span.start, span.len));
        }
    });
    // Behind the wilderness comes the last header only.
    free.pop_if(|&mut (start, len)| start + len + 4 == end);
    free
}

/// Frees and allocates at random and compares each choice with `choose`, which is given the free
/// blocks that fit.
fn agrees_with<P: Policy>(choose: impl Fn(&[(usize, usize)]) -> Option<usize>) {
    let mut heap = heap::<P>();
    let mut blocks: Vec<(NonNull<u8>, usize)> = Vec::new();
    let mut state = 1_u32;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    let mut chosen = 0;
    for step in 0..6_000 {
        if blocks.len() > 100 && random(2) == 0 {
            let (block, size) = blocks.swap_remove(random(blocks.len()));
            free(&mut heap, block, size);
        } else {
            let size = if random(4) == 0 { 1 + random(5_000) } else { 1 + random(300) };
            let mut fitting = free_blocks(&heap);
            fitting.retain(|&(_, len)| len >= size);
            let expected = choose(&fitting);
            let block = allocate(&mut heap, size);
            if let Some(expected) = expected {
                assert_eq!(block.addr().get(), expected, "step {step}: {size} B of {fitting:x?}");
                chosen += 1;
            }
            blocks.push((block, size));
        }
        if step % 64 == 0 {
            heap.audit().unwrap();
        }
    }
    assert!(chosen > 1_000, "most requests had a choice: {chosen}");
}

#[test]
fn best_fit_takes_the_lowest_of_the_smallest() {
    agrees_with::<Best>(|free| free.iter().min_by_key(|b| (b.1, b.0)).map(|b| b.0));
}

#[test]
fn worst_fit_takes_the_lowest_of_the_largest() {
    agrees_with::<Worst>(|free| free.iter().max_by_key(|b| (b.1, usize::MAX - b.0)).map(|b| b.0));
}

#[test]
fn first_fit_takes_the_lowest() {
    agrees_with::<First>(|free| free.first().map(|b| b.0));
}

#[test]
fn next_fit_goes_on_where_it_ended() {
    let mut heap = heap::<Next>();
    let blocks: Vec<_> = (0..9).map(|_| allocate(&mut heap, 100)).collect();
    for &index in &[1, 3, 5, 7] {
        free(&mut heap, blocks[index], 100);
    }
    assert_eq!(allocate(&mut heap, 100), blocks[1]);
    assert_eq!(allocate(&mut heap, 100), blocks[3]);
    free(&mut heap, blocks[1], 100);
    assert_eq!(allocate(&mut heap, 50), blocks[5]);
    // The rest of block 5 is too small, block 7 is next, and then the list starts again.
    assert_eq!(allocate(&mut heap, 100), blocks[7]);
    assert_eq!(allocate(&mut heap, 100), blocks[1]);
    heap.audit().unwrap();
}

#[test]
fn the_least_block_takes_16_bytes() {
    let mut heap = heap::<Best>();
    let (first, second) = (allocate(&mut heap, 12), allocate(&mut heap, 13));
    assert_eq!(second.addr().get() - first.addr().get(), 16);
    assert_eq!(allocate(&mut heap, 28).addr().get() - second.addr().get(), 32);
}

#[test]
fn blocks_grow_and_shrink_in_place() {
    let mut heap = heap::<Best>();
    let blocks: Vec<_> = (0..4).map(|_| allocate(&mut heap, 60)).collect();
    assert!(!resize(&mut heap, blocks[0], 60, 61), "the block above is in use");
    free(&mut heap, blocks[1], 60);
    assert!(resize(&mut heap, blocks[0], 60, 108));
    assert_eq!(free_blocks(&heap), [(blocks[0].addr().get() + 112, 12)]);
    assert!(resize(&mut heap, blocks[0], 108, 124), "all of the neighbour");
    assert!(!resize(&mut heap, blocks[0], 124, 125));
    assert!(resize(&mut heap, blocks[0], 124, 12));
    assert_eq!(free_blocks(&heap), [(blocks[0].addr().get() + 16, 108)]);
    assert!(resize(&mut heap, blocks[3], 60, 1 << 20), "the wilderness, and the source");
    assert!(!resize(&mut heap, blocks[3], 1 << 20, 1 << 25), "more than the source has");
    heap.audit().unwrap();
}

#[test]
fn the_wilderness_is_spent_last_and_grows() {
    let mut heap = heap::<Worst>();
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
    let mut heap = heap::<Best>();
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
    let mut heap = heap::<Best>();
    assert_eq!(heap.try_free(NonNull::dangling(), layout(8)), Freed::Unallocated);
    let blocks: Vec<_> = (0..3).map(|_| allocate(&mut heap, 200)).collect();
    // Contents that look like headers.
    for &block in &blocks {
        // SAFETY: the block is in use and 200 bytes long.
        unsafe { block.cast::<[u32; 50]>().write([13 << 2 | 3; 50]) };
    }
    free(&mut heap, blocks[1], 200);
    let before = heap.usage();
    let held = blocks[0].addr().get() - 16..blocks[0].addr().get() + (1 << 12) + 16;
    for address in held.filter(|address| *address != blocks[0].addr().get()) {
        if address == blocks[2].addr().get() {
            continue;
        }
        let wrong = NonNull::new(core::ptr::without_provenance_mut(address)).unwrap();
        assert_eq!(heap.try_free(wrong, layout(200)), Freed::Unallocated, "{address:#x}");
    }
    assert_eq!(heap.try_free(blocks[0], layout(100)), Freed::Unallocated, "another size");
    assert_eq!(heap.usage(), before);
    assert_eq!(heap.try_free(blocks[0], layout(200)), Freed::Freed);
    assert_eq!(heap.try_free(blocks[0], layout(200)), Freed::Unallocated, "a double free");
    heap.audit().unwrap();
}

#[test]
fn an_overwritten_tag_is_found_and_a_checked_free_stays_in_the_heap() {
    let mut heap = heap::<Best>();
    let (low, high) = (allocate(&mut heap, 12), allocate(&mut heap, 12));
    // SAFETY: the word behind the block is the header of the next, in the heap's memory.
    unsafe { low.add(12).cast::<u32>().write(u32::MAX) };
    assert!(heap.audit().is_err());
    assert_eq!(heap.try_free(high, layout(12)), Freed::Unallocated);
}
