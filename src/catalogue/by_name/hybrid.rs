//! Hasan & Chang's tunable hybrid (2006) and Kingsley's powers of two, beside which they put it.

use super::Entry;
use crate::catalogue::{HcGen, HcMem, HcPerf, Kingsley};

/// Kingsley's page, bytes: the system's, as in 4.2BSD.
const KINGSLEY_PAGE: usize = 4096;

/// A row for the hybrid with one of the paper's settings.
macro_rules! hybrid {
    ($name:literal, $paper:literal, $strategy:ident, $about:literal) => {
        entry!($name, $paper, |_, source, meter| $strategy::constant(source, meter), $about)
            .compared()
    };
}

pub(super) const ENTRIES: &[Entry] = &[
    hybrid!(
        "HCGEN",
        "Hasan & Chang §3, Table 6",
        HcGen,
        "quick lists, segregated fits and best fit; free blocks are joined when it is needed"
    ),
    hybrid!("HCMEM", "Hasan & Chang §5.2", HcMem, "as HCGEN, tuned for least memory"),
    hybrid!("HCPERF", "Hasan & Chang §5.2", HcPerf, "as HCGEN, tuned for most speed"),
    entry!(
        "KINGSLEY",
        "4.2BSD; Hasan & Chang §4.2",
        |_, source, meter| Kingsley::new(KINGSLEY_PAGE, source, meter),
        "powers of two, a stack of free blocks for each, never split nor joined"
    )
    .compared(),
];
