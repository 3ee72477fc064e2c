//! Fits: blocks of any size from one heap with boundary tags (Knuth 1973, §2.5; Hasan & Chang 2006,
//! §2, §3.1).
//!
//! A fit takes a free block that is large enough and splits off what is not needed; a freed block is
//! joined with its free neighbours. Three policies make one fit of the heap, and any three go
//! together:
//!
//! | policy | | |
//! |---|---|---|
//! | [`Policy`] | which free block is taken | the table below |
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
//! Files, in the order they build on each other: `policy`, `reclaim` and `area` (the traits, and
//! what of the last two there is), `heap` (the engine), `lazy` (its free-space area), `collect`
//! (freeing), `further` (more memory), `resize` (growing in place) and `audit`; then the policies: `bins` (best and worst fit), `good` (good fit) and on it
//! `branchless` (what its heap does most often), `links` and on it `list` (address order), `unsorted`
//! (LIFO, FIFO) and `segregated`. The tags are in `block/tag.rs` and `block/words.rs`.

mod area;
mod audit;
mod bins;
mod branchless;
mod collect;
mod further;
mod good;
pub(crate) mod heap;
mod lazy;
mod links;
mod list;
pub(crate) mod policy;
mod reclaim;
mod resize;
mod segregated;
#[cfg(all(test, feature = "std", unix))]
mod tests;
mod unsorted;

use core::alloc::Layout;
use core::ptr::NonNull;

pub use self::area::{Apart, Area, Bounded, Joining, NoArea, Releasing, Sparing};
pub use self::bins::{Best, Bins, Choice, Largest, Smallest, Worst};
pub use self::good::Good;
use self::heap::TagHeap;
pub use self::list::{First, List, Lowest, Next, Rover, Start};
pub use self::policy::Policy;
pub use self::reclaim::{Collected, Deferred, Immediate, Reclaim};
pub use self::segregated::Segregated;
pub use self::unsorted::{Back, End, Fifo, Front, Lifo, Unsorted};
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::source::{Owned, Source};
use crate::strategy::{Span, Strategy, Tally, Usage, empty_block, keep_aligned, move_to_another};
use crate::walk;

/// A heap of blocks with boundary tags over a source, whose policy `P` says which free block
/// serves a request, `R` when freed blocks are free memory, and `A` whether it is lazy.
///
/// A block of 12, 28, 44, … bytes takes 4 more, and is aligned to 16. Greater alignments split the
/// gap below off. Freeing and resizing in place take the time of a change of the policy's index,
/// allocating that of a search as well; a bump in a free-space area takes O(1). What is deferred is
/// made up for by the allocation that needs it: O(n), but O(1) for each free. A block that cannot
/// grow upwards is moved down into a free neighbour, if that is enough. A heap has at most 16 GiB.
///
/// [`try_free`](Strategy::try_free) walks the blocks below the address it is asked about: O(n).
///
/// ```
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
/// use pagewise::Strategy;
/// use pagewise::fit::{Best, BoundaryTagHeap};
/// use pagewise::source::Region;
///
/// let memory = Box::leak(Box::new([MaybeUninit::<u8>::uninit(); 1 << 16]));
/// let mut heap = BoundaryTagHeap::<Best, _>::new(4096, Region::from_static(memory), ());
///
/// let layout = Layout::new::<[u64; 5]>();
/// let block = heap.allocate(layout).expect("64 KiB hold 40 bytes");
/// assert_eq!(block.len(), 44);
/// // SAFETY: the block was allocated above for this layout.
/// unsafe { heap.deallocate(block.cast(), layout) };
/// heap.audit().expect("every invariant holds");
/// ```
#[derive(Debug)]
pub struct BoundaryTagHeap<P, S, M = (), R = Immediate, A = NoArea> {
    heap: TagHeap<P, R, A>,
    source: Owned<S>,
    meter: M,
    tally: Tally,
}

impl<P: Policy, S: Source, M: Meter, R: Reclaim, A: Area> BoundaryTagHeap<P, S, M, R, A> {
    /// The heap over `source`, which grows by multiples of `growth` bytes, or by as little as will
    /// do where the source has no more. Takes no memory before the first allocation.
    ///
    /// # Panics
    /// Unless `growth` is a multiple of 16, not 0 and below 16 GiB; in a `const`, at compile time.
    #[must_use]
    pub const fn new(growth: usize, source: S, meter: M) -> Self {
        Self { heap: TagHeap::new(growth), source: Owned::new(source), meter, tally: Tally::new() }
    }

