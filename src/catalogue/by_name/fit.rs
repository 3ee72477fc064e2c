//! Fits over a heap with boundary tags, and binary buddies (Knuth §2.5).

use super::Entry;
use crate::catalogue::{
    BestFit, Buddy, DeferredBestFit, FirstFitFifo, FirstFitLifo, FirstFitList, NextFit,
    SegregatedFit, WorstFit,
};

pub(super) const ENTRIES: &[Entry] = &[
    entry!(
        "BUDDY",
        "Knuth §2.5; Brent Table 7.2",
        |config, source, meter| {
            let granule = config.unit.max(16);
            Buddy::new(granule, config.page_size.max(64 * granule), source, meter)
        },
        "blocks of powers of two, joined with their buddies when both are free"
    )
    .apart()
    .compared(),
    growing!(
        "FIRST-FIT (LIST)",
        "Knuth §2.5; Hasan & Chang §2",
        FirstFitList,
        "the lowest free block that fits, from a list in address order"
    )
    .linear(),
    growing!(
        "FIRST-FIT (LIFO)",
        "Hasan & Chang §2.5; Chung & Moon §2",
        FirstFitLifo,
        "of the free blocks that fit the one freed last, from one list"
    )
    .linear(),
    growing!(
        "FIRST-FIT (FIFO)",
        "Hasan & Chang §2.5; Chung & Moon §2",
        FirstFitFifo,
        "of the free blocks that fit the one freed first, from one list"
    )
    .linear(),
    growing!(
        "NEXT-FIT",
        "Knuth §2.5; Hasan & Chang §2",
        NextFit,
        "the next free block that fits, from where the last search ended"
    )
    .linear(),
    growing!(
        "SEGREGATED-FIT",
        "Hasan & Chang §2.2; Chung & Moon §4",
        SegregatedFit,
        "first fit over a FIFO list for each power of two"
    )
    .linear(),
    growing!(
        "BEST-FIT",
        "Knuth §2.5; Hasan & Chang §2",
        BestFit,
        "the smallest free block that fits, the lowest of those"
    )
    .compared(),
    growing!(
        "BEST-FIT (DEFERRED)",
        "Hasan & Chang §2.3",
        DeferredBestFit,
        "best fit; free neighbours are joined only when a search fails"
    ),
    growing!(
        "WORST-FIT",
        "Knuth §2.5; Hasan & Chang §2",
        WorstFit,
        "the largest free block, the lowest of those"
    )
    .compared(),
];
