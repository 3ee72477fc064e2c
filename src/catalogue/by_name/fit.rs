//! Fits over a heap with boundary tags, and binary buddies (Knuth §2.5).

use super::Entry;
use crate::catalogue::{BestFit, Buddy, WorstFit};
use crate::source::Reserved;

/// A row for a fit over a heap with boundary tags.
macro_rules! fit {
    ($name:literal, $strategy:ident, $about:literal) => {
        Entry {
            name: $name,
            source: "Knuth §2.5; Hasan & Chang §2",
            about: $about,
            linear: false,
            in_band: true,
            compared: true,
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
    fit!("BEST-FIT", BestFit, "the smallest free block that fits, the lowest of those"),
    fit!("WORST-FIT", WorstFit, "the largest free block, the lowest of those"),
];
