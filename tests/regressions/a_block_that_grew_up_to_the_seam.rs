//! HEAD-FIRST, whose fresh memory is laid out as two halves: a block that grew over all that was left of the
//! lower half made the upper one the unallocated region, though the index had it. Freeing the block joined
//! the two, and the index kept a block that was none.

use core::alloc::Layout;

use pagewise::Strategy;
use pagewise::fit::Worst;
use pagewise::head_first::{ChunkUp, RegionFirst, SpaceFitting};
use pagewise::source::Reserved;

#[test]
fn what_lies_behind_the_region_is_not_the_region() {
    // The memory has 63 cells, 31 of them in the lower half.
    let mut heap =
        SpaceFitting::<RegionFirst, ChunkUp, Worst, _>::new(1024, Reserved::new(1 << 20), ());
    let small = Layout::from_size_align(1, 1).unwrap();
    let block = heap.allocate(small).unwrap().cast();
    let large = Layout::from_size_align(473, 1).unwrap();
    // SAFETY: the block is in use, and freed once, by the layout that it has then.
    unsafe {
        heap.resize_in_place(block, small, large.size()).expect("there is room above the block");
        heap.audit().unwrap();
        heap.deallocate(block, large);
    }
    heap.audit().unwrap();
}
