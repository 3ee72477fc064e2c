//! Head-first best fit with space-fitting (Hakarsa 2024, *Head-First Memory Allocation on Best-Fit
//! with Space-Fitting*).
//!
//! A best fit has to search for the block that it takes. If the never-allocated memory is kept at
//! the head of the heap, it is found at once, and a request that fits in it needs no search:
//!
//! ```text
//! head-first        | 8 | unallocated            ◀ | 32 | 16 | 128 free | 8 |    Tables 2, 5
//! non-head-first    | 8 | 8 | 32 | 80 free | 16 | unallocated ▶             |    Tables 3, 4
//! ```
//! `Create` takes a free block and fits it to the request: `ChunkUp` halves it, if the lower half
//! is large enough; `SpaceFit` gives the excess to a free neighbour, or makes it a block of its
//! own. If nothing is large enough, `Stitch` joins free neighbours. `Free` joins a block with its
//! free neighbours at once. The paper's `Free` reports whether the block was freed, was not a
//! block, or has another owner; here only [`try_free`](Strategy::try_free) does.
//!
//! | strategy | tries first | `ChunkUp` | in the paper |
//! |---|---|---|---|
//! | HEAD-FIRST | the unallocated region | no | "head-first": Tables 2, 5, 7, 9 |
//! | HEAD-FIRST (CHUNK-UP) | the unallocated region | yes | |
//! | NON-HEAD-FIRST | the best fit | no | |
//! | NON-HEAD-FIRST (CHUNK-UP) | the best fit | yes | "non head-first": Tables 3, 4, 6, 8 |
//!
//! They are one engine, [`SpaceFitting`], with two policies. The search is a third policy: an
//! [`Index`] of [`fit`](crate::fit). [`Traverse`] looks at every block, as the paper does;
//! [`Best`](crate::fit::Best) finds the same block in O(log n). Any other fit can be used as well,
//! which the paper leaves to future work (§6).
//!
//! # How the paper was read
//! The listings are missing from the text that we have, but prose and tables leave only one
//! reading.
//! - Memory is laid out as two halves (Table 1). In Table 2 the first block lies at 0 although all
//!   later ones come from the high end: its extra bytes went to the free upper half on its right.
//! - A block that is not halved and has no free neighbour gives its high end (Table 2), a halved
//!   one its low end, the upper half growing by the extra bytes (Table 3). So the region stays at
//!   the head because there is no `ChunkUp`.
//! - In Table 5 a free block of 128 bytes would fit best and is left alone: the region comes first.
//!
//! # Deviations
//! - The header has 8 bytes instead of 16: the link to the left is a footer, which only free blocks
//!   have; a block in use has its owner in that place. Blocks are aligned to 16 bytes, the double
//!   word of a 64-bit machine. So each block can be cut anywhere, and a block "remains as-is" only
//!   because of rounding.
//! - `Free` joins neighbours at once, so only the two halves are ever unjoined. `Stitch` runs once,
//!   from the head on; the result is the same.
//! - When the source gives more memory, that becomes the unallocated region, wherever it is; the
//!   rest of the old one is a free block like any other.

// `policy`: the differences between the compositions; `heap`: the engine; `traverse`: the paper's
// search.

mod heap;
mod policy;
#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests;
mod traverse;

use core::alloc::Layout;
use core::ptr::NonNull;

use self::heap::{FittedHeap, OVERHEAD};
pub use self::policy::{ChunkUp, FitFirst, Halving, NoChunkUp, Order, RegionFirst};
pub use self::traverse::Traverse;
use crate::engine::{Backing, Engine, Heap, Resized, Served};
use crate::error::{AllocError, Fault};
use crate::fit::Index;
use crate::meter::{Meter, Part};
use crate::source::Source;
use crate::strategy::{Span, Strategy};
use crate::tags::Sizes;
use crate::tally::Change;

/// The owner of a block: a process, a thread, a module, or anything else that the program chooses.
///
/// Each block of a [`SpaceFitting`] heap, such as the catalogue's
/// [`HeadFirst`](crate::catalogue::HeadFirst), has the owner that was [set](Heap::set_owner) when
/// it was allocated, or that it was [allocated for](Heap::allocate_for).
/// [`owner_of`](Heap::owner_of) returns it. These are methods of the heap and need it exclusively:
/// a shared [`Arena`](crate::Arena) allocates and frees for the owner that was set last, which only
/// [`Arena::get_mut`](crate::Arena::get_mut) can change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner(pub u32);

/// Best fit with space-fitting over a source: the [`Order`] chooses which free block is tried
/// first, the [`Halving`] whether it is halved, and the [`Index`] which of the others is taken.
///
/// A block holds 8, 24, 40, … bytes, takes 8 more, and is aligned to 16. For a greater alignment,
/// the gap is split off. Allocating from the unallocated region takes O(1), otherwise the time of a
/// search of the index; freeing and resizing in place take that of a change of the index. A heap
/// has at most 16 GiB.
///
/// Every block has an [`Owner`]: the one [set](Heap::set_owner) when it was allocated, or that it
/// was [allocated for](Heap::allocate_for). [`try_free`](Strategy::try_free) returns
/// [`FreeResult::NotOwner`](crate::FreeResult::NotOwner) if that is not the owner set now. It
/// traverses the blocks below the address that it is given: O(n).
/// [`deallocate`](Strategy::deallocate) does not check the owner.
///
/// ```
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
/// use pagewise::catalogue::HeadFirst;
/// use pagewise::head_first::Owner;
/// use pagewise::source::Region;
/// use pagewise::{FreeResult, Strategy};
///
/// let memory = Box::leak(Box::new([MaybeUninit::<u8>::uninit(); 1 << 16]));
/// let mut heap = HeadFirst::new(4096, Region::from_static(memory), ());
///
/// let layout = Layout::new::<[u64; 5]>();
/// let block = heap.allocate_for(Owner(7), layout).expect("64 KiB hold 40 bytes").cast();
/// // SAFETY: the block is no longer used.
/// unsafe {
///     assert_eq!(heap.try_free(block, layout), FreeResult::NotOwner);
///     heap.set_owner(Owner(7));
///     assert_eq!(heap.try_free(block, layout), FreeResult::Freed);
///     assert_eq!(heap.try_free(block, layout), FreeResult::Unallocated);
/// }
/// ```
pub type SpaceFitting<O, H, P, S, M = ()> = Heap<SpaceFit<O, H, P>, S, M>;

