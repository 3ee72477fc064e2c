//! Fits over a heap with boundary tags, and binary buddies (Knuth §2.5).

use crate::fit::{self, BoundaryTagHeap, Immediate, NoArea};

family! {
    "fits", "Knuth §2.5; Hasan & Chang 2006 §2", "fit";

    "BUDDY", "Knuth §2.5; Brent Table 7.2",
    "blocks of powers of two, joined with their buddies when both are free",
    [apart compared chosen] (|config, source, meter| {
        let granule = config.unit.max(16);
        Buddy::new(granule, config.page_size.max(64 * granule), source, meter)
    }) { pub use crate::buddy::Buddy; }

    "FIRST-FIT (LIST)", "Knuth §2.5; Hasan & Chang §2",
    "the lowest free block that fits, from a list in address order",
    [linear] (growing FirstFitList) { pub type FirstFitList<S, M = ()> = BoundaryTagHeap<fit::First, Immediate, NoArea, S, M>; }

    "FIRST-FIT (LIFO)", "Hasan & Chang §2.5; Chung & Moon §2",
    "the free block that fits and was freed last, from one list",
    [linear] (growing FirstFitLifo) { pub type FirstFitLifo<S, M = ()> = BoundaryTagHeap<fit::Lifo, Immediate, NoArea, S, M>; }

    "FIRST-FIT (FIFO)", "Hasan & Chang §2.5; Chung & Moon §2",
    "the free block that fits and was freed first, from one list",
    [linear] (growing FirstFitFifo) { pub type FirstFitFifo<S, M = ()> = BoundaryTagHeap<fit::Fifo, Immediate, NoArea, S, M>; }

    "NEXT-FIT", "Knuth §2.5; Hasan & Chang §2",
    "the next free block that fits, from where the last search ended",
    [linear] (growing NextFit) { pub type NextFit<S, M = ()> = BoundaryTagHeap<fit::Next, Immediate, NoArea, S, M>; }

    "SEGREGATED-FIT", "Hasan & Chang §2.2; Chung & Moon §4",
    "first fit over a FIFO list for each power of two",
    [linear] (growing SegregatedFit) { pub type SegregatedFit<S, M = ()> = BoundaryTagHeap<fit::Segregated, Immediate, NoArea, S, M>; }

    "BEST-FIT", "Knuth §2.5; Hasan & Chang §2",
    "the smallest free block that fits; in a tie, the lowest",
    [compared chosen] (growing BestFit) {
        /// ```
        /// use core::alloc::Layout;
        /// use pagewise::catalogue::BestFit;
        /// use pagewise::{Reserved, Strategy};
        ///
        /// let mut heap = BestFit::new(1 << 16, Reserved::new(1 << 30), ());
        /// let block = heap.allocate(Layout::new::<[u64; 5]>())?;
        /// assert_eq!(block.len(), 44, "and a header of 4 bytes");
        /// # Ok::<(), pagewise::AllocError>(())
        /// ```
        pub type BestFit<S, M = ()> = BoundaryTagHeap<fit::Best, Immediate, NoArea, S, M>;
    }

    "BEST-FIT (DEFERRED)", "Hasan & Chang §2.3",
    "best fit; free neighbours are joined only when a search fails",
    [] (growing DeferredBestFit) { pub type DeferredBestFit<S, M = ()> = BoundaryTagHeap<fit::Best, fit::Deferred, NoArea, S, M>; }

    "WORST-FIT", "Knuth §2.5; Hasan & Chang §2",
    "the largest free block; in a tie, the lowest",
    [compared] (growing WorstFit) { pub type WorstFit<S, M = ()> = BoundaryTagHeap<fit::Worst, Immediate, NoArea, S, M>; }
}
