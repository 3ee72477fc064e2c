//! Lazy fits (Chung & Moon 2000), under the paper's abbreviations: with explicit frees and, marked
//! (GC), in the garbage-collected mode.

use super::Entry;
use crate::catalogue::{
    CollectedBestFit, CollectedFirstFit, CollectedWorstFit, LazyBestFit, LazyFirstFit, LazyWorstFit,
};
use crate::fit::{Apart, Bounded, Joining, NoArea, Releasing};

/// An area small enough for LFL to fragment as F does.
type Bounded256 = Bounded<Releasing, 256>;

/// A row for a fit, lazy or not.
macro_rules! lazy {
    ($name:literal, $paper:literal, $fit:ident<$area:ident>, $about:literal) => {
        entry!(
            $name,
            $paper,
            |config, source, meter| $fit::<$area, _, _>::new(config.page_size, source, meter),
            $about
        )
    };
}

pub(super) const ENTRIES: &[Entry] = &[
    lazy!(
        "F",
        "Chung & Moon Table 1",
        LazyFirstFit<NoArea>,
        "conventional segregated FIFO first fit: SEGREGATED-FIT"
    )
    .linear(),
    lazy!(
        "LF",
        "Chung & Moon Table 1",
        LazyFirstFit<Apart>,
        "lazy first fit: bumps in a free-space area, whose next is found by first fit"
    )
    .linear(),
    lazy!(
        "LFB",
        "Chung & Moon Table 1",
        LazyFirstFit<Joining>,
        "lazy first fit; blocks freed beside the area are joined with it"
    )
    .linear(),
    lazy!(
        "LFL",
        "Chung & Moon Table 1",
        LazyFirstFit<Releasing>,
        "lazy first fit; a block freed beside the area is joined with it, and both are free"
    )
    .linear()
    .compared(),
    lazy!(
        "LFL (BOUNDED)",
        "ours, after Chung & Moon",
        LazyFirstFit<Bounded256>,
        "LFL; the area is 256 bytes of a free block, so that large ones stay whole"
    )
    .linear(),
    lazy!("W", "Chung & Moon Table 1", LazyWorstFit<NoArea>, "conventional worst fit: WORST-FIT"),
    lazy!(
        "LW",
        "Chung & Moon Table 1",
        LazyWorstFit<Apart>,
        "lazy worst fit: bumps in a free-space area, whose next is found by worst fit"
    ),
    lazy!(
        "LWB",
        "Chung & Moon Table 1",
        LazyWorstFit<Joining>,
        "lazy worst fit; blocks freed beside the area are joined with it"
    ),
    lazy!(
        "LWL",
        "Chung & Moon Table 1",
        LazyWorstFit<Releasing>,
        "lazy worst fit; a block freed beside the area is joined with it, and both are free"
    ),
    lazy!("B", "Chung & Moon §3", LazyBestFit<NoArea>, "conventional best fit: BEST-FIT"),
    lazy!(
        "LB",
        "Chung & Moon §3",
        LazyBestFit<Apart>,
        "lazy best fit: bumps in a free-space area, whose next is found by best fit"
    ),
    lazy!(
        "LBB",
        "Chung & Moon §3",
        LazyBestFit<Joining>,
        "lazy best fit; blocks freed beside the area are joined with it"
    ),
    lazy!(
        "LBL",
        "Chung & Moon §3",
        LazyBestFit<Releasing>,
        "lazy best fit; a block freed beside the area is joined with it, and both are free"
    ),
    lazy!(
        "F (GC)",
        "Chung & Moon §4.2",
        CollectedFirstFit<NoArea>,
        "first fit; frees wait until an allocation fails"
    )
    .linear(),
    lazy!(
        "LF (GC)",
        "Chung & Moon §4.2",
        CollectedFirstFit<Apart>,
        "lazy first fit; frees wait until an allocation fails"
    )
    .linear(),
    lazy!(
        "W (GC)",
        "Chung & Moon §4.2",
        CollectedWorstFit<NoArea>,
        "worst fit; frees wait until an allocation fails"
    ),
    lazy!(
        "LW (GC)",
        "Chung & Moon §4.2",
        CollectedWorstFit<Apart>,
        "lazy worst fit; frees wait until an allocation fails"
    ),
    lazy!(
        "B (GC)",
        "Chung & Moon §3, §4.2",
        CollectedBestFit<NoArea>,
        "best fit; frees wait until an allocation fails"
    ),
    lazy!(
        "LB (GC)",
        "Chung & Moon §3, §4.2",
        CollectedBestFit<Apart>,
        "lazy best fit; frees wait until an allocation fails"
    ),
];
