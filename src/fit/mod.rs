//! Fits: blocks of any size from one heap with boundary tags (Knuth 1973, §2.5; Hasan & Chang 2006,
//! §2, §3.1).
//!
//! A fit takes a free block that is large enough and splits off the rest. A freed block is joined
//! with its free neighbours. Three policies, in any combination, determine the fit:
//!
//! | policy | decides | choices |
//! |---|---|---|
//! | [`Index`] | which free block is taken | the table below |
//! | [`Reclaim`] | when a freed block becomes free memory, and when it is joined with its neighbours | [`Immediate`], [`Deferred`], [`Collected`] |
//! | [`Area`] | whether requests are first served from a free-space area (lazy fits) | [`NoArea`], [`Apart`], [`Joining`], [`Releasing`]; over them [`Bounded`], [`Sparing`] |
//!
//! | strategy | takes | policy | time |
//! |---|---|---|---|
//! | BEST-FIT | the lowest of the smallest that fit | [`Best`] | O(log n) |
//! | GOOD-FIT | one of the smallest that fit | [`Good`] | O(1) |
//! | WORST-FIT | the lowest of the largest | [`Worst`] | O(log n) |
//! | SEGREGATED-FIT | the first that fits on the list of its power of two, else the first of a higher list | [`Segregated`] | O(n) for the first list, else O(1) |
//! | FIRST-FIT (LIST) | the lowest that fits | [`First`] | O(n) |
//! | FIRST-FIT (LIFO) | the last freed of those that fit | [`Lifo`] | O(n) |
//! | FIRST-FIT (FIFO) | the first freed of those that fit | [`Fifo`] | O(n) |
//! | NEXT-FIT | the next that fits, from where the last search ended | [`Next`] | O(n) |
//! | HALF-FIT | the last freed block on the first power-of-two list whose blocks all fit | [`HalfFit`] | O(1) |
//! | LF (DECREMENT) | the upper end of the block that served last, if it fits; else of the lowest block that fits | [`Decrement`] | O(n) |
//!
//! n is the number of free blocks; the times of [`Best`] and [`Worst`] are expected times. Under
//! every policy the *wilderness*, the free block at the heap's upper end, is used last, because it
//! alone can grow (Hasan & Chang §3.9).
//!
//! Unlike the paged strategies, fits keep their bookkeeping among the blocks: 4 bytes before each
//! block, and more inside free ones. A program that writes outside its blocks can corrupt it.
//!
//! # Which lazy fit?
//! A conventional fit searches at every request. A *lazy* fit (Chung & Moon 2000) takes the whole
//! free block that it finds as its *free-space area*. It serves requests from the area's lower end
//! by moving a pointer, and searches again only when a request does not fit. On the repository's
//! traces of real programs, it serves four to eight of ten requests without a search. The price is
//! memory: small holes that a conventional fit would fill stay unused, and small blocks are placed
//! in large free ones.
//!
//! The paper names a lazy fit by letters: which fit finds the next area, and what happens to a
//! block freed beside the area:
//!
//! | a block freed beside the area | policy | first fit: [`LazyFirstFit`] | worst fit: [`LazyWorstFit`] | best fit: [`LazyBestFit`] |
//! |---|---|---|---|---|
//! | there is no area: the conventional fit | [`NoArea`] | F | W | B |
//! | is free memory like any other | [`Apart`] | LF | LW | LB |
//! | is joined with the area | [`Joining`] | LFB | LWB | LBB |
//! | is joined with the area, and both are free memory | [`Releasing`] | LFL | LWL | LBL |
//!
//! LFL, for example, is `LazyFirstFit<Releasing, S>` over a source `S`. In strategies marked (GC),
//! such as LF (GC), freed blocks wait until an allocation fails: [`CollectedFirstFit`] and similar
//! types.
//!
//! - *First fit* uses segregated lists, as in the paper: [`Segregated`] has a list for each power
//!   of two, so a search skips blocks that are much too small. [`Fifo`] would be the same over a
//!   single list. [`LazyLowestFit`] is first fit in address order, as in the paper's Figure 1;
//!   [`Decrement`] is the same with the area left on the list.
//! - *Which one?* LFL holds the least memory of the lazy first fits: in most programs about as much
//!   as F, and with an area of at most 256 bytes (`Bounded<Releasing, 256>`) in nearly all. Lazy
//!   worst fit needs the fewest searches and the most memory. Choose LBL where a free list may grow
//!   long: its search is O(log n).
//! - *`growth`* is the unit in which a heap asks its source for memory, and so also the size of an
//!   area at the heap's end. 64 KiB is a good value; the minimum, 16 bytes, serves to measure
//!   fragmentation as the paper does.
//! - Measure before you choose one: on average over these programs, lazy first and best fits take 3
//!   to 34 % more time than the conventional ones, and lazy worst fit takes 12 to 34 % less.
//!   `docs/lazy.md` in the repository has the figures.
//!
//! [`LazyLowestFit`]: crate::catalogue::LazyLowestFit
//! [`LazyFirstFit`]: crate::catalogue::LazyFirstFit
//! [`LazyWorstFit`]: crate::catalogue::LazyWorstFit
//! [`LazyBestFit`]: crate::catalogue::LazyBestFit
//! [`CollectedFirstFit`]: crate::catalogue::CollectedFirstFit

