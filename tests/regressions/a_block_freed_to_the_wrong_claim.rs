//! Claims looked a block's strategy up by the region it was claimed with, which the strategy need
//! not have used: frees went to another heap, or were lost.

use pagewise::FreeResult;
use pagewise::PageHeap;
use pagewise::Strategy;
use pagewise::arena::Claims;
use pagewise::pages::Config;
use pagewise::source::Region;

use crate::{layout, leaked};

fn heap(bytes: usize) -> PageHeap<Region> {
    PageHeap::new(Config::arena(), leaked(bytes), ())
}

/// A strategy brings its own memory, with blocks already in use.
#[test]
fn blocks_are_matched_by_the_memory_of_their_strategy() {
    let (mut first, mut second) = (heap(1 << 16), heap(1 << 16));
    let large = layout(40_000, 8);
    let blocks = [&mut first, &mut second].map(|heap| heap.allocate(large).expect("room").cast());
    let mut claims: Claims<PageHeap<Region>, 2> = Claims::new();
    claims.claim(first).expect("room for two");
    claims.claim(second).expect("room for two");
    assert_eq!(claims.usage().blocks, 2);
    for block in blocks {
        // SAFETY: the block is of one of the two, and freed once.
        unsafe { claims.deallocate(block, large) };
        claims.audit().expect("every invariant holds");
        assert!(claims.allocate(large).is_ok(), "its memory serves again");
    }
}

/// No strategy of this arena owns the block.
#[test]
fn a_block_of_no_claim_is_reported() {
    let mut claims: Claims<PageHeap<Region>, 2> = Claims::new();
    claims.claim(heap(1 << 16)).expect("room for two");
    let mut other = heap(1 << 16);
    let block = other.allocate(layout(100, 8)).expect("room enough").cast();
    let freed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // SAFETY: the block is not of the claims, which is what is tested: it is left untouched.
        unsafe { claims.deallocate(block, layout(100, 8)) }
    }));
    let reported = freed.expect_err("it is reported");
    let text = reported.downcast_ref::<String>().expect("a message");
    assert!(text.contains("is in none of the claims"), "{text}");
    claims.audit().expect("every invariant holds");
    // SAFETY: as above.
    assert_eq!(unsafe { claims.try_free(block, layout(100, 8)) }, FreeResult::Unallocated);
}

/// Only the owner of a block may free it: a checked free by another is refused.
#[test]
fn a_checked_free_by_another_owner_is_refused() {
    use pagewise::catalogue::HeadFirst;
    use pagewise::head_first::Owner;
    let mut heap = HeadFirst::new(4096, leaked(1 << 16), ());
    let block = heap.allocate_for(Owner(7), layout(40, 8)).expect("room enough").cast();
    let mut claims: Claims<HeadFirst<Region>, 1> = Claims::new();
    claims.claim(heap).expect("room for one");
    // SAFETY: the block is no longer used.
    assert_eq!(unsafe { claims.try_free(block, layout(40, 8)) }, FreeResult::NotOwner);
}
