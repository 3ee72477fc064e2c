//! The 35 algorithms by their number in the paper: its Table III, line by line. Beside each stands
//! what the table says: search strategy, sizes or order; overhead space; memory compaction.

use super::WordHeap;
use super::buddies::Buddies;
use super::compaction::{
    CompactionAndCollection, GarbageCollection, Limbo, OnAllocation, OnDeallocation, TwoStage,
};
use super::fields::{Double, Forward, Preceding, Size};
use super::free_list::OneList;
use super::heap::Indexed;
use super::in_memory_order::AllBlocks;
use super::list::{Fifo, Lifo, MemoryOrder, SizeOrder};
use super::search::{ExactOrBest, FirstFit, Rotating};
use super::size_lists::{Actual, ManyLists, RoundUp};

/// Category I: search `Q` over all blocks in memory order, which have the fields `F`.
type InMemoryOrder<Q, F, C> = Indexed<AllBlocks<Q, F>, C>;

/// Categories II, III and VI: search `Q` over one free list in the order `O`.
type FreeList<O, Q, F, C> = Indexed<OneList<O, Q, F>, C>;

/// Category IV: a free list for each of the sizes `Z`, and a residual queue in the order `R`.
type SizeLists<Z, R, F, C> = Indexed<ManyLists<Z, R, F>, C>;

// Category 1: memory order without free list.

/// I-1: First Fit; S + BP; Deallocation.
pub type I1<S, M = ()> = WordHeap<InMemoryOrder<FirstFit, (Size, Preceding), OnDeallocation>, S, M>;

/// I-2: First Fit + R; S + BP; Deallocation.
pub type I2<S, M = ()> =
    WordHeap<InMemoryOrder<Rotating<FirstFit>, (Size, Preceding), OnDeallocation>, S, M>;

/// I-3: Exact/Best + R; S + BP; Deallocation.
pub type I3<S, M = ()> =
    WordHeap<InMemoryOrder<Rotating<ExactOrBest>, (Size, Preceding), OnDeallocation>, S, M>;

/// I-4: First Fit; S; Allocation.
pub type I4<S, M = ()> = WordHeap<InMemoryOrder<FirstFit, (Size,), OnAllocation>, S, M>;

/// I-5: First Fit + R; S; Allocation.
pub type I5<S, M = ()> = WordHeap<InMemoryOrder<Rotating<FirstFit>, (Size,), OnAllocation>, S, M>;

/// I-6: First Fit + R; S; Deallocation.
pub type I6<S, M = ()> = WordHeap<InMemoryOrder<Rotating<FirstFit>, (Size,), OnDeallocation>, S, M>;

/// I-7: First Fit + R; S; Garbage Collection.
pub type I7<S, M = ()> =
    WordHeap<InMemoryOrder<Rotating<FirstFit>, (Size,), GarbageCollection>, S, M>;

/// I-8: Exact/Best + R; S; Garbage Collection.
pub type I8<S, M = ()> =
    WordHeap<InMemoryOrder<Rotating<ExactOrBest>, (Size,), GarbageCollection>, S, M>;

// Category 2: memory ordered free list.

/// II-1: First Fit; S + DP; Deallocation.
pub type II1<S, M = ()> =
    WordHeap<FreeList<MemoryOrder, FirstFit, (Size, Double), OnDeallocation>, S, M>;

/// II-2: First Fit + R; S + DP; Deallocation.
pub type II2<S, M = ()> =
    WordHeap<FreeList<MemoryOrder, Rotating<FirstFit>, (Size, Double), OnDeallocation>, S, M>;

/// II-3: Exact/Best; S + DP; Garbage Collection.
pub type II3<S, M = ()> =
    WordHeap<FreeList<MemoryOrder, ExactOrBest, (Size, Double), GarbageCollection>, S, M>;

/// II-4: Exact/Best + R; S + DP; Garbage Collection.
pub type II4<S, M = ()> =
    WordHeap<FreeList<MemoryOrder, Rotating<ExactOrBest>, (Size, Double), GarbageCollection>, S, M>;

/// II-5: First Fit; S + FP; Limbo.
pub type II5<S, M = ()> = WordHeap<FreeList<MemoryOrder, FirstFit, (Size, Forward), Limbo>, S, M>;

/// II-6: First Fit + R; S + FP; Limbo.
pub type II6<S, M = ()> =
    WordHeap<FreeList<MemoryOrder, Rotating<FirstFit>, (Size, Forward), Limbo>, S, M>;

/// II-7: Exact/Best; S + FP; 2 Stage.
pub type II7<S, M = ()> =
    WordHeap<FreeList<MemoryOrder, ExactOrBest, (Size, Forward), TwoStage>, S, M>;