    /// The contents of a block.
    #[inline(always)]
    fn contents(&self, start: u32, bytes: usize) -> NonNull<[u8]> {
        // SAFETY: the block lies in the heap, which is valid memory, hence not at address 0.
        let contents = unsafe { NonNull::new_unchecked(self.heap.contents(start)) };
        NonNull::slice_from_raw_parts(contents, bytes)
    }
}

// SAFETY: the heap's blocks are disjoint parts of the source's extent, and its tags and links lie
// between them and in free ones. They stay in place when the strategy moves.
unsafe impl<P: Policy, S: Source, M: Meter, R: Reclaim, A: Area> Strategy
    for BoundaryTagHeap<P, S, M, R, A>
{
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(empty_block(layout));
        }
        let len = TagHeap::<P>::cells_for(layout.size()).ok_or(AllocError::Exhausted)?;
        let (start, part) = match self.heap.bump(len, layout.align(), &self.meter) {
            Some(start) => (start, Part::Area),
            None => {
                let start = self.heap.allocate(len, layout.align(), &mut self.source, &self.meter);
                self.tally.held(self.source.held());
                (start?, Part::Fit)
            }
        };
        self.meter.served(part);
        let bytes = TagHeap::<P>::bytes(len);
        self.tally.allocated(layout.size(), bytes);
        Ok(self.contents(start, bytes))
    }

    unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        let found = self.heap.block_of(block.addr().get(), layout.size());
        self.heap.release(found, &self.meter);
        self.meter.served(Part::Fit);
        self.tally.freed(layout.size(), TagHeap::<P>::bytes(found.len));
    }

    unsafe fn resize_in_place(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<[u8]>> {
        if layout.size() == 0 || new_size == 0 {
            return None;
        }
        let found = self.heap.block_at(block.addr().get());
        let len = TagHeap::<P>::cells_for(new_size)?;
        if !self.heap.resize(found, len, &mut self.source, &self.meter) {
            return None;
        }
        self.tally.held(self.source.held());
        let (old_bytes, bytes) = (TagHeap::<P>::bytes(found.len), TagHeap::<P>::bytes(len));
        self.tally.resized((layout.size(), new_size), (old_bytes, bytes));
        Some(NonNull::slice_from_raw_parts(block, bytes))
    }

    /// A block that cannot grow where it starts grows down into a free neighbour before it is
    /// moved elsewhere.
    unsafe fn relocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() > 0 && new_size > layout.size() {
            let found = self.heap.block_at(block.addr().get());
            let len = TagHeap::<P>::cells_for(new_size).ok_or(AllocError::Exhausted)?;
            let wanted = (len, layout.align());
            if let Some(start) = self.heap.grow_down(found, wanted, layout.size(), &self.meter) {
                let (old_bytes, bytes) = (TagHeap::<P>::bytes(found.len), TagHeap::<P>::bytes(len));
                self.tally.resized((layout.size(), new_size), (old_bytes, bytes));
                return Ok(self.contents(start, bytes));
            }
        }
        // SAFETY: passed on.
        unsafe { move_to_another(self, block, layout, new_size) }
    }

    unsafe fn keep(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
    ) -> Option<NonNull<[u8]>> {
        // SAFETY: passed on; a block is found by its address, whatever its alignment.
        unsafe { keep_aligned(self, block, layout, new_layout) }
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout) -> bool {
        let cells = TagHeap::<P>::cells_for(layout.size());
        self.heap.find_in_use(block.addr().get()).is_some_and(|found| cells == Some(found.len))
    }

    fn owns(&self, block: NonNull<u8>) -> bool {
        self.source.extent().contains(&block.addr().get())
    }

    fn usage(&self) -> Usage {
        self.tally.usage()
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.heap.walk(visit);
        walk::dedicated(&self.source, visit);
    }

    fn audit(&self) -> Result<(), Fault> {
        self.heap.audit()?;
        walk::check(self)
    }
}
