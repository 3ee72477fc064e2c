//! Head-first best fit with space-fitting (Hakarsa 2024, *Head-First Memory Allocation on Best-Fit
//! with Space-Fitting*).
//!
//! A best fit has to look for the block it takes. If the memory that was never allocated is kept at
//! the head of the heap, it is there at once, and a request for which there is room in it need not
//! look any further:
//!
//! ```text
//! head-first        | 8 | unallocated            ◀ | 32 | 16 | 128 free | 8 |    Tables 2, 5
//! non-head-first    | 8 | 8 | 32 | 80 free | 16 | unallocated ▶             |    Tables 3, 4
//! ```
//! `Create` takes a free block and fits it to the request: `ChunkUp` halves it, if the lower half is
//! large enough; `SpaceFit` gives what is too much to a free neighbour, or makes it a block of its
//! own. If nothing is large enough, `Stitch` joins free neighbours. `Free` answers whether a block
//! was freed, was none, or is another's, and joins it with its free neighbours at once.
//!
//! | strategy | asks first | `ChunkUp` | in the paper |
//! |---|---|---|---|
//! | HEAD-FIRST | the unallocated region | no | "head-first": Tables 2, 5, 7, 9 |
//! | HEAD-FIRST (CHUNK-UP) | the unallocated region | yes | |
//! | NON-HEAD-FIRST | the best fit | no | |
//! | NON-HEAD-FIRST (CHUNK-UP) | the best fit | yes | "non head-first": Tables 3, 4, 6, 8 |
//!
//! They are one engine, [`SpaceFitting`], with two policies; the search is a third: a
//! [`Policy`] of [`fit`](crate::fit). [`Traverse`] looks at every block, as the paper does;
//! [`Best`](crate::fit::Best) finds the same block in O(log n). Other fits go as well, which the
//! paper leaves to future work (§6).
//!
//! # How the paper was read
//! Its listings are lost in the text we have; prose and tables leave one reading.
//! - Memory is laid out as two halves (Table 1). In Table 2 the first block lies at 0 although all
//!   later ones come from the high end: its extra bytes went to the free upper half on its right.
//! - A block that is not halved and has no free neighbour gives its high end (Table 2), a halved one
//!   its low end, the upper half growing by the extra bytes (Table 3). So the absence of `ChunkUp` is
//!   what keeps the region at the head.
//! - In Table 5 a free block of 128 bytes would fit best and is left alone: the region comes first.
//!
//! # Deviations
//! - The header has 8 bytes instead of 16: the link to the left is a footer, which only free blocks
//!   have; in its place blocks in use have their owner. Blocks are aligned to 16 bytes, the double
//!   word of a 64-bit machine. So each block can be cut anywhere, and the case in which a block
//!   "remains as-is" is that of rounding only.
//! - `Free` joins neighbours at once, so only the two halves ever lie unjoined. `Stitch` runs once,
//!   and from the head on; what it leaves is the same.
//! - When the source gives more memory, that becomes the unallocated region, wherever it lies; what
//!   is left of the old one is a free block as others are.

mod heap;
mod policy;
#[cfg(all(test, feature = "std", unix))]
mod tests;
mod traverse;

use core::alloc::Layout;
use core::ptr::NonNull;

use self::heap::Heap;
pub use self::policy::{ChunkUp, Halving, HeadFirst, NoChunkUp, NonHeadFirst, Order};
pub use self::traverse::Traverse;
use crate::error::{AllocError, Fault, Freed};
use crate::fit::Policy;
use crate::meter::{Meter, Part};
use crate::source::{Owned, Source};
use crate::strategy::{Span, Strategy, Tally, Usage, empty_block, keep_aligned};
use crate::walk;

/// Whose a block is: a process, a thread, a module; what it stands for is the program's business.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner(pub u32);

/// Best fit with space-fitting over a source: which free block is asked first is the [`Order`]'s
/// choice, whether it is halved the [`Halving`]'s, and which of the others is taken the
/// [`Policy`]'s.
///
/// A block of 8, 24, 40, … bytes takes 8 more, and is aligned to 16. Greater alignments split the
/// gap off. Allocating from the unallocated region takes O(1), else the time of a search of the
/// policy; freeing and resizing in place that of a change of its index. A heap has at most 16 GiB.
///
/// Every block has an [`Owner`]: the one set when it was allocated. [`try_free`](Strategy::try_free)
/// answers [`Freed::NotOwner`] if it is not the one set now; it traverses the blocks below the
/// address it is asked about: O(n). [`deallocate`](Strategy::deallocate) does not ask.
///
/// ```
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
/// use pagewise::catalogue::HeadFirst;
/// use pagewise::head_first::Owner;
/// use pagewise::source::Region;
/// use pagewise::{Freed, Strategy};
///
/// let memory = Box::leak(Box::new([MaybeUninit::<u8>::uninit(); 1 << 16]));
/// let mut heap = HeadFirst::new(4096, Region::from_static(memory), ());
///
/// let layout = Layout::new::<[u64; 5]>();
/// let block = heap.allocate_for(Owner(7), layout).expect("64 KiB hold 40 bytes").cast();
/// // SAFETY: nobody uses the block.
/// unsafe {
///     assert_eq!(heap.try_free(block, layout), Freed::NotOwner);
///     heap.set_owner(Owner(7));
///     assert_eq!(heap.try_free(block, layout), Freed::Freed);
///     assert_eq!(heap.try_free(block, layout), Freed::Unallocated);
/// }
/// ```
#[derive(Debug)]
pub struct SpaceFitting<O, H, P, S, M = ()> {
    heap: Heap<O, H, P>,
    owner: Owner,
    source: Owned<S>,
    meter: M,
    tally: Tally,
}