/// II-8: Exact/Best + R; S + FP; 2 Stage.
pub type II8<S, M = ()> =
    WordHeap<FreeList<MemoryOrder, Rotating<ExactOrBest>, (Size, Forward), TwoStage>, S, M>;

// Category 3: LIFO or FIFO ordered free list.

/// III-1: LIFO + First Fit; S + DP; Allocation.
pub type III1<S, M = ()> = WordHeap<FreeList<Lifo, FirstFit, (Size, Double), OnAllocation>, S, M>;

/// III-2: FIFO + First Fit; S + DP; Allocation.
pub type III2<S, M = ()> = WordHeap<FreeList<Fifo, FirstFit, (Size, Double), OnAllocation>, S, M>;

/// III-3: LIFO + First Fit; S + FP; Garbage Collection.
pub type III3<S, M = ()> =
    WordHeap<FreeList<Lifo, FirstFit, (Size, Forward), GarbageCollection>, S, M>;

/// III-4: LIFO + Exact/Best; S + FP; Garbage Collection.
pub type III4<S, M = ()> =
    WordHeap<FreeList<Lifo, ExactOrBest, (Size, Forward), GarbageCollection>, S, M>;

/// III-5: FIFO + First Fit; S + FP; Garbage Collection.
pub type III5<S, M = ()> =
    WordHeap<FreeList<Fifo, FirstFit, (Size, Forward), GarbageCollection>, S, M>;

/// III-6: FIFO + Exact/Best; S + FP; Garbage Collection.
pub type III6<S, M = ()> =
    WordHeap<FreeList<Fifo, ExactOrBest, (Size, Forward), GarbageCollection>, S, M>;

// Category 4: multiple free lists, all LIFO but the residual queue of IV-4.

/// IV-1: Actual; S + FP; Garbage Collection.
pub type IV1<S, M = ()> =
    WordHeap<SizeLists<Actual, Lifo, (Size, Forward), GarbageCollection>, S, M>;

/// IV-2: Round Up; S + FP; Garbage Collection.
pub type IV2<S, M = ()> =
    WordHeap<SizeLists<RoundUp, Lifo, (Size, Forward), GarbageCollection>, S, M>;

/// IV-3: Actual; S + FP + B; Compaction, GC.
pub type IV3<S, M = ()> =
    WordHeap<SizeLists<Actual, Lifo, (Size, Forward, Preceding), CompactionAndCollection>, S, M>;

/// IV-4: Actual; S + DP + B; Compaction, Memory Order.
pub type IV4<S, M = ()> =
    WordHeap<SizeLists<Actual, MemoryOrder, (Size, Double, Preceding), OnDeallocation>, S, M>;

/// IV-5: Actual; S + DP + B; Compaction, LIFO.
pub type IV5<S, M = ()> =
    WordHeap<SizeLists<Actual, Lifo, (Size, Double, Preceding), OnDeallocation>, S, M>;

// Category 5: buddy blocks.

/// V-1: LIFO; S + FP; Deallocation.
pub type V1<S, M = ()> = WordHeap<Buddies<Lifo, (Size, Forward), OnDeallocation>, S, M>;

/// V-2: FIFO; S + FP; Deallocation.
pub type V2<S, M = ()> = WordHeap<Buddies<Fifo, (Size, Forward), OnDeallocation>, S, M>;

/// V-3: LIFO; S + DP; Deallocation.
pub type V3<S, M = ()> = WordHeap<Buddies<Lifo, (Size, Double), OnDeallocation>, S, M>;

/// V-4: FIFO; S + DP; Deallocation.
pub type V4<S, M = ()> = WordHeap<Buddies<Fifo, (Size, Double), OnDeallocation>, S, M>;

/// V-5: LIFO; S + DP; Garbage Collection.
pub type V5<S, M = ()> = WordHeap<Buddies<Lifo, (Size, Double), GarbageCollection>, S, M>;

/// V-6: LIFO; S + FP; Garbage Collection.
pub type V6<S, M = ()> = WordHeap<Buddies<Lifo, (Size, Forward), GarbageCollection>, S, M>;

// Category 6: size ordered free list, where the first block that fits is the best.

/// VI-1: S + FP; Garbage Collection.
pub type VI1<S, M = ()> =
    WordHeap<FreeList<SizeOrder, FirstFit, (Size, Forward), GarbageCollection>, S, M>;

/// VI-2: S + DP + B; Deallocation.
pub type VI2<S, M = ()> =
    WordHeap<FreeList<SizeOrder, FirstFit, (Size, Double, Preceding), OnDeallocation>, S, M>;
