//! Head-first best fit with space-fitting (Hakarsa 2024):
//! - with a search in O(log n);
//! - the paper's two heaps as published, which traverse all blocks;
//! - other fits from the head, which the paper leaves open (§6).

use crate::fit;
use crate::head_first::{self, ChunkUp, NoChunkUp, SpaceFitting, Traverse};

family! {
    "head-firsts", "Hakarsa 2024", "head_first";

    "HEAD-FIRST", "Hakarsa §3.1",
    "the unallocated region's high end, else the smallest free block that fits",
    [compared] (growing HeadFirst) {
        /// Every block has an [`Owner`](crate::head_first::Owner). A checked free refuses the block
        /// of another owner. See [`set_owner`](crate::Heap::set_owner),
        /// [`allocate_for`](crate::Heap::allocate_for) and [`owner_of`](crate::Heap::owner_of):
        /// ```
        /// use core::alloc::Layout;
        /// use pagewise::catalogue::HeadFirst;
        /// use pagewise::head_first::Owner;
        /// use pagewise::{FreeResult, Reserved, Strategy};
        ///
        /// let mut heap = HeadFirst::new(1 << 16, Reserved::new(1 << 30), ());
        /// let layout = Layout::new::<[u64; 5]>();
        /// let block = heap.allocate_for(Owner(7), layout)?.cast();
        /// assert_eq!(heap.owner_of(block, layout), Some(Owner(7)));
        ///
        /// // SAFETY: nobody uses the block.
        /// let answer = unsafe { heap.try_free(block, layout) };
        /// assert_eq!(answer, FreeResult::NotOwner, "it is not the block of Owner(0)");
        /// # Ok::<(), pagewise::AllocError>(())
        /// ```
        /// In a shared [`Arena`](crate::Arena), the owner that was set last allocates and frees. An
        /// owner can be set only through [`Arena::get_mut`](crate::Arena::get_mut).
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

    "HEAD-FIRST (FIRST-FIT)", "Hakarsa §6",
    "the unallocated region's high end, else the lowest free block that fits",
    [linear] (growing HeadFirstFirstFit) {
        pub type HeadFirstFirstFit<S, M = ()> =
            SpaceFitting<head_first::RegionFirst, NoChunkUp, fit::First, S, M>;
    }

    "HEAD-FIRST (NEXT-FIT)", "Hakarsa §6",
    "the unallocated region's high end, else the next free block that fits",
    [linear] (growing HeadFirstNextFit) {
        pub type HeadFirstNextFit<S, M = ()> =
            SpaceFitting<head_first::RegionFirst, NoChunkUp, fit::Next, S, M>;
    }

    "HEAD-FIRST (WORST-FIT)", "Hakarsa §6",
    "the unallocated region's high end, else the largest free block",
    [] (growing HeadFirstWorstFit) {
        pub type HeadFirstWorstFit<S, M = ()> =
            SpaceFitting<head_first::RegionFirst, NoChunkUp, fit::Worst, S, M>;
    }

    "HEAD-FIRST (HALF-FIT)", "Hakarsa §6; Ogasawara 1995",
    "the unallocated region's high end, else a block of the first list in which all blocks fit",
    [] (growing HeadFirstHalfFit) {
        pub type HeadFirstHalfFit<S, M = ()> =
            SpaceFitting<head_first::RegionFirst, NoChunkUp, fit::HalfFit, S, M>;
    }
}
