//! The object-safe face of the catalogue: strategies chosen at run time.

use super::{
    BestFit, Buddy, FirstFit, LeastFree, MostFree, Mru, NoFree, Queue, Quick, Random, RandomB,
    Stack, WorstFit,
};
use crate::Strategy;
use crate::meter::Meter;
use crate::paged::{Config, ConfigError};
use crate::source::Reserved;

/// A named strategy over a growing reservation of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name in the literature, as `pagewise compare` prints it: `MOST-FREE`.
    pub name: &'static str,
    /// Paper and section.
    pub source: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
    plain: fn(Config, usize) -> Box<dyn Strategy + Send>,
    metered: for<'m> fn(Config, usize, &'m dyn Meter) -> Box<dyn Strategy + 'm>,
}

impl Entry {
    /// The strategy with these parameters, over at most `capacity` bytes of address space,
    /// bookkeeping included. Memory is reserved at the first allocation.
    ///
    /// # Errors
    /// [`ConfigError`] if the parameters make no sense.
    pub fn build(
        &self,
        config: Config,
        capacity: usize,
    ) -> Result<Box<dyn Strategy + Send>, ConfigError> {
        config.check()?;
        Ok((self.plain)(config, capacity))
    }

    /// As [`build`](Self::build), with a meter that hears of every item visited. Not for timing.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_metered<'m>(
        &self,
        config: Config,
        capacity: usize,
        meter: &'m dyn Meter,
    ) -> Result<Box<dyn Strategy + 'm>, ConfigError> {
        config.check()?;
        Ok((self.metered)(config, capacity, meter))
    }
}

/// All named strategies, in the order of the mission table.
#[must_use]
pub fn all() -> &'static [Entry] {
    ENTRIES
}

/// The strategy of this name; case does not matter.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    all().iter().find(|entry| entry.name.eq_ignore_ascii_case(name))
}

/// A row for a paged strategy.
macro_rules! paged {
    ($name:literal, $source:literal, $strategy:ident, $about:literal) => {
        Entry {
            name: $name,
            source: $source,
            about: $about,
            plain: |config, capacity| Box::new($strategy::new(config, Reserved::new(capacity), ())),
            metered: |config, capacity, meter| {
                Box::new($strategy::new(config, Reserved::new(capacity), meter))
            },
        }
    };
}

/// A row for a fit over a heap with boundary tags.
macro_rules! fit {
    ($name:literal, $strategy:ident, $about:literal) => {
        Entry {
            name: $name,
            source: "Knuth §2.5; Hasan & Chang §2",
            about: $about,
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

const ENTRIES: &[Entry] = &[
    paged!("STACK", "Brent §2.1", Stack, "one stack of free blocks for each size class"),
    paged!("QUEUE", "Brent §2.2", Queue, "one queue of free blocks for each size class"),
    paged!("RANDOM", "Brent §2.3", Random, "any free block of the size class, at random"),
    paged!("NOFREE", "Brent §2.4", NoFree, "freed blocks are never used again"),
    paged!("QUICK", "Brent §2.5", Quick, "a page is used again once all its blocks are free"),
    Entry {
        name: "FIRST-FIT",
        source: "Brent §2.6, his [5]",
        about: "each block at the lowest possible address, found through segments",
        plain: |config, capacity| {
            let growth = config.page_size.max(64 * config.unit);
            Box::new(FirstFit::new(config.unit, growth, Reserved::new(capacity), ()))
        },
        metered: |config, capacity, meter| {
            let growth = config.page_size.max(64 * config.unit);
            Box::new(FirstFit::new(config.unit, growth, Reserved::new(capacity), meter))
        },
    },
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
    Entry {
        name: "BUDDY",
        source: "Knuth §2.5; Brent Table 7.2",
        about: "blocks of powers of two, joined with their buddies when both are free",
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
