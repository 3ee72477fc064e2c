//! Head-first best fit with space-fitting (Hakarsa 2024), searched in O(log n); and the paper's two
//! heaps as they are there, which traverse all blocks.

use super::Entry;
use crate::catalogue::{HeadFirst, HeadFirstChunkUp, NonHeadFirst, NonHeadFirstChunkUp};
use crate::head_first::{self, ChunkUp, NoChunkUp, SpaceFitting, Traverse};
use crate::source::Reserved;

type HeadFirstTraversed<S, M> = SpaceFitting<head_first::HeadFirst, NoChunkUp, Traverse, S, M>;
type NonHeadFirstTraversed<S, M> = SpaceFitting<head_first::NonHeadFirst, ChunkUp, Traverse, S, M>;

/// A row.
macro_rules! row {
    ($name:literal, $strategy:ident, $linear:literal, $compared:literal, $about:literal) => {
        Entry {
            name: $name,
            source: "Hakarsa §3.1",
            about: $about,
            linear: $linear,
            in_band: true,
            compared: $compared,
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
    row!(
        "HEAD-FIRST",
        HeadFirst,
        false,
        true,
        "the unallocated region's high end, else the smallest free block that fits"
    ),
    row!(
        "HEAD-FIRST (CHUNK-UP)",
        HeadFirstChunkUp,
        false,
        false,
        "the unallocated region's low end, else the smallest free block that fits"
    ),
    row!(
        "NON-HEAD-FIRST",
        NonHeadFirst,
        false,
        false,
        "the smallest free block that fits, its high end if it is larger"
    ),
    row!(
        "NON-HEAD-FIRST (CHUNK-UP)",
        NonHeadFirstChunkUp,
        false,
        false,
        "the smallest free block that fits, its low end if a half would do"
    ),
    row!(
        "HEAD-FIRST (TRAVERSE)",
        HeadFirstTraversed,
        true,
        false,
        "as HEAD-FIRST, found by traversing all blocks, as in the paper"
    ),
    row!(
        "NON-HEAD-FIRST (TRAVERSE)",
        NonHeadFirstTraversed,
        true,
        false,
        "as NON-HEAD-FIRST (CHUNK-UP), found by traversing all blocks, as in the paper"
    ),
];
