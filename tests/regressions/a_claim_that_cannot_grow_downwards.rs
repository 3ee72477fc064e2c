//! When memory is exhausted, a block of a `PageHeap` grows down into free memory below it; in
//! claims of one this failed, because `relocate` was not forwarded.

use pagewise::PageHeap;
use pagewise::Strategy;
use pagewise::arena::Claims;
use pagewise::pages::Config;
use pagewise::source::Region;

use crate::{layout, leaked};

/// Two blocks fill the memory; the lower one is freed, and the upper one grows over all of it.
fn grow_downwards(heap: &mut impl Strategy) {
    let half = layout(24_000, 8);
    let low = heap.allocate(half).expect("room for both").cast::<u8>();
    let high = heap.allocate(half).expect("room for both").cast::<u8>();
    assert!(low < high);
    // SAFETY: the blocks are used within their layouts; the lower one is freed, the upper one has
    // its new size from then on.
    unsafe {
        high.write_bytes(0xa5, half.size());
        heap.deallocate(low, half);
        let grown = heap.reallocate(high, half, 45_000).expect("it grows downwards");
        let contents = std::slice::from_raw_parts(grown.cast::<u8>().as_ptr(), half.size());
        assert!(contents.iter().all(|&byte| byte == 0xa5));
    }
    heap.audit().expect("every invariant holds");
}

#[test]
fn alone_and_in_claims() {
    let heap = || PageHeap::new(Config::arena(), leaked(1 << 16), ());
    grow_downwards(&mut heap());
    let mut claims: Claims<PageHeap<Region>, 2> = Claims::new();
    claims.claim(heap()).expect("room for two");
    grow_downwards(&mut claims);
}

#[test]
fn a_block_moves_to_another_claim() {
    let mut claims: Claims<PageHeap<Region>, 2> = Claims::new();
    for bytes in [1 << 15, 1 << 17] {
        claims.claim(PageHeap::new(Config::arena(), leaked(bytes), ())).expect("room for two");
    }
    let small = layout(10_000, 8);
    let block = claims.allocate(small).expect("room enough").cast();
    // SAFETY: the block is in use with this layout.
    let grown = unsafe { claims.reallocate(block, small, 80_000) };
    assert_eq!(grown.expect("the second has room").len() / 80_000, 1);
    assert_eq!(claims.usage().blocks, 1);
    claims.audit().expect("every invariant holds");
}
