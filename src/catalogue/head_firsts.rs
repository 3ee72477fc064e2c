//! Head-first best fit with space-fitting (Hakarsa 2024), searched in O(log n); and the paper's two
//! heaps as they are there, which traverse all blocks.

use crate::fit;
use crate::head_first::{self, ChunkUp, NoChunkUp, SpaceFitting, Traverse};

family! {
    "head-firsts", "Hakarsa 2024";

    "HEAD-FIRST", "Hakarsa §3.1",
    "the unallocated region's high end, else the smallest free block that fits",
    [compared] (growing HeadFirst) {
        pub type HeadFirst<S, M = ()> =
            SpaceFitting<head_first::RegionFirst, NoChunkUp, fit::Best, S, M>;
    }

    "HEAD-FIRST (CHUNK-UP)", "Hakarsa §3.1",
    "the unallocated region's low end, else the smallest free block that fits",
    [] (growing HeadFirstChunkUp) {
        pub type HeadFirstChunkUp<S, M = ()> =
            SpaceFitting<head_first::RegionFirst, ChunkUp, fit::Best, S, M>;
    }

    "NON-HEAD-FIRST", "Hakarsa §3.1",
    "the smallest free block that fits, its high end if it is larger",
    [] (growing NonHeadFirst) {
        pub type NonHeadFirst<S, M = ()> =
            SpaceFitting<head_first::FitFirst, NoChunkUp, fit::Best, S, M>;
    }

    "NON-HEAD-FIRST (CHUNK-UP)", "Hakarsa §3.1",
    "the smallest free block that fits, its low end if a half would do",
    [] (growing NonHeadFirstChunkUp) {
        pub type NonHeadFirstChunkUp<S, M = ()> =
            SpaceFitting<head_first::FitFirst, ChunkUp, fit::Best, S, M>;
    }

    "HEAD-FIRST (TRAVERSE)", "Hakarsa §3.1",
    "as HEAD-FIRST, found by traversing all blocks, as in the paper",
    [linear] (growing HeadFirstTraversed) {
        pub type HeadFirstTraversed<S, M = ()> =
            SpaceFitting<head_first::RegionFirst, NoChunkUp, Traverse, S, M>;
    }

    "NON-HEAD-FIRST (TRAVERSE)", "Hakarsa §3.1",
    "as NON-HEAD-FIRST (CHUNK-UP), found by traversing all blocks, as in the paper",
    [linear] (growing NonHeadFirstTraversed) {
        pub type NonHeadFirstTraversed<S, M = ()> =
            SpaceFitting<head_first::FitFirst, ChunkUp, Traverse, S, M>;
    }
}
