//! A best fit, and heaps built on one, panicked at a request for an alignment of 16 GiB or more:
//! they searched for the requested size plus the alignment, in a bin that does not exist. A heap
//! must report exhaustion instead.

use pagewise::pages::Config;
use pagewise::{AllocError, catalogue};

use crate::{layout, leaked};

#[test]
fn is_reported_as_exhaustion_by_every_strategy() {
    for entry in catalogue::all() {
        let memory = leaked(1 << 20);
        let addresses = memory.addresses();
        let mut heap = entry.build_over(Config::new(), memory, &()).expect("it can be made");
        // There is a free block.
        let block = heap.allocate(layout(50_000, 8)).expect("there is memory").cast();
        let _above = heap.allocate(layout(40, 8)).expect("there is memory");
        // SAFETY: the block is in use, and not used afterwards.
        unsafe { heap.deallocate(block, layout(50_000, 8)) };
        // The memory may happen to include a multiple of 1 GiB.
        let beyond = |align: &usize| addresses.start.next_multiple_of(*align) >= addresses.end;
        for align in (30..usize::BITS - 1).map(|log2| 1 << log2).filter(beyond) {
            for size in [1, 100, 20_000] {
                let answer = heap.allocate(layout(size, align));
                assert_eq!(answer, Err(AllocError::Exhausted), "{}: {size} at {align}", entry.name);
            }
        }
        assert_eq!(heap.audit(), Ok(()), "{}", entry.name);
    }
}
