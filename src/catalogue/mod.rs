//! Every named strategy, with its source in the literature: as a type for programs that know at
//! compile time what they want, and, with `std`, by name for tools that choose at run time.
//!
//! ```
//! use core::alloc::Layout;
//! use pagewise::catalogue::{self, MostFree};
//! use pagewise::{Strategy, pages::Config, source::Reserved};
//!
//! let mut heap = MostFree::new(Config::new(), Reserved::new(1 << 30), ());
//! let mut same = catalogue::find("MOST-FREE").unwrap().build(Config::new(), 1 << 30)?;
//! assert!(heap.allocate(Layout::new::<u64>()).is_ok());
//! assert!(same.allocate(Layout::new::<u64>()).is_ok());
//! # Ok::<(), pagewise::pages::ConfigError>(())
//! ```

use crate::fit::{self, BoundaryTagHeap, Collected, Immediate, NoArea};
use crate::head_first::{self, ChunkUp, NoChunkUp, SpaceFitting};
use crate::hybrid::{self, Constant, Hybrid};
use crate::pages::Paged;
use crate::pages::placement::{
    AnyPage, AtRandom, Bump, Chain, CurrentPage, Least, LeftHeaders, Most, MostRecent,
};

#[cfg(all(feature = "std", unix))]
mod by_name;

#[cfg(all(feature = "std", unix))]
pub use by_name::{Entry, Family, all, families, find};

/// STACK: one stack of free blocks for each size class (Brent §2.1).
pub type Stack<S, M = ()> = Paged<Chain<false>, S, M>;

/// QUEUE: one queue of free blocks for each size class (Brent §2.2).
pub type Queue<S, M = ()> = Paged<Chain<true>, S, M>;

/// RANDOM: any free block of the size class, at random (Brent §2.3).
pub type Random<S, M = ()> = Paged<AtRandom, S, M>;

/// NOFREE: freed blocks are never used again (Brent §2.4).
pub type NoFree<S, M = ()> = Paged<Bump<false>, S, M>;

/// QUICK: a page is used again once all its blocks are free (Brent §2.5).
pub type Quick<S, M = ()> = Paged<Bump<true>, S, M>;

/// FIRST-FIT: each block at the lowest possible address, found through segments (Brent §2.6, his
/// reference 5).
pub use crate::segments::FirstFit;

/// FIRST-FIT (LIST): the lowest free block that fits, found on a list in address order, in O(n)
/// (Knuth §2.5; Hasan & Chang §2).
pub type FirstFitList<S, M = ()> = BoundaryTagHeap<fit::First, Immediate, NoArea, S, M>;

/// FIRST-FIT (LIFO): of the free blocks that fit the one freed last, in O(n) (Hasan & Chang §2.5;
/// Chung & Moon §2).
pub type FirstFitLifo<S, M = ()> = BoundaryTagHeap<fit::Lifo, Immediate, NoArea, S, M>;

/// FIRST-FIT (FIFO): of the free blocks that fit the one freed first, in O(n) (Hasan & Chang §2.5;
/// Chung & Moon §2).
pub type FirstFitFifo<S, M = ()> = BoundaryTagHeap<fit::Fifo, Immediate, NoArea, S, M>;

/// NEXT-FIT: the next free block that fits, from where the last search ended, in O(n) (Knuth §2.5;
/// Hasan & Chang §2).
pub type NextFit<S, M = ()> = BoundaryTagHeap<fit::Next, Immediate, NoArea, S, M>;

/// SEGREGATED-FIT: first fit over a FIFO list for each power of two (Hasan & Chang §2.2; Chung &
/// Moon §4).
pub type SegregatedFit<S, M = ()> = BoundaryTagHeap<fit::Segregated, Immediate, NoArea, S, M>;

/// BEST-FIT: the smallest free block that fits, the lowest of those (Knuth §2.5; Hasan & Chang §2).
pub type BestFit<S, M = ()> = BoundaryTagHeap<fit::Best, Immediate, NoArea, S, M>;

/// BEST-FIT (DEFERRED): best fit whose free neighbours are joined only when a search fails (Hasan &
/// Chang §2.3).
pub type DeferredBestFit<S, M = ()> = BoundaryTagHeap<fit::Best, fit::Deferred, NoArea, S, M>;

/// WORST-FIT: the largest free block, the lowest of those (Knuth §2.5; Hasan & Chang §2).
pub type WorstFit<S, M = ()> = BoundaryTagHeap<fit::Worst, Immediate, NoArea, S, M>;

