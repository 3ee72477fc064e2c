//! RANDOM(B), MOST-FREE, LEAST-FREE and MRU: the current page of each class stayed with its class
//! when nothing in it was in use any more. An emptied region could not be used for blocks of other
//! sizes, and `release_empty_pages` did not release these pages.

use std::ptr::NonNull;

use pagewise::Strategy;
use pagewise::catalogue;
use pagewise::catalogue::LeastFree;
use pagewise::pages::Config;

use crate::{layout, leaked};

/// Fills a heap with blocks of this size, and empties it. Returns the number of blocks.
fn fill(heap: &mut dyn Strategy, size: usize) -> usize {
    let layout = layout(size, 8);
    let blocks: Vec<NonNull<[u8]>> = std::iter::from_fn(|| heap.allocate(layout).ok()).collect();
    assert_eq!(heap.audit(), Ok(()));
    for block in &blocks {
        // SAFETY: the block is in use with this layout, and freed once.
        unsafe { heap.deallocate(block.cast(), layout) };
    }
    assert_eq!(heap.audit(), Ok(()));
    blocks.len()
}

#[test]
fn serve_other_classes() {
    let sizes = [16, 40, 100, 200, 300, 500, 700, 900, 1000, 40_000];
    // RANDOM(B) needs more bookkeeping for each class, for which a full region has no room.
    for name in ["MOST-FREE", "LEAST-FREE", "MRU", "QUICK", "PAGEWISE"] {
        let entry = catalogue::find(name).expect("it has an entry");
        let config = Config::with_page_size(1 << 12).freetol(64);
        let fresh = || entry.build_over(config, leaked(1 << 16), &()).expect("a configuration");
        let mut worn = fresh();
        for (size, round) in sizes.into_iter().chain(sizes.into_iter().rev()).zip(0..) {
            let (fresh, worn) = (fill(&mut *fresh(), size), fill(&mut *worn, size));
            // Headers for pages of many blocks are longer, and stay.
            assert!(worn + fresh / 8 + 1 >= fresh, "{name}, {size}, {round}: {worn} of {fresh}");
        }
    }
}

#[test]
fn are_released_on_demand() {
    let config = Config::with_page_size(1 << 12);
    let mut heap = LeastFree::new(config, leaked(1 << 16), ());
    for size in [16, 100, 500] {
        let block = heap.allocate(layout(size, 8)).expect("there is room");
        // SAFETY: nobody uses the block.
        unsafe { heap.deallocate(block.cast(), layout(size, 8)) };
    }
    let largest_free = |heap: &LeastFree<_>| {
        let mut largest = 0;
        heap.walk(&mut |span| {
            if span.kind == pagewise::walk::SpanKind::Free {
                largest = largest.max(span.len);
            }
        });
        largest
    };
    let before = largest_free(&heap);
    heap.release_empty_pages();
    assert_eq!((before, largest_free(&heap)), (1 << 12, 3 << 12), "the pages are joined");
    assert_eq!(heap.audit(), Ok(()));
}
