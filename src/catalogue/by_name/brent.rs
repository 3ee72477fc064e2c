//! Brent's ten strategies (1984 §2).

use super::Entry;
use crate::catalogue::{
    FirstFit, LeastFree, MostFree, Mru, NoFree, Queue, Quick, Random, RandomB, Stack,
};

/// A row for a paged strategy.
macro_rules! paged {
    ($name:literal, $paper:literal, $strategy:ident, $about:literal) => {
        entry!($name, $paper, |config, source, meter| $strategy::new(config, source, meter), $about)
            .apart()
            .compared()
    };
}

pub(super) const ENTRIES: &[Entry] = &[
    paged!("STACK", "Brent §2.1", Stack, "one stack of free blocks for each size class"),
    paged!("QUEUE", "Brent §2.2", Queue, "one queue of free blocks for each size class"),
    paged!("RANDOM", "Brent §2.3", Random, "any free block of the size class, at random"),
    paged!("NOFREE", "Brent §2.4", NoFree, "freed blocks are never used again"),
    paged!("QUICK", "Brent §2.5", Quick, "a page is used again once all its blocks are free"),
    entry!(
        "FIRST-FIT",
        "Brent §2.6, his [5]",
        |config, source, meter| {
            let growth = config.page_size.max(64 * config.unit);
            FirstFit::new(config.unit, growth, source, meter)
        },
        "each block at the lowest possible address, found through segments"
    )
    .apart()
    .compared(),
    paged!(
        "RANDOM(B)",
        "Brent §2.8",
        RandomB,
        "from the current page; the next one at random among pages with free blocks"
    ),
    paged!(
        "MOST-FREE",
        "Brent §2.9, §4",
        MostFree,
        "from the current page; the next one is the page with the most free blocks"
    ),
    paged!(
        "LEAST-FREE",
        "Brent §2.10, §4",
        LeastFree,
        "from the current page; the next one is the page with the fewest free blocks, but φ0"
    ),
    paged!(
        "MRU",
        "Brent §2.11, §4",
        Mru,
        "from the current page; the next one is the page freed into most recently"
    ),
];
