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
//!
//! n is the number of free blocks; the times of [`Best`] and [`Worst`] are expected ones. Under
//! every policy the *wilderness*, the free block at the upper end, is spent last: it alone can
//! grow (Hasan & Chang §3.9).
//!
//! Unlike the paged strategies these keep their bookkeeping among the blocks: 4 bytes before each,
//! and more within free ones. A program that writes outside its blocks can destroy it.
//!
//! # Which lazy fit?
//! A conventional fit searches at every request. A *lazy* fit (Chung & Moon 2000) takes the whole free
//! block that it finds as its *free-space area*, and serves requests from the area's lower end by moving a
//! pointer, as long as they fit; only then does it search again. So it saves searches: over the
//! repository's traces of real programs it serves between four and eight of ten requests without one. It
//! pays in memory: the pointer passes over small holes that a fit would have filled, and small blocks come
//! to lie in large free ones.
//!
//! The paper's letters say which fit finds the next area, and what happens to a block that is freed beside
//! the area:
//!
//! | a block freed beside the area | policy | first fit: [`LazyFirstFit`] | worst fit: [`LazyWorstFit`] | best fit: [`LazyBestFit`] |
//! |---|---|---|---|---|
//! | there is no area: the conventional fit | [`NoArea`] | F | W | B |
//! | is free memory like any other | [`Apart`] | LF | LW | LB |
//! | is joined with the area | [`Joining`] | LFB | LWB | LBB |
//! | is joined with the area, and both are free memory | [`Releasing`] | LFL | LWL | LBL |
//!
//! LFL, for example, is `LazyFirstFit<Releasing, S>` over a source `S`. Marked (GC), as in LF (GC), freed
//! blocks wait until an allocation fails: [`CollectedFirstFit`] and its like.
//!
//! - *First fit* is over segregated lists, as in the paper: [`Segregated`] has a list for each power of
//!   two, so that blocks much too small are not looked at. Over a single list it would be [`Fifo`].
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
//! [`LazyFirstFit`]: crate::catalogue::LazyFirstFit
//! [`LazyWorstFit`]: crate::catalogue::LazyWorstFit
//! [`LazyBestFit`]: crate::catalogue::LazyBestFit
//! [`CollectedFirstFit`]: crate::catalogue::CollectedFirstFit

// | file | what |
// |---|---|
// | `index`, `reclaim`, `area` | the three policy traits, and all policies of the last two |
// | `heap` | blocks that are split and joined |
// | `lazy` | its free-space area |
// | `collect`, `grow`, `resize` | freeing; more memory; growing in place |
// | `audit` | spans and invariants |
// | `bins` | best and worst fit |
// | `good`, `branchless` | good fit, and what its heap does most often |
// | `links`, `list`, `unsorted`, `segregated` | the fits over lists |
// | `stacks` | stacks of blocks for `hybrid` and `kingsley` |

mod area;
mod audit;
mod bins;
mod branchless;
mod collect;
mod good;
mod grow;
pub(crate) mod heap;
pub(crate) mod index;
mod lazy;
pub(crate) mod links;
mod list;
mod reclaim;
mod resize;
mod segregated;
pub(crate) mod stacks;
#[cfg(all(test, feature = "std", unix))]
mod tests;
mod unsorted;

use core::alloc::Layout;
use core::ptr::NonNull;

pub use self::area::{Apart, Area, Bounded, Joining, NoArea, Releasing, Sparing};
pub use self::bins::{Best, Bins, Largest, Smallest, Worst};
pub use self::good::Good;
pub use self::heap::TagHeap;
pub use self::index::Index;
pub use self::list::{First, List, Lowest, Next, Rover};
pub use self::reclaim::{Collected, Deferred, Immediate, Reclaim};
pub use self::segregated::Segregated;
pub use self::unsorted::{Back, Fifo, Front, Lifo, Unsorted};
use crate::engine::{Backing, Engine, Heap, Resized, Served};
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::source::Source;
use crate::strategy::Span;

