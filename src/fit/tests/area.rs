//! Tests of the free-space area, as in Figure 1 of Chung & Moon, and of blocks freed beside it.

use std::cell::Cell;

use super::*;
use crate::meter::{Meter, Part};

/// Counts the requests that the area served.
#[derive(Default)]
struct Bumps(Cell<u32>);

// SAFETY: it counts, and no test has 2³² requests.
unsafe impl Meter for Bumps {
    fn item(&self, _: usize, _: u32) {}
    fn served(&self, part: Part) {
        self.0.set(self.0.get() + u32::from(part == Part::Area));
    }
}

/// Uses up the area at the heap's end, to the last cell.
pub(super) fn use_up(heap: &mut dyn Strategy) {
    let mut last = 0;
    heap.walk(&mut |span| {
        if span.kind == SpanKind::Free {
            last = span.len
        }
    });
    allocate(heap, last);
}

#[test]
fn an_area_is_used_up_from_below_then_the_fit_finds_the_next() {
    let (mut heap, holes) = holes::<First, Apart>(&[124, 1_020]);
    // The wilderness was the area: a request that does not fit it any more goes to the lowest hole
    // that is large enough.
    allocate(&mut heap, 2_850);
    assert_eq!(allocate(&mut heap, 60), holes[0]);
    assert_eq!(allocate(&mut heap, 12).addr().get(), holes[0].addr().get() + 64);
    // 48 bytes are left, and go back; the new area is the second hole, as a whole.
    assert_eq!(allocate(&mut heap, 60), holes[1]);
    assert_eq!(free_blocks(&heap)[0], (holes[0].addr().get() + 80, 44));
    for step in 1..16 {
        assert_eq!(allocate(&mut heap, 60).addr().get(), holes[1].addr().get() + 64 * step);
    }
    heap.audit().unwrap();
}

#[test]
fn most_allocations_are_bumps_while_memory_is_fresh() {
    let bumps = Bumps::default();
    let source = Reserved::new(1 << 24);
    let mut heap: BoundaryTagHeap<Best, Immediate, Apart, _, _> =
        BoundaryTagHeap::new(1 << 12, source, &bumps);
    for _ in 0..100 {
        allocate(&mut heap, 60);
    }
    assert_eq!(bumps.0.get(), 98, "the first of each growth unit is not");
}

#[test]
fn the_area_is_free_in_a_walk_and_to_a_checked_free() {
    let mut heap = heap::<Best, Immediate, Apart>();
    let block = allocate(&mut heap, 60);
    let area = NonNull::new(block.as_ptr().wrapping_add(64)).unwrap();
    let mut spans = Vec::new();
    heap.walk(&mut |span| spans.push((span.kind, span.len)));
    let free = (SpanKind::Free, 4096 - 16 - 64 - 4);
    let header = (SpanKind::Header, 4);
    let block = (SpanKind::Block, 60);
    assert_eq!(spans, [(SpanKind::Slack, 12), header, block, header, free, header]);
    assert_eq!(try_free(&mut heap, area, layout(4096 - 16 - 64 - 4)), FreeResult::Unallocated);
}

#[test]
fn lf_keeps_what_is_freed_beside_the_area_apart() {
    let mut heap = heap::<First, Immediate, Apart>();
    let (low, high) = (allocate(&mut heap, 60), allocate(&mut heap, 60));
    free(&mut heap, high, 60);
    heap.audit().unwrap();
    let next = allocate(&mut heap, 60);
    assert_eq!(next.addr().get(), high.addr().get() + 64, "the allocation pointer stays");
    free(&mut heap, next, 60);
    assert_eq!(free_blocks(&heap)[0], (high.addr().get(), 124), "joined with each other");
    free(&mut heap, low, 60);
    heap.audit().unwrap();
}

#[test]
fn lfb_moves_the_pointers_over_what_is_freed_beside_the_area() {
    let (mut heap, holes) = holes::<First, Joining>(&[124, 124]);
    use_up(&mut heap);
    let low = allocate(&mut heap, 60);
    assert_eq!(low, holes[0]);
    free(&mut heap, low, 60);
    assert_eq!(allocate(&mut heap, 12), low, "the allocation pointer is back");
    // The block between the two holes lies at the bound pointer; beyond it the second hole is free.
    let above = NonNull::new(holes[0].as_ptr().wrapping_add(128)).unwrap();
    free(&mut heap, above, 12);
    heap.audit().unwrap();
    let bumped = allocate(&mut heap, 200);
    assert_eq!(bumped.addr().get(), holes[0].addr().get() + 16);
    heap.audit().unwrap();
}

