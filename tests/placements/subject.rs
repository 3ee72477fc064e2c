//! What the sequences run on: strategies by name, compositions of policies, and an arena of several
//! regions.

use std::ptr::NonNull;

use pagewise::arena::Claims;
use pagewise::catalogue::Entry;
use pagewise::pages::Config;
use pagewise::source::Region;
use pagewise::{PageHeap, Strategy};

use crate::compositions;
use crate::harness::Bookkeeping;
use crate::trace_of::Watched;

pub(crate) struct Subject {
    pub(crate) family: &'static str,
    pub(crate) name: &'static str,
    make: Make,
}

enum Make {
    Named(&'static Entry),
    Composed(compositions::Make),
    /// Three regions, in this order: the middle of the memory, its start, and its end.
    Claims,
}

impl Subject {
    pub(crate) fn named(family: &'static str, entry: &'static Entry) -> Self {
        Self { family, name: entry.name, make: Make::Named(entry) }
    }

    pub(crate) fn composed(
        family: &'static str,
        name: &'static str,
        _: Bookkeeping,
        make: compositions::Make,
    ) -> Self {
        // Compositions with pages take their parameters from the configuration, like their family.
        Self { family, name, make: Make::Composed(make) }
    }

    /// Makes the strategy over `len` bytes at `start`. Compositions have no meter.
    ///
    /// # Safety
    /// As for [`Region::new`].
    pub(crate) unsafe fn over<'c>(
        &self,
        config: Config,
        start: NonNull<u8>,
        len: usize,
        meter: &'c Watched,
    ) -> Box<dyn Strategy + 'c> {
        // SAFETY: by the caller's promise; parts do not overlap.
        let part = |from: usize, to: usize| unsafe {
            Region::new(start.as_ptr().wrapping_add(from), to - from)
        };
        match self.make {
            Make::Named(entry) => {
                entry.build_over(config, part(0, len), meter).expect("it makes sense")
            }
            Make::Composed(make) => make(config, Box::new(part(0, len))),
            Make::Claims => {
                let (first, second) = (len / 4, len / 2 + 4096);
                let mut claims = Claims::<_, 3>::new();
                for (from, to) in [(first, second), (0, first), (second, len)] {
                    let heap = PageHeap::new(Config::arena(), part(from, to), meter);
                    claims.claim(heap).expect("room for three");
                }
                Box::new(claims)
            }
        }
    }
}

pub(crate) fn claims() -> Subject {
    Subject { family: "arena", name: "PAGEWISE, three claims", make: Make::Claims }
}
