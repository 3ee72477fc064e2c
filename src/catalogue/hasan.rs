//! Hasan & Chang's tunable hybrid (2006) and Kingsley's powers of two, beside which they put it.

use crate::hybrid::{self, Constant, Hybrid};

/// Kingsley's page, bytes: the system's, as in 4.2BSD.
#[cfg(all(feature = "std", unix))]
const KINGSLEY_PAGE: usize = 4096;

family! {
    "hasan", "Hasan & Chang 2006";

    "HCGEN", "Hasan & Chang §3, Table 6",
    "quick lists, segregated fits and best fit; free blocks are joined when it is needed",
    [compared] (constant HcGen) { pub type HcGen<S, M = ()> = Hybrid<Constant<hybrid::Generic>, S, M>; }

    "HCMEM", "Hasan & Chang §5.2",
    "as HCGEN, tuned for least memory",
    [compared] (constant HcMem) { pub type HcMem<S, M = ()> = Hybrid<Constant<hybrid::Memory>, S, M>; }

    "HCPERF", "Hasan & Chang §5.2",
    "as HCGEN, tuned for most speed",
    [compared chosen] (constant HcPerf) { pub type HcPerf<S, M = ()> = Hybrid<Constant<hybrid::Performance>, S, M>; }

    "KINGSLEY", "4.2BSD; Hasan & Chang §4.2",
    "powers of two, a stack of free blocks for each, never split nor joined",
    [compared chosen] (|_, source, meter| Kingsley::new(KINGSLEY_PAGE, source, meter)) { pub use crate::kingsley::Kingsley; }
}