#[test]
fn a_used_up_area_keeps_its_place() {
    let (mut heap, holes) = holes::<First, Joining>(&[60, 60]);
    use_up(&mut heap);
    let block = allocate(&mut heap, 60);
    assert_eq!(block, holes[0], "all of it");
    free(&mut heap, block, 60);
    assert_eq!(free_blocks(&heap).len(), 2, "it is the area again");
    assert_eq!(allocate(&mut heap, 28), block);
    heap.audit().unwrap();
}

#[test]
fn lfl_gives_the_area_back_with_what_is_freed_beside_it() {
    let (mut heap, holes) = holes::<First, Releasing>(&[124, 60]);
    use_up(&mut heap);
    let first = allocate(&mut heap, 60);
    assert_eq!(first, holes[0]);
    // Not beside the area: it stays.
    let second = allocate(&mut heap, 12);
    free(&mut heap, first, 60);
    assert_eq!(allocate(&mut heap, 12).addr().get(), first.addr().get() + 80);
    let third = NonNull::new(first.as_ptr().wrapping_add(80)).unwrap();
    free(&mut heap, third, 12);
    free(&mut heap, second, 12);
    assert_eq!(free_blocks(&heap)[0], (first.addr().get(), 124), "all of the hole is free");
    assert_eq!(allocate(&mut heap, 12), first, "and found by first fit");
    heap.audit().unwrap();
}

#[test]
fn a_bounded_area_is_the_lower_part_of_a_free_block() {
    let (mut heap, holes) = holes::<First, Bounded<Releasing, 128>>(&[1_020]);
    // The wilderness's lower 128 bytes are the area, and 16 of them are used.
    allocate(&mut heap, 108);
    let first = allocate(&mut heap, 12);
    assert_eq!(first, holes[0]);
    heap.audit().unwrap();
    let start = first.addr().get();
    let (area, rest) = ((start + 16, 108), (start + 128, 1_020 - 128));
    assert_eq!(free_blocks(&heap)[..2], [area, rest]);
    assert_eq!(allocate(&mut heap, 300).addr().get(), start + 16, "joined, they serve more");
    heap.audit().unwrap();
}

#[test]
fn a_sparing_area_is_never_the_wilderness() {
    let (mut heap, holes) = holes::<First, Sparing<Apart>>(&[124]);
    let wilderness = holes[0].addr().get() + 128 + 16;
    assert_eq!(allocate(&mut heap, 2_000).addr().get(), wilderness, "cut from it");
    assert_eq!(allocate(&mut heap, 12), holes[0], "the hole is the area");
    assert_eq!(allocate(&mut heap, 12).addr().get(), holes[0].addr().get() + 16);
    heap.audit().unwrap();
}

#[test]
fn an_aligned_request_is_bumped_and_its_gap_is_free() {
    let mut heap = heap::<Best, Immediate, Joining>();
    let first = allocate(&mut heap, 12);
    let aligned = Layout::from_size_align(100, 256).unwrap();
    let block = heap.allocate(aligned).unwrap().cast::<u8>();
    assert!(block.addr().get().is_multiple_of(256));
    let gap = block.addr().get() - first.addr().get() - 16;
    assert_eq!(free_blocks(&heap)[0], (first.addr().get() + 16, gap - 4));
    let next = allocate(&mut heap, 12);
    assert_eq!(next.addr().get(), block.addr().get() + 112);
    heap.audit().unwrap();
}

#[test]
fn a_block_below_the_area_grows_by_a_bump_and_shrinks_into_it() {
    let mut heap = heap::<Best, Immediate, Joining>();
    let block = allocate(&mut heap, 60);
    assert!(resize(&mut heap, block, 60, 500));
    assert!(resize(&mut heap, block, 500, 28));
    assert_eq!(allocate(&mut heap, 12).addr().get(), block.addr().get() + 32);
    let last = allocate(&mut heap, 12);
    assert!(resize(&mut heap, last, 12, 1 << 20), "at the heap's end the source has more");
    heap.audit().unwrap();
}
