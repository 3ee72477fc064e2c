//! HEAD-FIRST lays fresh memory out in two halves. A block that grew over the rest of the lower
//! half made the upper half the unallocated region, while the index still listed it. Freeing the
//! block coalesced the two, and left an invalid block in the index.

use core::alloc::Layout;

use pagewise::Strategy;
use pagewise::fit::Worst;
use pagewise::head_first::{ChunkUp, RegionFirst, SpaceFitting};
use pagewise::source::Reserved;

#[test]
fn can_be_freed_without_a_stale_index_entry() {
    // The memory has 63 cells, 31 of them in the lower half.
    let mut heap =
        SpaceFitting::<RegionFirst, ChunkUp, Worst, _>::new(1024, Reserved::new(1 << 20), ());
    let small = Layout::from_size_align(1, 1).unwrap();
    let block = heap.allocate(small).unwrap().cast();
    let large = Layout::from_size_align(473, 1).unwrap();
    // SAFETY: the block is in use, and freed once, with its layout at that time.
    unsafe {
        heap.resize_in_place(block, small, large.size()).expect("there is room above the block");
        heap.audit().unwrap();
        heap.deallocate(block, large);
    }
    heap.audit().unwrap();
}
