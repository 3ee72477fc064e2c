//! The heap as a strategy, with any index, reclaim and area.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::area::Area;
use super::heap::TagHeap;
use super::index::Index;
use super::reclaim::Reclaim;
use crate::engine::{Backing, Engine, Heap, Resized, Served};
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::source::Source;
use crate::strategy::Span;
use crate::tally::Change;

/// A heap of blocks with boundary tags over a source. The index `P` chooses the free block that
/// serves a request, `R` decides when freed blocks are free memory, and `A` whether the heap is
/// lazy.
///
/// A block holds 12, 28, 44, … bytes, takes 4 more, and is aligned to 16. For a greater alignment,
/// the gap below the block is split off. A block that cannot grow upwards is moved down into a free
/// neighbour, if that is long enough. A heap has at most 16 GiB. Freeing and resizing in place take
/// the time of a change of the policy's index, and allocating takes that of a search as well. A
/// bump in a free-space area takes O(1). Deferred joining happens in the allocation that needs it:
/// O(n), but O(1) for each free.
///
/// [`try_free`](crate::Strategy::try_free) walks the blocks below the address that it is given:
/// O(n).
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
    /// Makes a heap over `source`. The heap grows by multiples of `growth` bytes, or by just the
    /// bytes needed if the source has no more. It takes no memory before the first allocation.
    ///
    /// # Panics
    /// If `growth` is 0, not a multiple of 16, or at least 16 GiB; in a `const`, at compile time.
    #[must_use]
    pub const fn new(growth: usize, source: S, meter: M) -> Self {
        Self::over(TagHeap::growing_by(growth), source, meter)
    }
}

impl<P: Index, R: Reclaim, A: Area> TagHeap<P, R, A> {
    /// Returns where a block in use starts.
    #[inline(always)]
    fn address(&self, start: u32) -> NonNull<u8> {
        // SAFETY: the block lies in the heap, which is valid memory, hence not at address 0.
        unsafe { NonNull::new_unchecked(self.contents(start)) }
    }
}

// SAFETY: blocks are disjoint parts of the source's extent; tags and links lie between them and in
// free ones. They stay in place when the engine moves.
unsafe impl<P: Index, R: Reclaim, A: Area, S: Source, M: Meter> Engine<S, M> for TagHeap<P, R, A> {
    fn take(&mut self, layout: Layout, backing: &mut Backing<S, M>) -> Result<Served, AllocError> {
        let Backing { source, meter, .. } = backing;
        let len = Self::cells_for(layout.size()).ok_or(AllocError::Exhausted)?;
        if let Some(start) = self.bump(len, layout.align(), meter) {
            return Ok(Served::whole(self.address(start), Self::bytes(len), Part::Area));
        }
        let start = self.allocate_block(len, layout.align(), source, meter)?;
        Ok(Served::whole(self.address(start), Self::bytes(len), Part::Fit))
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
        let bytes = Change { old: Self::bytes(found.len), new: Self::bytes(len) };
        Some(Resized::whole(block, bytes))
    }

    /// A block that cannot grow in place grows down into a free neighbour.
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
        let bytes = Change { old: Self::bytes(found.len), new: Self::bytes(len) };
        Some(Resized::whole(self.address(start), bytes))
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
