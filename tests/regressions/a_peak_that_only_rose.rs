//! Checked frees by other layouts than those of the requests: what they left of the bytes requested
//! added up, and the peak of the bytes requested rose far above all bytes ever held.

use pagewise::FreeResult;
use pagewise::catalogue;

use crate::{layout, leaked};

#[test]
fn is_never_above_the_bytes_held() {
    for entry in catalogue::all() {
        let heap = entry.build_over(entry.config, leaked(1 << 18), &());
        let mut heap = heap.expect("the default configuration");
        // Each pair is a request, and a layout that its block fits as well.
        for (requested, freed) in [(16, 15), (40, 39), (400, 399)] {
            for _ in 0..2000 {
                let Ok(block) = heap.allocate(layout(requested, 1)) else { break };
                // SAFETY: nobody uses the block.
                let answer = unsafe { heap.try_free(block.cast(), layout(freed, 1)) };
                assert_ne!(answer, FreeResult::NotOwner);
                if answer == FreeResult::Unallocated {
                    break;
                }
                let usage = heap.usage();
                assert!(usage.requested <= usage.block, "{}: {usage:?}", entry.name);
                assert!(usage.peak_requested <= usage.peak_held, "{}: {usage:?}", entry.name);
                assert!(usage.fragmentation() >= 0.0, "{}: {usage:?}", entry.name);
            }
        }
    }
}

/// An estimate that was too high is corrected by the next checked free.
#[test]
fn stays_near_the_requests() {
    let entry = catalogue::find("SMALL").expect("it has an entry");
    let mut heap = entry.build_over(entry.config, leaked(1 << 16), &()).expect("the default");
    for _ in 0..1000 {
        let block = heap.allocate(layout(16, 1)).expect("there is room").cast();
        // SAFETY: nobody uses the block.
        assert_eq!(unsafe { heap.try_free(block, layout(9, 1)) }, FreeResult::Freed);
    }
    assert_eq!((heap.usage().requested, heap.usage().peak_requested), (0, 16));
}