/// A heap of blocks with boundary tags over a source: the index `P` says which free block serves a
/// request, `R` when freed blocks are free memory, and `A` whether the heap is lazy.
///
/// A block of 12, 28, 44, … bytes takes 4 more, and is aligned to 16. Greater alignments split the
/// gap below off. Freeing and resizing in place take the time of a change of the policy's index,
/// allocating that of a search as well; a bump in a free-space area takes O(1). Joining that was
/// deferred is done by the allocation that needs it: O(n), but O(1) for each free. A block that cannot
/// grow upwards is moved down into a free neighbour, if that is enough. A heap has at most 16 GiB.
///
/// [`try_free`](crate::Strategy::try_free) walks the blocks below the address it is asked about: O(n).
///
/// ```
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
/// use pagewise::Strategy;
/// use pagewise::fit::{Best, BoundaryTagHeap, Immediate, NoArea};
/// use pagewise::source::Region;
///
/// let memory = Box::leak(Box::new([MaybeUninit::<u8>::uninit(); 1 << 16]));
/// type BestFit<S> = BoundaryTagHeap<Best, Immediate, NoArea, S>;
/// let mut heap = BestFit::new(4096, Region::from_static(memory), ());
///
/// let layout = Layout::new::<[u64; 5]>();
/// let block = heap.allocate(layout).expect("64 KiB hold 40 bytes");
/// assert_eq!(block.len(), 44);
/// // SAFETY: the block was allocated above for this layout.
/// unsafe { heap.deallocate(block.cast(), layout) };
/// heap.audit().expect("every invariant holds");
/// ```
pub type BoundaryTagHeap<P, R, A, S, M = ()> = Heap<TagHeap<P, R, A>, S, M>;

impl<P: Index, R: Reclaim, A: Area, S: Source, M: Meter> Heap<TagHeap<P, R, A>, S, M> {
    /// The heap over `source`, which grows by multiples of `growth` bytes, or by as little as will
    /// do where the source has no more. Takes no memory before the first allocation.
    ///
    /// # Panics
    /// Unless `growth` is a multiple of 16, not 0 and below 16 GiB; in a `const`, at compile time.
    #[must_use]
    pub const fn new(growth: usize, source: S, meter: M) -> Self {
        Self::over(TagHeap::growing_by(growth), source, meter)
    }
}

impl<P: Index, R: Reclaim, A: Area> TagHeap<P, R, A> {
    /// A block in use and its bytes.
    #[inline(always)]
    fn served(&self, start: u32, len: u32, part: Part) -> Served {
        let bytes = Self::bytes(len);
        // SAFETY: the block lies in the heap, which is valid memory, hence not at address 0.
        let block = unsafe { NonNull::new_unchecked(self.contents(start)) };
        Served { contents: NonNull::slice_from_raw_parts(block, bytes), bytes, part }
    }
}

// SAFETY: blocks are disjoint parts of the source's extent; tags and links lie between them and in
// free ones. They stay in place when the engine moves.
unsafe impl<P: Index, R: Reclaim, A: Area, S: Source, M: Meter> Engine<S, M> for TagHeap<P, R, A> {
    fn take(&mut self, layout: Layout, backing: &mut Backing<S, M>) -> Result<Served, AllocError> {
        let Backing { source, meter, .. } = backing;
        let len = Self::cells_for(layout.size()).ok_or(AllocError::Exhausted)?;
        if let Some(start) = self.bump(len, layout.align(), meter) {
            return Ok(self.served(start, len, Part::Area));
        }
        let start = self.allocate_block(len, layout.align(), source, meter)?;
        Ok(self.served(start, len, Part::Fit))
    }

    unsafe fn free(heap: &mut Heap<Self, S, M>, block: NonNull<u8>, layout: Layout) {
        let Heap { engine, backing } = heap;
        let found = engine.block_of(block.addr().get(), layout.size());
        engine.release(found, &backing.meter);
        backing.freed(layout.size(), Self::bytes(found.len), Part::Fit);
    }

    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        _: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        let found = self.block_at(block.addr().get());
        let len = Self::cells_for(new_layout.size())?;
        if !self.resize_block(found, len, &mut backing.source, &backing.meter) {
            return None;
        }
        let bytes = (Self::bytes(found.len), Self::bytes(len));
        Some(Resized { contents: NonNull::slice_from_raw_parts(block, bytes.1), bytes })
    }

    /// A block that cannot grow where it starts grows down into a free neighbour.
    unsafe fn slide(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        if new_layout.size() <= layout.size() {
            return None;
        }
        let found = self.block_at(block.addr().get());
        let len = Self::cells_for(new_layout.size())?;
        let wanted = (len, layout.align());
        let start = self.grow_down(found, wanted, layout.size(), &backing.meter)?;
        let Served { contents, bytes, .. } = self.served(start, len, Part::Fit);
        Some(Resized { contents, bytes: (Self::bytes(found.len), bytes) })
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout, _: &Backing<S, M>) -> bool {
        let cells = Self::cells_for(layout.size());
        self.find_in_use(block.addr().get()).is_some_and(|found| cells == Some(found.len))
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.walk_blocks(visit);
    }

    fn audit(&self) -> Result<(), Fault> {
        self.audit_blocks()
    }
}