impl<O: Order, H: Halving, P: Policy, S: Source, M: Meter> SpaceFitting<O, H, P, S, M> {
    /// The heap over `source`, which grows by multiples of `growth` bytes, or by as little as will
    /// do where the source has no more. Takes no memory before the first allocation. Blocks are
    /// `Owner(0)`'s until another is set.
    ///
    /// # Panics
    /// Unless `growth` is a multiple of 16, not 0 and below 16 GiB; in a `const`, at compile time.
    #[must_use]
    pub const fn new(growth: usize, source: S, meter: M) -> Self {
        Self {
            heap: Heap::new(growth),
            owner: Owner(0),
            source: Owned::new(source),
            meter,
            tally: Tally::new(),
        }
    }

    /// Takes the first memory now, instead of at the first allocation, and lays it out as two
    /// halves (Table 1). Does nothing if the heap has memory already.
    ///
    /// # Errors
    /// [`AllocError::Exhausted`] if the source has less than the growth unit.
    pub fn prepare(&mut self) -> Result<(), AllocError> {
        let prepared = self.heap.prepare(&mut self.source, &self.meter);
        self.tally.held(self.source.held());
        prepared
    }

    /// Whose blocks are allocated and freed from now on. Blocks in use keep their owner. O(1).
    pub fn set_owner(&mut self, owner: Owner) {
        self.owner = owner;
    }

    /// Allocates a block for an owner, whoever is set.
    ///
    /// # Errors
    /// As [`allocate`](Strategy::allocate).
    pub fn allocate_for(
        &mut self,
        owner: Owner,
        layout: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(empty_block(layout));
        }
        let len = Heap::<O, H, P>::cells_for(layout.size()).ok_or(AllocError::Exhausted)?;
        let request = (len, layout.align());
        let start = self.heap.allocate(request, owner.0, &mut self.source, &self.meter);
        self.tally.held(self.source.held());
        let start = start?;
        self.meter.served(Part::Fit);
        let bytes = Heap::<O, H, P>::bytes(len);
        self.tally.allocated(layout.size(), bytes);
        // SAFETY: the block lies in the heap, which is valid memory, hence not at address 0.
        let block = unsafe { NonNull::new_unchecked(self.heap.contents(start)) };
        Ok(NonNull::slice_from_raw_parts(block, bytes))
    }

    /// The owner of the block in use that starts at `block` and that `layout` could have asked
    /// for, if one does. Any pointer may be passed. O(n).
    #[must_use]
    pub fn owner_of(&self, block: NonNull<u8>, layout: Layout) -> Option<Owner> {
        let address = block.addr().get();
        if layout.size() == 0 || !address.is_multiple_of(layout.align()) {
            return None;
        }
        let found = self.heap.find_in_use(address, &self.meter)?;
        (Heap::<O, H, P>::cells_for(layout.size()) == Some(found.len))
            .then(|| Owner(self.heap.owner(found)))
    }
}

// SAFETY: the heap's blocks are disjoint parts of the source's extent, and its tags, owners and
// links lie between them and in free ones. They stay in place when the strategy moves.
unsafe impl<O: Order, H: Halving, P: Policy, S: Source, M: Meter> Strategy
    for SpaceFitting<O, H, P, S, M>
{
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.allocate_for(self.owner, layout)
    }

    unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        let found = self.heap.block_at(block.addr().get());
        debug_assert_eq!(Heap::<O, H, P>::cells_for(layout.size()), Some(found.len));
        self.heap.release(found, &self.meter);
        self.meter.served(Part::Fit);
        self.tally.freed(layout.size(), Heap::<O, H, P>::bytes(found.len));
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
        let len = Heap::<O, H, P>::cells_for(new_size)?;
        if !self.heap.resize(found, len, &mut self.source, &self.meter) {
            return None;
        }
        self.tally.held(self.source.held());
        let bytes = (Heap::<O, H, P>::bytes(found.len), Heap::<O, H, P>::bytes(len));
        self.tally.resized((layout.size(), new_size), bytes);
        Some(NonNull::slice_from_raw_parts(block, bytes.1))
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
        self.owner_of(block, layout).is_some()
    }

    fn owns(&self, block: NonNull<u8>) -> bool {
        self.source.extent().contains(&block.addr().get())
    }

    unsafe fn try_free(&mut self, block: NonNull<u8>, layout: Layout) -> Freed {
        match self.owner_of(block, layout) {
            None => Freed::Unallocated,
            Some(owner) if owner != self.owner => Freed::NotOwner,
            Some(_) => {
                // SAFETY: a block in use of this layout starts there, which the caller gives up.
                unsafe { self.deallocate(block, layout) };
                Freed::Freed
            }
        }
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
