//! Head-first best fit with space-fitting (Hakarsa 2024), searched in O(log n); and the paper's two
//! heaps as they are there, which traverse all blocks.

use super::Entry;
use crate::catalogue::{HeadFirst, HeadFirstChunkUp, NonHeadFirst, NonHeadFirstChunkUp};
use crate::head_first::{self, ChunkUp, NoChunkUp, SpaceFitting, Traverse};

type HeadFirstTraversed<S, M> = SpaceFitting<head_first::HeadFirst, NoChunkUp, Traverse, S, M>;
type NonHeadFirstTraversed<S, M> = SpaceFitting<head_first::NonHeadFirst, ChunkUp, Traverse, S, M>;

/// A row.
macro_rules! hakarsa {
    ($name:literal, $strategy:ident, $about:literal) => {
        growing!($name, "Hakarsa §3.1", $strategy, $about)
    };
}

pub(super) const ENTRIES: &[Entry] = &[
    hakarsa!(
        "HEAD-FIRST",
        HeadFirst,
        "the unallocated region's high end, else the smallest free block that fits"
    )
    .compared(),
    hakarsa!(
        "HEAD-FIRST (CHUNK-UP)",
        HeadFirstChunkUp,
        "the unallocated region's low end, else the smallest free block that fits"
    ),
    hakarsa!(
        "NON-HEAD-FIRST",
        NonHeadFirst,
        "the smallest free block that fits, its high end if it is larger"
    ),
    hakarsa!(
        "NON-HEAD-FIRST (CHUNK-UP)",
        NonHeadFirstChunkUp,
        "the smallest free block that fits, its low end if a half would do"
    ),
    hakarsa!(
        "HEAD-FIRST (TRAVERSE)",
        HeadFirstTraversed,
        "as HEAD-FIRST, found by traversing all blocks, as in the paper"
    )
    .linear(),
    hakarsa!(
        "NON-HEAD-FIRST (TRAVERSE)",
        NonHeadFirstTraversed,
        "as NON-HEAD-FIRST (CHUNK-UP), found by traversing all blocks, as in the paper"
    )
    .linear(),
];
