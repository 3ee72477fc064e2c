//! A checked free accepts every layout that fits the block. After one that was smaller than the
//! request, more bytes counted as requested than blocks had, and every audit reported a fault.

use std::ptr::NonNull;

use pagewise::{FreeResult, catalogue};

use crate::layout;

#[test]
fn audits_find_no_fault() {
    const SIZE: usize = 100;
    let mut smaller = 0;
    for entry in catalogue::all() {
        let mut heap = entry.build(entry.config, 1 << 24).expect("there is memory");
        let blocks: Vec<NonNull<u8>> = (0..10)
            .map(|_| heap.allocate(layout(SIZE, 8)).expect("there is memory").cast())
            .collect();
        let fits = |&size: &usize| heap.is_in_use(blocks[0], layout(size, 8));
        let least = (1..=SIZE).find(fits).expect("the requested size fits");
        smaller += usize::from(least < SIZE);
        // SAFETY: the block is not used any more.
        let freed = unsafe { heap.try_free(blocks[0], layout(least, 8)) };
        assert_eq!(freed, FreeResult::Freed, "{}", entry.name);
        assert_eq!(heap.audit(), Ok(()), "{}", entry.name);
        // SAFETY: the other blocks are in use, and freed once.
        blocks[1..].iter().for_each(|&block| unsafe { heap.deallocate(block, layout(SIZE, 8)) });
        assert_eq!(heap.audit(), Ok(()), "{}", entry.name);
        assert_eq!((heap.usage().requested, heap.usage().block), (0, 0), "{}", entry.name);
    }
    assert!(smaller > 10, "in {smaller} strategies a smaller size fits the block");
}