/// HEAD-FIRST: best fit with space-fitting, the unallocated region at the head asked first (Hakarsa
/// §3.1, without `ChunkUp`).
pub type HeadFirst<S, M = ()> = SpaceFitting<head_first::HeadFirst, NoChunkUp, fit::Best, S, M>;

/// HEAD-FIRST (CHUNK-UP): as [`HeadFirst`], from the low end of the region.
pub type HeadFirstChunkUp<S, M = ()> =
    SpaceFitting<head_first::HeadFirst, ChunkUp, fit::Best, S, M>;

/// NON-HEAD-FIRST: best fit with space-fitting over all free blocks; what is left of a block is its
/// low end.
pub type NonHeadFirst<S, M = ()> =
    SpaceFitting<head_first::NonHeadFirst, NoChunkUp, fit::Best, S, M>;

/// NON-HEAD-FIRST (CHUNK-UP): best fit with space-fitting over all free blocks, halved first
/// (Hakarsa §3.1, Algorithm 1, with `ChunkUp`).
pub type NonHeadFirstChunkUp<S, M = ()> =
    SpaceFitting<head_first::NonHeadFirst, ChunkUp, fit::Best, S, M>;

/// Lazy first fit: LF, LFB and LFL where `A` is [`Apart`](fit::Apart), [`Joining`](fit::Joining) or
/// [`Releasing`](fit::Releasing), and F, the conventional one, where it is [`NoArea`] (Chung & Moon).
pub type LazyFirstFit<A, S, M = ()> = BoundaryTagHeap<fit::Segregated, Immediate, A, S, M>;

/// Lazy worst fit, as [`LazyFirstFit`]: W, LW, LWB, LWL (Chung & Moon).
pub type LazyWorstFit<A, S, M = ()> = BoundaryTagHeap<fit::Worst, Immediate, A, S, M>;

/// Lazy best fit, as [`LazyFirstFit`]: B, LB, LBB, LBL (Chung & Moon §3).
pub type LazyBestFit<A, S, M = ()> = BoundaryTagHeap<fit::Best, Immediate, A, S, M>;

/// [`LazyFirstFit`] in the garbage-collected mode: freed blocks wait until an allocation fails (Chung &
/// Moon §4.2).
pub type CollectedFirstFit<A, S, M = ()> = BoundaryTagHeap<fit::Segregated, Collected, A, S, M>;

/// [`LazyWorstFit`] in the garbage-collected mode.
pub type CollectedWorstFit<A, S, M = ()> = BoundaryTagHeap<fit::Worst, Collected, A, S, M>;

/// [`LazyBestFit`] in the garbage-collected mode.
pub type CollectedBestFit<A, S, M = ()> = BoundaryTagHeap<fit::Best, Collected, A, S, M>;

/// BUDDY: blocks of powers of two, joined with their buddies when both are free (Knuth §2.5).
pub use crate::buddy::Buddy;

/// HCGEN: quick lists, segregated fits and best fit, with the generic setting (Hasan & Chang §3,
/// Table 6).
pub type HcGen<S, M = ()> = Hybrid<Constant<hybrid::Generic>, S, M>;

/// HCMEM: as [`HcGen`], tuned for least memory (Hasan & Chang §5.2).
pub type HcMem<S, M = ()> = Hybrid<Constant<hybrid::Memory>, S, M>;

/// HCPERF: as [`HcGen`], tuned for most speed (Hasan & Chang §5.2).
pub type HcPerf<S, M = ()> = Hybrid<Constant<hybrid::Performance>, S, M>;

/// KINGSLEY: powers of two, never split nor joined (4.2BSD; Hasan & Chang §4.2).
pub use crate::kingsley::Kingsley;

/// RANDOM(B): from the current page; the next one at random among pages with free blocks (Brent
/// §2.8).
pub type RandomB<S, M = ()> = Paged<CurrentPage<AnyPage>, S, M>;

/// MOST-FREE: from the current page; the next one is the page with the most free blocks (Brent
/// §2.9, §4).
pub type MostFree<S, M = ()> = Paged<CurrentPage<LeftHeaders<Most>>, S, M>;

/// LEAST-FREE: from the current page; the next one is the page with the fewest free blocks, but φ0
/// (Brent §2.10, §4).
pub type LeastFree<S, M = ()> = Paged<CurrentPage<LeftHeaders<Least>>, S, M>;

/// MRU: from the current page; the next one is the page freed into most recently (Brent §2.11,
/// §4).
pub type Mru<S, M = ()> = Paged<CurrentPage<LeftHeaders<MostRecent>>, S, M>;

/// PAGEWISE, the default: small blocks from pages chosen by LEAST-FREE, larger ones and the pages
/// from one good fit.
pub use crate::pages::PageHeap;