/// The engine of [`SpaceFitting`].
#[derive(Debug)]
pub struct SpaceFit<O, H, P> {
    heap: FittedHeap<O, H, P>,
    owner: Owner,
}

impl<O: Order, H: Halving, P: Index, S: Source, M: Meter> Heap<SpaceFit<O, H, P>, S, M> {
    /// Makes a heap over `source`. The heap grows by multiples of `growth` bytes, or by just the
    /// bytes needed if the source has no more. It takes no memory before the first allocation.
    /// Blocks belong to `Owner(0)` until another is set.
    ///
    /// # Panics
    /// If `growth` is 0, not a multiple of 16, or at least 16 GiB; in a `const`, at compile time.
    #[must_use]
    pub const fn new(growth: usize, source: S, meter: M) -> Self {
        let engine = SpaceFit { heap: FittedHeap::new(growth), owner: Owner(0) };
        Self::over(engine, source, meter)
    }

    /// Takes the first memory now, instead of at the first allocation, and lays it out as two
    /// halves (Table 1). Does nothing if the heap has memory already.
    ///
    /// # Errors
    /// [`AllocError::Exhausted`] if the source has less than the growth unit.
    pub fn prepare(&mut self) -> Result<(), AllocError> {
        self.engine.heap.prepare(&mut self.backing.source, &self.backing.meter)
    }

    /// Sets the owner for which blocks are allocated and freed from now on. Blocks in use keep
    /// their owner. O(1).
    pub fn set_owner(&mut self, owner: Owner) {
        self.engine.owner = owner;
    }

    /// Allocates a block for `owner`, regardless of the owner that is set.
    ///
    /// # Errors
    /// As [`allocate`](Strategy::allocate).
    pub fn allocate_for(
        &mut self,
        owner: Owner,
        layout: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let set = core::mem::replace(&mut self.engine.owner, owner);
        let allocated = self.allocate(layout);
        self.engine.owner = set;
        allocated
    }

    /// Returns the owner of the block in use that starts at `block` and that `layout` could have
    /// requested, if there is one. Any pointer may be passed. O(n).
    #[must_use]
    pub fn owner_of(&self, block: NonNull<u8>, layout: Layout) -> Option<Owner> {
        (self.is_in_use(block, layout)).then(|| self.engine.owner_at(block))
    }
}

impl<O: Order, H: Halving, P: Index> SpaceFit<O, H, P> {
    /// Returns the owner of a block in use.
    fn owner_at(&self, block: NonNull<u8>) -> Owner {
        Owner(self.heap.owner(self.heap.block_at(block.addr().get())))
    }
}

// SAFETY: blocks are disjoint parts of the source's extent; tags, owners and links lie between them
// and in free ones. They stay in place when the engine moves.
unsafe impl<O: Order, H: Halving, P: Index, S: Source, M: Meter> Engine<S, M>
    for SpaceFit<O, H, P>
{
    fn take(&mut self, layout: Layout, backing: &mut Backing<S, M>) -> Result<Served, AllocError> {
        let len = Sizes::<OVERHEAD>::cells_for(layout.size()).ok_or(AllocError::Exhausted)?;
        let (request, owner) = ((len, layout.align()), self.owner.0);
        let start = self.heap.allocate(request, owner, &mut backing.source, &backing.meter)?;
        let bytes = Sizes::<OVERHEAD>::bytes(len);
        // SAFETY: the block lies in the heap, which is valid memory, hence not at address 0.
        let block = unsafe { NonNull::new_unchecked(self.heap.contents(start)) };
        let contents = NonNull::slice_from_raw_parts(block, bytes);
        Ok(Served { contents, bytes, part: Part::Fit })
    }

    unsafe fn free(heap: &mut Heap<Self, S, M>, block: NonNull<u8>, layout: Layout) {
        let Heap { engine, backing } = heap;
        let found = engine.heap.block_at(block.addr().get());
        debug_assert_eq!(Sizes::<OVERHEAD>::cells_for(layout.size()), Some(found.len));
        engine.heap.release(found, &backing.meter);
        backing.freed(layout.size(), Sizes::<OVERHEAD>::bytes(found.len), Part::Fit);
    }

    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        _: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        let found = self.heap.block_at(block.addr().get());
        let len = Sizes::<OVERHEAD>::cells_for(new_layout.size())?;
        if !self.heap.resize(found, len, &mut backing.source, &backing.meter) {
            return None;
        }
        let [old, new] = [found.len, len].map(Sizes::<OVERHEAD>::bytes);
        Some(Resized::whole(block, Change { old, new }))
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout, backing: &Backing<S, M>) -> bool {
        let found = self.heap.find_in_use(block.addr().get(), &backing.meter);
        let cells = Sizes::<OVERHEAD>::cells_for(layout.size());
        found.is_some_and(|found| cells == Some(found.len))
    }

    fn may_free(&self, block: NonNull<u8>) -> bool {
        self.owner_at(block) == self.owner
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.heap.walk(visit);
    }

    fn audit(&self) -> Result<(), Fault> {
        self.heap.audit()
    }
}
