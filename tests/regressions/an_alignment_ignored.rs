//! A checked free accepted a layout whose alignment the block's address does not have, in every
//! strategy of Brent's.

use pagewise::FreeResult;
use pagewise::catalogue;
use pagewise::pages::Config;

use crate::layout;

/// Up to 2³⁰, beyond the alignment of any block.
const SHIFTS: std::ops::Range<u32> = 0..31;

#[test]
fn a_wrong_alignment_is_refused() {
    for entry in catalogue::all() {
        let mut heap = entry.build(Config::with_page_size(4096), 1 << 24).expect("valid");
        for size in [1, 8, 24, 100, 600, 5_000, 50_000].into_iter().cycle().take(50) {
            let block = heap.allocate(layout(size, 1)).expect("room enough").cast::<u8>();
            for align in SHIFTS.map(|shift| 1usize << shift) {
                let aligned = block.addr().get().is_multiple_of(align);
                let wrong = layout(size, align);
                if !aligned {
                    assert!(!heap.is_in_use(block, wrong), "{} takes {wrong:?}", entry.name);
                    // SAFETY: the block is no longer used.
                    assert_eq!(unsafe { heap.try_free(block, wrong) }, FreeResult::Unallocated);
                }
            }
            assert!(heap.is_in_use(block, layout(size, 1)), "{}", entry.name);
            assert!(!heap.is_in_use(block, layout(0, 1)), "{}", entry.name);
        }
    }
}
