//! Fits: blocks of any size from one heap with boundary tags (Knuth 1973, §2.5; Hasan & Chang 2006,
//! §2, §3.1).
//!
//! A fit takes a free block that is large enough and splits off the rest; a freed block is joined with
//! its free neighbours. Three policies make one fit of the heap, and each combination of them works:
//!
//! | policy | | |
//! |---|---|---|
//! | [`Index`] | which free block is taken | the table below |
//! | [`Reclaim`] | when a freed block is free memory, joined with its neighbours | [`Immediate`], [`Deferred`], [`Collected`] |
//! | [`Area`] | whether requests are first served from a free-space area (lazy fits) | [`NoArea`], [`Apart`], [`Joining`], [`Releasing`]; over them [`Bounded`], [`Sparing`] |
//!
//! | strategy | takes | policy | time |
//! |---|---|---|---|
//! | BEST-FIT | the smallest that fits, the lowest of those | [`Best`] | O(log n) |
//! | GOOD-FIT | one of the smallest that fit | [`Good`] | O(1) |
//! | WORST-FIT | the largest, the lowest of those | [`Worst`] | O(log n) |
//! | SEGREGATED-FIT | the first that fits on the list of its power of two, else the first of a higher list | [`Segregated`] | O(n) for the first list, else O(1) |
//! | FIRST-FIT (LIST) | the lowest that fits | [`First`] | O(n) |
//! | FIRST-FIT (LIFO) | of those that fit the one freed last | [`Lifo`] | O(n) |
//! | FIRST-FIT (FIFO) | of those that fit the one freed first | [`Fifo`] | O(n) |
//! | NEXT-FIT | the next that fits, from where the last search ended | [`Next`] | O(n) |
//! | HALF-FIT | the block freed last on the first list of a power of two whose blocks all fit | [`HalfFit`] | O(1) |
//! | LF (DECREMENT) | from the upper end of the block that served last, else of the lowest that fits | [`Decrement`] | O(n) |
//!
//! n is the number of free blocks; the times of [`Best`] and [`Worst`] are expected ones. Under
//! every policy the *wilderness*, the free block at the upper end, is spent last: it alone can
//! grow (Hasan & Chang §3.9).
//!
//! Unlike the paged strategies these keep their bookkeeping among the blocks: 4 bytes before each,
//! and more within free ones. A program that writes outside its blocks can destroy it.
//!
//! # Which lazy fit?
//! A conventional fit searches at every request. A *lazy* fit (Chung & Moon 2000) takes the whole
//! free block that it finds as its *free-space area*, and serves requests from the area's lower end
//! by moving a pointer, as long as they fit; only then does it search again. Over the repository's
//! traces of real programs it serves between four and eight of ten requests without a search. The
//! price is memory: the pointer passes over small holes that a fit would have filled, and small
//! blocks are placed in large free ones.
//!
//! The paper's letters tell which fit finds the next area, and what happens to a block freed beside
//! the area:
//!
//! | a block freed beside the area | policy | first fit: [`LazyFirstFit`] | worst fit: [`LazyWorstFit`] | best fit: [`LazyBestFit`] |
//! |---|---|---|---|---|
//! | there is no area: the conventional fit | [`NoArea`] | F | W | B |
//! | is free memory like any other | [`Apart`] | LF | LW | LB |
//! | is joined with the area | [`Joining`] | LFB | LWB | LBB |
//! | is joined with the area, and both are free memory | [`Releasing`] | LFL | LWL | LBL |
//!
//! LFL, for example, is `LazyFirstFit<Releasing, S>` over a source `S`. Marked (GC), as in LF (GC),
//! freed blocks wait until an allocation fails: [`CollectedFirstFit`] and similar strategies.
//!
//! - *First fit* is over segregated lists, as in the paper: [`Segregated`] has a list for each power of
//!   two, so that blocks much too small are not looked at. Over a single list it would be [`Fifo`]; in
//!   address order, as in the paper's Figure 1, it is [`LazyLowestFit`]. [`Decrement`] is that with the area
//!   left on the list.
//! - *Which?* LFL holds the least memory of the lazy first fits, and in most programs about as much as F;
//!   with an area of at most 256 bytes, `Bounded<Releasing, 256>`, in nearly all. Lazy worst fit needs the
//!   fewest searches and the most memory. LBL is the choice where a free list may grow long: its search is
//!   O(log n).
//! - *`growth`*, by which a heap asks its source for more, is also how large an area at the heap's end gets.
//!   64 KiB is a good value; the least, 16 bytes, is for measuring fragmentation as the paper does.
//! - Measure before you choose one: on the mean of these programs lazy first and best fits take 3 to 34 %
//!   more time than the conventional ones, lazy worst fit 12 to 34 % less. `docs/lazy.md` in the repository
//!   has the figures.
//!
//! [`LazyLowestFit`]: crate::catalogue::LazyLowestFit
//! [`LazyFirstFit`]: crate::catalogue::LazyFirstFit
//! [`LazyWorstFit`]: crate::catalogue::LazyWorstFit
//! [`LazyBestFit`]: crate::catalogue::LazyBestFit
//! [`CollectedFirstFit`]: crate::catalogue::CollectedFirstFit

// | file | what |
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
