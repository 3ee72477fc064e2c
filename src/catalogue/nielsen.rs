//! The 35 algorithms of the widest comparison in the literature (Nielsen, "Dynamic memory
//! allocation in computer simulation", Communications of the ACM 20 (1977), 864–873), as
//! compositions of search, list order, overhead fields and compaction.
//!
//! Each algorithm is a type, [`I1`] to [`VI2`], named and numbered as in the paper's Table III. All
//! of them search lists, as published, so an operation may take time proportional to the number of
//! blocks. They are here for comparison. A program with more than some hundred blocks at a time is
//! better served by other strategies of the [`catalogue`](super).
//!
//! ```
//! use core::alloc::Layout;
//! use core::mem::MaybeUninit;
//! use pagewise::catalogue::nielsen::III1;
//! use pagewise::{Region, Strategy};
//!
//! let memory = Box::leak(Box::new([MaybeUninit::<u8>::uninit(); 1 << 16]));
//! let mut heap = III1::new(4096, Region::from_static(memory), ());
//!
//! let layout = Layout::new::<[u32; 38]>();
//! let block = heap.allocate(layout).expect("64 KiB hold 38 words");
//! // SAFETY: the block was allocated above for this layout.
//! unsafe { heap.deallocate(block.cast(), layout) };
//! heap.audit().expect("every invariant holds");
//! ```
//!
//! # Words and bytes
//! A word has 4 bytes, as on the paper's IBM 360, and each overhead field takes one word. So the
//! paper's fixed memory of M words is a [`Region`](crate::source::Region) of 4 M bytes, and its
//! request for n words is a layout of 4 n bytes aligned to 4. In all other respects a program uses
//! the algorithms as the paper's experiments do. If no block is large enough after all compaction
//! and the source has more memory, the heap grows by a block at its end.
//!
//! # Cost
//! The meter gets a report of every block that is visited along a list or through memory (weight
//! 1), of every block that is put on a list (1, or 2 with pointers both ways), and of every pointer
//! to a preceding block that is written (1).

use crate::nielsen::WordHeap;
use crate::nielsen::buddies::Buddies;
use crate::nielsen::compaction::{
    CompactionAndCollection, GarbageCollection, Limbo, OnAllocation, OnDeallocation, TwoStage,
};
use crate::nielsen::fields::{Double, Forward, Preceding, Size};
use crate::nielsen::free_list::OneList;
use crate::nielsen::heap::Indexed;
use crate::nielsen::in_memory_order::AllBlocks;
use crate::nielsen::list::{Fifo, Lifo, MemoryOrder, SizeOrder};
use crate::nielsen::search::{ExactOrBest, FirstFit, Rotating};
use crate::nielsen::size_lists::{Actual, ManyLists, RoundUp};

/// Category I: search `Q` over all blocks, in memory order. Blocks have the fields `F`.
type InMemoryOrder<Q, F, C> = Indexed<AllBlocks<Q, F>, C>;

/// Categories II, III and VI: search `Q` over one free list in the order `O`.
type FreeList<O, Q, F, C> = Indexed<OneList<O, Q, F>, C>;

/// Category IV: a free list for each of the sizes `Z`, and a residual queue in the order `R`.
type SizeLists<Z, R, F, C> = Indexed<ManyLists<Z, R, F>, C>;

/// Defines IV-1 to IV-5 with two parameters that the paper leaves open: the largest size that has a
/// list, at most 128 words, and whether a block from the list of a larger size serves a request if
/// all else fails. In the family, the parameters are 128 and `true`.
macro_rules! with_lists {
    ($($name:literal $alias:ident $sizes:ident, $order:ident, $fields:ty, $compaction:ident;)*) => {$(
        #[doc = concat!($name, " with lists for sizes up to `MOST` words, at most 128. Without \
            `LARGER`, a block from the list of a larger size never serves a request.\n\nMade by \
            `new(growth, source, meter)`. Without `LARGER`, use it with memory of a fixed size, as \
            in the paper, or with a `growth` of more than `MOST` words.")]
        pub type $alias<const MOST: u32, const LARGER: bool, S, M = ()> = WordHeap<
            Indexed<ManyLists<$sizes, $order, $fields, MOST, LARGER>, $compaction>,
            S,
            M,
        >;
    )*};
}

