//! Fits over a heap with boundary tags, and binary buddies (Knuth §2.5).

use super::Entry;
use crate::catalogue::{
    BestFit, Buddy, DeferredBestFit, FirstFitFifo, FirstFitLifo, FirstFitList, NextFit,
    SegregatedFit, WorstFit,
};
use crate::source::Reserved;

/// A row for a fit over a heap with boundary tags.
macro_rules! fit {
    ($name:literal, $source:literal, $strategy:ident, $about:literal) => {
        Entry {
            name: $name,
            source: $source,
            about: $about,
            linear: false,
            in_band: true,
            compared: false,
            plain: |config, capacity| {
                let growth = config.page_size;
                Box::new($strategy::new(growth, Reserved::new(capacity), ()))
            },
            metered: |config, capacity, meter| {
                let growth = config.page_size;
                Box::new($strategy::new(growth, Reserved::new(capacity), meter))
            },
        }
    };
}

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "BUDDY",
        source: "Knuth §2.5; Brent Table 7.2",
        about: "blocks of powers of two, joined with their buddies when both are free",
        linear: false,
        in_band: false,
        compared: true,
        plain: |config, capacity| {
            let granule = config.unit.max(16);
            let growth = config.page_size.max(64 * granule);
            Box::new(Buddy::new(granule, growth, Reserved::new(capacity), ()))
        },
        metered: |config, capacity, meter| {
            let granule = config.unit.max(16);
            let growth = config.page_size.max(64 * granule);
            Box::new(Buddy::new(granule, growth, Reserved::new(capacity), meter))
        },
    },
    Entry {
        linear: true,
        ..fit!(
            "FIRST-FIT (LIST)",
            "Knuth §2.5; Hasan & Chang §2",
            FirstFitList,
            "the lowest free block that fits, from a list in address order"
        )
    },
    Entry {
        linear: true,
        ..fit!(
            "FIRST-FIT (LIFO)",
            "Hasan & Chang §2.5; Chung & Moon §2",
            FirstFitLifo,
            "of the free blocks that fit the one freed last, from one list"
        )
    },
    Entry {
        linear: true,
        ..fit!(
            "FIRST-FIT (FIFO)",
            "Hasan & Chang §2.5; Chung & Moon §2",
            FirstFitFifo,
            "of the free blocks that fit the one freed first, from one list"
        )
    },
    Entry {
        linear: true,
        ..fit!(
            "NEXT-FIT",
            "Knuth §2.5; Hasan & Chang §2",
            NextFit,
            "the next free block that fits, from where the last search ended"
        )
    },
    Entry {
        linear: true,
        ..fit!(
            "SEGREGATED-FIT",
            "Hasan & Chang §2.2; Chung & Moon §4",
            SegregatedFit,
            "first fit over a FIFO list for each power of two"
        )
    },
    Entry {
        compared: true,
        ..fit!(
            "BEST-FIT",
            "Knuth §2.5; Hasan & Chang §2",
            BestFit,
            "the smallest free block that fits, the lowest of those"
        )
    },
    fit!(
        "BEST-FIT (DEFERRED)",
        "Hasan & Chang §2.3",
        DeferredBestFit,
        "best fit; free neighbours are joined only when a search fails"
    ),
    Entry {
        compared: true,
        ..fit!(
            "WORST-FIT",
            "Knuth §2.5; Hasan & Chang §2",
            WorstFit,
            "the largest free block, the lowest of those"
        )
    },
];
