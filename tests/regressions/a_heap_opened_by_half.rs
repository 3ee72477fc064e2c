//! A `PageHeap` whose memory ran out between allocating its size classes and their supplies had
//! classes without supplies: the next request, or returning pages, read outside the table of
//! supplies.

use pagewise::PageHeap;
use pagewise::pages::Config;
use pagewise::{AllocError, Strategy};

use crate::{layout, leaked};

#[test]
fn stays_closed() {
    for bytes in (0..40_000).step_by(256) {
        let mut heap = PageHeap::new(Config::arena(), leaked(bytes), ());
        for size in [20, 20, 900, 2000] {
            let answer = heap.allocate(layout(size, 8));
            assert!(
                answer.is_ok_and(|block| block.len() >= size)
                    || answer == Err(AllocError::Exhausted)
            );
            heap.release_empty_pages();
            heap.audit().expect("every invariant holds");
        }
        assert!(heap.classes() == 0 || heap.usage().held > 0);
    }
}
