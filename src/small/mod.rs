//! A heap for small machines: regions of some kilobytes, blocks of some bytes.
//!
//! A block costs no header. Memory is counted in *granules* of one word, and one bit for each, in a map apart
//! from the blocks, tells blocks from one another and from what is free: an overhead of 1 in 64 bytes with words of 64 bits,
//! and of 1 in 32 with words of 32 bits. What is free holds its own length, at both ends, and the links of a list:
//!
//! ```text
//! low address                                                          high address
//!  | in use |in use| free     | in use    | free | in use … ▶ grow |      ◀ | map |
//!                   ▲ next, previous, length … length
//! ```
//! - **Allocating** takes the smallest of the first four blocks on the list of its length, or the first list
//!   above with a block: good fit. Up to 16 granules each length has a list, above each doubling has eight.
//! - **Freeing** joins the block with free neighbours: its own bits' neighbours tell whether there are such.
//! - The heap grows upwards where nothing free will do, so what was never used is spent last.
//!
//! A block's length follows from the size requested, so the map is not needed to free it, but tells a checked
//! free all of it in as many steps as a free: no other strategy here is that cheap to check.
//!
//! # Bounds
//! n is a block's length in words of the map: 64 granules, 512 bytes, with words of 64 bits, 32 granules, 128
//! bytes, with words of 32 bits.
//!
//! | | steps |
//! |---|---|
//! | allocate | 4 blocks looked at on each of two lists, n + 1 words written; with an alignment above a granule's, or memory exhausted: 4 blocks of each of at most 64 lists |
//! | free, checked free | n + 1 words of the map, two blocks taken off their lists and one put on |
//! | resize in place | as one and the other |
//! | move to another size | as both, and copying |
//!
//! A request that grows the heap also clears the words of the map that it takes, and joins what was free at its end.
//! On worn heaps of 64 KiB a request that was served visited 12 list items at most, and a free 5 (`tests/small.rs` holds
//! the bounds).

// `map`: the bits. `bins`: the lists' heads. `heap`: runs of granules taken and given back. `grow`: more memory.
// `inspect`: spans and invariants.

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
use crate::source::{Region, Source};
use crate::strategy::Span;

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
/// A heap has at most 16 GiB with pointers of 64 bits, and 256 KiB with pointers of 32: of a longer region
/// the rest is never used. The module says what each operation takes.
pub type SmallHeap<S, M = ()> = Heap<BitHeap, S, M>;

impl<S: Source, M: Meter> Heap<BitHeap, S, M> {
    /// The heap over `source`. Takes no memory before the first allocation.
    #[must_use]
    pub const fn new(source: S, meter: M) -> Self {
        Self::over(BitHeap::EMPTY, source, meter)
    }
}

impl<S, M> Heap<BitHeap, S, M> {
    /// The least region that is certain to have room for a block, of two words, wherever it begins: five words. A
    /// region of kilobytes is what this heap is made for.
    pub const LEAST_REGION: usize = 5 * GRANULE;
}

impl Heap<BitHeap, Region, ()> {
    /// Bytes of the region that are in no block and no bookkeeping.
    #[must_use]
    pub fn free(&self) -> usize {
        let region = self.source();
        region.len() - self.backing.source.dedicated().len() - self.backing.tally.block_bytes()
    }

    /// The region of `len` bytes lies at `base` now, with all that it holds.
    ///
    /// # Safety
    /// As for [`Region::new`]; the region's bytes were moved there, or it has none yet.
    pub(crate) unsafe fn move_to(&mut self, base: *mut u8, len: usize) {
        let region = self.backing.source.get_mut();
        let from = region.addresses().start;
        // SAFETY: passed on.
        unsafe { region.rebase(base, len) };
        self.engine.rebase(from, base);
    }
}

// SAFETY: blocks are disjoint parts of the source's extent; the map lies in dedicated memory, links only in what
// is free. Both stay in place when the engine moves.
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
        engine.release(heap::Run { start, len }, &backing.meter);
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
        let bytes = (old as usize * GRANULE, new as usize * GRANULE);
        BitHeap::resize(self, self.granule_of(block), old, new, &backing.meter)
            .then(|| Resized::whole(block, bytes))
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

/// Granules of a block in use that is known by this layout.
#[inline(always)]
fn length(layout: Layout) -> u32 {
    BitHeap::granules(layout.size()).unwrap_or(0)
}
