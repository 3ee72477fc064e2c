//! Tests of the differences between the algorithms, each with the smallest example.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::{Algorithm, WORD, WordHeap};
use crate::Strategy;
use crate::catalogue::nielsen::*;
use crate::meter::{Counter, Meter};
use crate::source::Reserved;
use crate::strategy::SpanKind;

/// An algorithm over a memory of a fixed number of words, as in the paper's experiments.
struct Fixed<A, M: Meter = ()>(WordHeap<A, Reserved, M>);

fn layout(words: usize) -> Layout {
    Layout::from_size_align(words * WORD, WORD).unwrap()
}

/// Makes a heap with this many words.
macro_rules! fixed {
    ($algorithm:ident, $words:expr) => {
        fixed!($algorithm, $words, ())
    };
    ($algorithm:ident, $words:expr, $meter:expr) => {{
        let memory = Reserved::new($algorithm::<Reserved>::region_for($words));
        Fixed($algorithm::new($words * WORD, memory, $meter))
    }};
}

/// A memory of more words than there are addresses.
#[test]
fn a_region_too_long_is_the_longest() {
    assert_eq!(I1::<Reserved>::region_for(usize::MAX), usize::MAX);
    assert_eq!(I1::<Reserved>::region_for(100) - I1::<Reserved>::region_for(0), 100 * WORD);
}

impl<A: Algorithm, M: Meter> Fixed<A, M> {
    fn allocate(&mut self, words: usize) -> Option<NonNull<u8>> {
        let block = self.0.allocate(layout(words)).ok()?.cast();
        self.0.audit().unwrap();
        Some(block)
    }

    /// Allocates as many blocks as there is memory for.
    fn fill(&mut self, words: usize) -> Vec<NonNull<u8>> {
        core::iter::from_fn(|| self.allocate(words)).collect()
    }

    fn free(&mut self, block: NonNull<u8>, words: usize) {
        // SAFETY: the tests free blocks in use, of this size.
        unsafe { self.0.deallocate(block, layout(words)) };
        self.0.audit().unwrap();
    }

    fn free_blocks(&self) -> usize {
        let mut free = 0;
        self.0.walk(&mut |span| free += usize::from(span.kind == SpanKind::Free));
        free
    }
}

#[test]
fn overhead_is_counted_in_words() {
    assert_eq!(fixed!(I4, 100).fill(9).len(), 10, "S");
    assert_eq!(fixed!(I1, 100).fill(8).len(), 10, "S + BP");
    assert_eq!(fixed!(II1, 100).fill(9).len(), 10, "S + DP: pointers lie in the contents");
    assert_eq!(fixed!(IV1, 100).fill(9).len(), 10, "S + FP");
    assert_eq!(fixed!(IV2, 100).fill(6).len(), 10, "S + FP, rounded up to 5");
    assert_eq!(fixed!(IV4, 100).fill(8).len(), 10, "S + DP + B");
    assert_eq!(fixed!(V1, 128).fill(7).len(), 16, "S in a power of two");
    assert_eq!(fixed!(V1, 128).fill(8).len(), 8, "S in a power of two");
    assert_eq!(fixed!(V1, 100).fill(7).len(), 12, "all but the last 4 words");
}

#[test]
fn first_fit_starts_from_the_front_and_rotating_goes_on() {
    let (mut front, mut rotating) = (fixed!(I1, 100), fixed!(I2, 100));
    let (first, other) = (front.allocate(8).unwrap(), rotating.allocate(8).unwrap());
    front.free(first, 8);
    rotating.free(other, 8);
    // I-2 joins the freed block with the rest of memory, and its search goes on where that starts.
    assert_eq!(front.allocate(8), Some(first));
    assert_eq!(rotating.allocate(8), Some(other));
    let (mut front, mut rotating) = (fixed!(II1, 100), fixed!(II2, 100));
    let (first, other) = (front.allocate(9).unwrap(), rotating.allocate(9).unwrap());
    front.allocate(9).unwrap();
    rotating.allocate(9).unwrap();
    front.free(first, 9);
    rotating.free(other, 9);
    assert_eq!(front.allocate(9), Some(first));
    assert!(rotating.allocate(9) > Some(other));
}

#[test]
fn exact_or_best_takes_the_smallest_that_fits() {
    let mut heap = fixed!(II3, 100);
    let large = heap.allocate(20).unwrap();
    heap.allocate(5).unwrap();
    let small = heap.allocate(12).unwrap();
    heap.allocate(5).unwrap();
    heap.free(large, 20);
    heap.free(small, 12);
    assert_eq!(heap.allocate(11), Some(small));
    assert_eq!(heap.allocate(11), Some(large));
}

#[test]
fn lifo_takes_the_block_freed_last_and_fifo_the_one_freed_first() {
    macro_rules! taken_first {
        ($($algorithm:ident)*) => {[$({
            let mut heap = fixed!($algorithm, 64);
            let blocks = heap.fill(7);
            heap.free(blocks[2], 7);
            heap.free(blocks[5], 7);
            heap.allocate(7) == Some(blocks[2])
        }),*]};
    }
    assert_eq!(taken_first![III1 III3 IV1 V1], [false; 4]);
    assert_eq!(taken_first![III2 III5 V2], [true; 3]);
}

#[test]
fn neighbours_are_joined_when_the_algorithm_says_so() {
    /// Returns the number of free blocks after two neighbours were freed, and after a request that
    /// takes both was served.
    macro_rules! free_blocks {
        ($algorithm:ident) => {{
            let mut heap = fixed!($algorithm, 60);
            let blocks = heap.fill(8);
            heap.free(blocks[1], 8);
            heap.free(blocks[2], 8);
            let freed = heap.free_blocks();
            assert_eq!(heap.allocate(17), Some(blocks[1]));
            (freed, heap.free_blocks())
        }};
    }
    for (name, (freed, _)) in [
        ("I-1", free_blocks!(I1)),
        ("II-1", free_blocks!(II1)),
        ("IV-5", free_blocks!(IV5)),
        ("VI-2", free_blocks!(VI2)),
    ] {
        // The rest at the end of memory may be free as well.
        assert!(freed <= 2, "{name} joins at once");
    }
    for (name, (freed, after)) in [
        ("I-4", free_blocks!(I4)),
        ("I-7", free_blocks!(I7)),
        ("II-3", free_blocks!(II3)),
        ("II-5", free_blocks!(II5)),
        ("II-7", free_blocks!(II7)),
        ("III-1", free_blocks!(III1)),
        ("III-3", free_blocks!(III3)),
        ("IV-1", free_blocks!(IV1)),
        ("VI-1", free_blocks!(VI1)),
    ] {
        assert!(freed >= 2 && after == freed - 2, "{name} joins when it must: {freed}, {after}");
    }
}

#[test]
fn blocks_in_limbo_are_not_searched() {
    let mut heap = fixed!(II5, 100);
    let first = heap.allocate(9).unwrap();
    heap.free(first, 9);
    let others = heap.fill(9);
    // It was collected only when nothing else was free.
    assert_eq!((others.len(), others.last()), (10, Some(&first)));
}

#[test]
fn many_lists_cost_one_item_each_way() {
    let meter = Counter::new();
    let mut heap = fixed!(IV1, 1000, &meter);
    let block = heap.allocate(9).unwrap();
    heap.free(block, 9);
    let before = meter.items();
    assert_eq!(heap.allocate(9), Some(block));
    heap.free(block, 9);
    assert_eq!(meter.items() - before, 2);
}
