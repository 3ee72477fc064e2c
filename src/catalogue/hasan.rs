//! Hasan & Chang's tunable hybrid (2006), and Kingsley's powers of two, with which they compare it.

use crate::hybrid::{self, Constant, Hybrid};

/// Kingsley's page in bytes: an OS page, as in 4.2BSD.
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
const KINGSLEY_PAGE: usize = 4096;

family! {
    "hasan", "Hasan & Chang 2006", "hybrid";

    "HCGEN", "Hasan & Chang §3, Table 6",
    "quick lists, segregated fits and best fit; free blocks are joined when needed",
    [compared] (constant HcGen) {
        /// ```
        /// use core::alloc::Layout;
        /// use pagewise::catalogue::HcGen;
        /// use pagewise::{Reserved, Strategy};
        ///
        /// let mut heap = HcGen::constant(Reserved::new(1 << 30), ());
        /// let block = heap.allocate(Layout::new::<[u64; 5]>())?;
        /// assert_eq!(block.len(), 44, "and a header of 4 bytes");
        /// assert_eq!(heap.settings().ql_high, 144);
        /// # Ok::<(), pagewise::AllocError>(())
        /// ```
        /// For settings of your own, or settings that change at run time, use [`Hybrid`].
        pub type HcGen<S, M = ()> = Hybrid<Constant<hybrid::Generic>, S, M>;
    }

    "HCMEM", "Hasan & Chang §5.2",
    "as HCGEN, tuned for least memory",
    [compared] (constant HcMem) { pub type HcMem<S, M = ()> = Hybrid<Constant<hybrid::Memory>, S, M>; }

    "HCPERF", "Hasan & Chang Table 7",
    "as HCGEN, with the settings that most programs have there for speed",
    [compared chosen] (constant HcPerf) { pub type HcPerf<S, M = ()> = Hybrid<Constant<hybrid::Performance>, S, M>; }

    "KINGSLEY", "4.2BSD; Hasan & Chang §4.2",
    "powers of two, a stack of free blocks for each, never split nor joined",
    [compared chosen] (|_, source, meter| Kingsley::new(KINGSLEY_PAGE, source, meter)) { pub use crate::kingsley::Kingsley; }
}