with_lists! {
    "IV-1" IV1Listed Actual, Lifo, (Size, Forward), GarbageCollection;
    "IV-2" IV2Listed RoundUp, Lifo, (Size, Forward), GarbageCollection;
    "IV-3" IV3Listed Actual, Lifo, (Size, Forward, Preceding), CompactionAndCollection;
    "IV-4" IV4Listed Actual, MemoryOrder, (Size, Double, Preceding), OnDeallocation;
    "IV-5" IV5Listed Actual, Lifo, (Size, Double, Preceding), OnDeallocation;
}

/// Defines the family: each algorithm is a type expression that corresponds to the paper's table.
/// All are `linear`: they search lists, as published.
macro_rules! algorithms {
    ($($name:literal $alias:ident: $about:literal = $algorithm:ty;)*) => {
        family! {
            "nielsen", "Nielsen 1977", "catalogue::nielsen";
            $($name, "Nielsen Table III", $about, [linear] (growing $alias) {
                pub type $alias<S, M = ()> = WordHeap<$algorithm, S, M>;
            })*
        }
    };
}

algorithms! {
    // Category 1: memory order without free list.
    "I-1" I1: "memory order: First Fit; S + BP; Deallocation"
        = InMemoryOrder<FirstFit, (Size, Preceding), OnDeallocation>;
    "I-2" I2: "memory order: First Fit + R; S + BP; Deallocation"
        = InMemoryOrder<Rotating<FirstFit>, (Size, Preceding), OnDeallocation>;
    "I-3" I3: "memory order: Exact/Best + R; S + BP; Deallocation"
        = InMemoryOrder<Rotating<ExactOrBest>, (Size, Preceding), OnDeallocation>;
    "I-4" I4: "memory order: First Fit; S; Allocation"
        = InMemoryOrder<FirstFit, (Size,), OnAllocation>;
    "I-5" I5: "memory order: First Fit + R; S; Allocation"
        = InMemoryOrder<Rotating<FirstFit>, (Size,), OnAllocation>;
    "I-6" I6: "memory order: First Fit + R; S; Deallocation"
        = InMemoryOrder<Rotating<FirstFit>, (Size,), OnDeallocation>;
    "I-7" I7: "memory order: First Fit + R; S; Garbage Collection"
        = InMemoryOrder<Rotating<FirstFit>, (Size,), GarbageCollection>;
    "I-8" I8: "memory order: Exact/Best + R; S; Garbage Collection"
        = InMemoryOrder<Rotating<ExactOrBest>, (Size,), GarbageCollection>;

    // Category 2: memory ordered free list.
    "II-1" II1: "memory ordered free list: First Fit; S + DP; Deallocation"
        = FreeList<MemoryOrder, FirstFit, (Size, Double), OnDeallocation>;
    "II-2" II2: "memory ordered free list: First Fit + R; S + DP; Deallocation"
        = FreeList<MemoryOrder, Rotating<FirstFit>, (Size, Double), OnDeallocation>;
    "II-3" II3: "memory ordered free list: Exact/Best; S + DP; Garbage Collection"
        = FreeList<MemoryOrder, ExactOrBest, (Size, Double), GarbageCollection>;
    "II-4" II4: "memory ordered free list: Exact/Best + R; S + DP; Garbage Collection"
        = FreeList<MemoryOrder, Rotating<ExactOrBest>, (Size, Double), GarbageCollection>;
    "II-5" II5: "memory ordered free list: First Fit; S + FP; Limbo"
        = FreeList<MemoryOrder, FirstFit, (Size, Forward), Limbo>;
    "II-6" II6: "memory ordered free list: First Fit + R; S + FP; Limbo"
        = FreeList<MemoryOrder, Rotating<FirstFit>, (Size, Forward), Limbo>;
    "II-7" II7: "memory ordered free list: Exact/Best; S + FP; 2 Stage"
        = FreeList<MemoryOrder, ExactOrBest, (Size, Forward), TwoStage>;
    "II-8" II8: "memory ordered free list: Exact/Best + R; S + FP; 2 Stage"
        = FreeList<MemoryOrder, Rotating<ExactOrBest>, (Size, Forward), TwoStage>;

    // Category 3: LIFO or FIFO ordered free list.
    "III-1" III1: "LIFO + First Fit; S + DP; Allocation"
        = FreeList<Lifo, FirstFit, (Size, Double), OnAllocation>;
    "III-2" III2: "FIFO + First Fit; S + DP; Allocation"
        = FreeList<Fifo, FirstFit, (Size, Double), OnAllocation>;
    "III-3" III3: "LIFO + First Fit; S + FP; Garbage Collection"
        = FreeList<Lifo, FirstFit, (Size, Forward), GarbageCollection>;
    "III-4" III4: "LIFO + Exact/Best; S + FP; Garbage Collection"
        = FreeList<Lifo, ExactOrBest, (Size, Forward), GarbageCollection>;
    "III-5" III5: "FIFO + First Fit; S + FP; Garbage Collection"
        = FreeList<Fifo, FirstFit, (Size, Forward), GarbageCollection>;
    "III-6" III6: "FIFO + Exact/Best; S + FP; Garbage Collection"
        = FreeList<Fifo, ExactOrBest, (Size, Forward), GarbageCollection>;

    // Category 4: multiple free lists, all of them LIFO except the residual queue of IV-4.
    "IV-1" IV1: "multiple free lists: Actual; S + FP; Garbage Collection"
        = SizeLists<Actual, Lifo, (Size, Forward), GarbageCollection>;
    "IV-2" IV2: "multiple free lists: Round Up; S + FP; Garbage Collection"
        = SizeLists<RoundUp, Lifo, (Size, Forward), GarbageCollection>;
    "IV-3" IV3: "multiple free lists: Actual; S + FP + B; Compaction, GC"
        = SizeLists<Actual, Lifo, (Size, Forward, Preceding), CompactionAndCollection>;
    "IV-4" IV4: "multiple free lists: Actual; S + DP + B; Compaction, Memory Order"
        = SizeLists<Actual, MemoryOrder, (Size, Double, Preceding), OnDeallocation>;
    "IV-5" IV5: "multiple free lists: Actual; S + DP + B; Compaction, LIFO"
        = SizeLists<Actual, Lifo, (Size, Double, Preceding), OnDeallocation>;

    // Category 5: buddy blocks.
    "V-1" V1: "buddy blocks: LIFO; S + FP; Deallocation"
        = Buddies<Lifo, (Size, Forward), OnDeallocation>;
    "V-2" V2: "buddy blocks: FIFO; S + FP; Deallocation"
        = Buddies<Fifo, (Size, Forward), OnDeallocation>;
    "V-3" V3: "buddy blocks: LIFO; S + DP; Deallocation"
        = Buddies<Lifo, (Size, Double), OnDeallocation>;
    "V-4" V4: "buddy blocks: FIFO; S + DP; Deallocation"
        = Buddies<Fifo, (Size, Double), OnDeallocation>;
    "V-5" V5: "buddy blocks: LIFO; S + DP; Garbage Collection"
        = Buddies<Lifo, (Size, Double), GarbageCollection>;
    "V-6" V6: "buddy blocks: LIFO; S + FP; Garbage Collection"
        = Buddies<Lifo, (Size, Forward), GarbageCollection>;

    // Category 6: size ordered free list, where the first block that fits is the best.
    "VI-1" VI1: "size ordered free list: S + FP; Garbage Collection"
        = FreeList<SizeOrder, FirstFit, (Size, Forward), GarbageCollection>;
    "VI-2" VI2: "size ordered free list: S + DP + B; Deallocation"
        = FreeList<SizeOrder, FirstFit, (Size, Double, Preceding), OnDeallocation>;
}
