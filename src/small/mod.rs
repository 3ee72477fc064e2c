//! A heap for small machines: for regions of some kilobytes and blocks of some bytes.
//!
//! Blocks have no header. Memory is counted in *granules* of one word. A bitmap apart from the
//! blocks has one bit for each granule and tells where blocks start and which are free; its
//! overhead is 1/64 with 64-bit words and 1/32 with 32-bit words. A free block contains its length
//! at both ends, and the links of a list:
//!
//! ```text
//! low address                                                          high address
//!  | in use |in use| free     | in use    | free | in use … ▶ grow |      ◀ | map |
//!                   ▲ next, previous, length … length
//! ```
//! - **Allocating** takes the smallest fitting one of the first four blocks on the list for the
//!   length, or on the next list with a block: good fit. Up to 16 granules each length has a list;
//!   above, there are eight for each doubling.
//! - **Freeing** joins the block with its free neighbours. The bits next to its own tell whether
//!   there are any.
//! - The heap grows upwards only if no free block fits, so memory that was never used is used last.
//!
//! The requested size determines a block's length, so freeing does not need the map for it. With
//! the map, a checked free verifies the block completely in as many steps as a free takes; no other
//! strategy here is checked as cheaply.
//!
//! # Bounds
//! n is a block's length in words of the map. A word covers 64 granules (512 bytes) with 64-bit
//! words, and 32 granules (128 bytes) with 32-bit words.
//!
//! | | steps |
//! |---|---|
//! | allocate | look at 4 blocks on each of at most three lists, write n + 1 words; with an alignment above a granule's, or if memory is exhausted: look at 4 blocks of each of at most 64 lists |
//! | free, checked free | look at n + 1 words of the map, take two blocks off their lists and put one on |
//! | resize in place | as allocate and free together |
//! | move to another size | as allocate and free together, and copying |
//!
//! For the sake of these bounds a request may fail although a block beyond the first four on its
//! list would hold it.
//!
//! A request that grows the heap also clears the words of the map that it takes, and joins the new
//! memory with a free run at the heap's end. In worn heaps of 64 KiB, a request that succeeded
//! visited at most 12 list items, and a free at most 5 (`tests/small.rs` checks the bounds).

// `map`: the bits. `bins`: the heads of the lists. `heap`: takes and frees runs of granules.
// `grow`: takes more memory. `inspect`: spans and invariants.

mod bins;
mod grow;
mod heap;
mod inspect;
mod map;

use core::alloc::Layout;
use core::ptr::NonNull;

pub use self::heap::BitHeap;
use self::heap::GRANULE;
use crate::engine::{Backing, Engine, Heap, Resized, Served};
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::source::{FixedSource, Region, Source};
use crate::strategy::Span;
use crate::tally::Change;

/// A heap for small machines, over a source.
///
/// ```
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
/// use pagewise::{Region, SmallHeap, Strategy};
///
/// let memory = Box::leak(Box::new([MaybeUninit::uninit(); 4096]));
/// let mut heap = SmallHeap::new(Region::from_static(memory), ());
/// let block = heap.allocate(Layout::new::<[usize; 5]>())?;
/// assert_eq!(block.len(), 5 * size_of::<usize>(), "no header");
/// # Ok::<(), pagewise::AllocError>(())
/// ```
/// A heap has at most 16 GiB with 64-bit pointers and 256 KiB with 32-bit pointers; the rest of a
/// longer region is never used. The [module](self) gives the bounds of each operation.
pub type SmallHeap<S, M = ()> = Heap<BitHeap, S, M>;

impl<S: Source, M: Meter> Heap<BitHeap, S, M> {
    /// Returns a heap over `source`. Takes no memory before the first allocation.
    #[must_use]
    pub const fn new(source: S, meter: M) -> Self {
        Self::over(BitHeap::EMPTY, source, meter)
    }
}

impl<S, M> Heap<BitHeap, S, M> {
    /// The smallest region, in bytes, that has room for a block of two words at any address: five
    /// words. The heap is meant for regions of kilobytes.
    pub const LEAST_REGION: usize = 5 * GRANULE;
}

impl<S: FixedSource, M: Meter> Heap<BitHeap, S, M> {
    /// Returns the bytes of the region that are neither in a block nor bookkeeping.
    #[must_use]
    pub fn free(&self) -> usize {
        let bookkeeping = self.backing.source.dedicated().len();
        self.source().len() - bookkeeping - self.backing.tally.block_bytes()
    }
}

impl Heap<BitHeap, Region, ()> {
    /// Tells the heap that its region of `len` bytes is now at `base`.
    ///
    /// # Safety
    /// As for [`Region::new`]. The region's bytes were moved to `base`, or it has none yet.
    pub(crate) unsafe fn move_to(&mut self, base: *mut u8, len: usize) {
        let region = self.backing.source.get_mut();
        let from = region.addresses().start;
        // SAFETY: the caller gives the same guarantees.
        unsafe { region.rebase(base, len) };
        self.engine.rebase(from, base);
    }
}

// SAFETY: blocks are disjoint parts of the source's extent. The map is in dedicated memory, and
// links are only in free memory. Both stay in place when the engine moves.
unsafe impl<S: Source, M: Meter> Engine<S, M> for BitHeap {
    fn take(&mut self, layout: Layout, backing: &mut Backing<S, M>) -> Result<Served, AllocError> {
        let Backing { source, meter, .. } = backing;
        let len = Self::granules(layout.size()).ok_or(AllocError::Exhausted)?;
        let found = if layout.align() <= GRANULE {
            self.find_plain(len, meter).map(|run| (run, run.start))
        } else {
            self.find(len, layout.align(), true, meter)
        };
        let (run, start) = match found {
            Some(found) => found,
            None => self.find_or_grow(len, layout.align(), source, meter)?,
        };
        BitHeap::take(self, run, start, len, meter);
        Ok(Served::whole(self.contents(start), len as usize * GRANULE, Part::Fit))
    }

    unsafe fn free(heap: &mut Heap<Self, S, M>, block: NonNull<u8>, layout: Layout) {
        let Heap { engine, backing } = heap;
        let start = engine.granule_of(block);
        let len = length(layout);
        debug_assert_eq!(engine.block_in_use(start).map(|run| run.len), Some(len), "it is in use");
        engine.release(heap::GranuleRun { start, len }, &backing.meter);
        backing.freed(layout.size(), len as usize * GRANULE, Part::Fit);
    }

    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        let (old, new) = (length(layout), Self::granules(new_layout.size())?);
        let bytes = Change { old: old as usize * GRANULE, new: new as usize * GRANULE };
        let start = self.granule_of(block);
        let Backing { source, meter, .. } = backing;
        BitHeap::resize(self, start, old, new, source, meter).then(|| Resized::whole(block, bytes))
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout, _: &Backing<S, M>) -> bool {
        let start = self.granule_at(block.addr().get());
        let found = start.and_then(|start| self.block_in_use(start));
        found.is_some_and(|found| Self::granules(layout.size()) == Some(found.len))
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.walk_runs(visit);
    }

    fn audit(&self) -> Result<(), Fault> {
        self.audit_runs()
    }
}

/// Returns the number of granules of a block in use with this layout.
#[inline(always)]
fn length(layout: Layout) -> u32 {
    BitHeap::granules(layout.size()).unwrap_or(0)
}
