//! A deferred fit coalesces free blocks when the source is exhausted. If the wilderness is among
//! them, it then begins lower, and less new memory is needed for the request. The heap did not ask
//! again, and refused a request that it could serve.

use pagewise::Strategy;
use pagewise::catalogue::DeferredBestFit;

use crate::{layout, leaked};

#[test]
fn a_joined_wilderness_grows() {
    let mut heap = DeferredBestFit::new(512, leaked(4096), ());
    let blocks = [1500, 1500, 40].map(|size| heap.allocate(layout(size, 8)).expect("room enough"));
    let [_, long, last] = blocks.map(|block| block.cast());
    // SAFETY: both blocks are in use; the second is no longer used afterwards.
    unsafe {
        heap.resize_in_place(long, layout(1500, 8), 160).expect("a block shrinks in place");
        heap.deallocate(last, layout(40, 8));
    }
    assert!(heap.allocate(layout(1500, 8)).is_ok(), "2,400 bytes lie behind the second block");
    assert_eq!(heap.audit(), Ok(()));
}