// | file | contents |
// |---|---|
// | `index`, `reclaim`, `area` | the three policy traits, and all policies of the last two |
// | `heap` | the engine: blocks that are split and joined |
// | `lazy` | its free-space area |
// | `collect`, `grow`, `resize` | freeing; more memory; growing in place |
// | `audit` | spans and invariants |
// | `boundary_tag_heap` | the heap as a strategy |
// | `bins` | best and worst fit |
// | `good`, `branchless` | good fit, and its heap's most frequent operations |
// | `links`, `list`, `unsorted`, `segregated`, `half_fit`, `decrement` | the fits over lists |
// | `stacks` | stacks of blocks for `hybrid` and `kingsley` |

mod area;
mod audit;
#[cfg(feature = "strategies")]
mod bins;
#[cfg(feature = "strategies")]
mod boundary_tag_heap;
pub(crate) mod branchless;
mod collect;
#[cfg(feature = "strategies")]
mod decrement;
mod good;
mod grow;
#[cfg(feature = "strategies")]
mod half_fit;
pub(crate) mod heap;
pub(crate) mod index;
mod lazy;
#[cfg(feature = "strategies")]
pub(crate) mod links;
#[cfg(feature = "strategies")]
mod list;
mod reclaim;
mod resize;
#[cfg(feature = "strategies")]
mod segregated;
#[cfg(feature = "strategies")]
pub(crate) mod stacks;
#[cfg(all(
    test,
    feature = "std",
    feature = "strategies",
    any(unix, windows, target_arch = "wasm32")
))]
mod tests;
#[cfg(feature = "strategies")]
mod unsorted;
mod vet;

pub use self::area::{Apart, Area, Bounded, Joining, NoArea, Releasing, Sparing};
#[cfg(feature = "strategies")]
pub use self::bins::{Best, Bins, Largest, Smallest, Worst};
#[cfg(feature = "strategies")]
pub use self::boundary_tag_heap::BoundaryTagHeap;
#[cfg(feature = "strategies")]
pub use self::decrement::Decrement;
pub use self::good::Good;
#[cfg(feature = "strategies")]
pub use self::half_fit::HalfFit;
pub use self::heap::TagHeap;
pub use self::index::Index;
#[cfg(feature = "strategies")]
pub use self::list::{First, List, Lowest, Next, Rover};
pub use self::reclaim::{Collected, Deferred, Immediate, Reclaim};
#[cfg(feature = "strategies")]
pub use self::segregated::Segregated;
#[cfg(feature = "strategies")]
pub use self::unsorted::{Back, Fifo, Front, Lifo, Unsorted};
