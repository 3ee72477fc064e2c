//! A heap over memory that can grow but not shrink, and that other code may take parts of: a list
//! of regions, each managed by a PAGEWISE strategy of its own.
//!
//! ```text
//!  memory  | program | region 0 | another's | region 1      | region 2                 | not there yet
//! ```
//! A region cannot be extended, because its bookkeeping is at its upper end. Each new region is
//! half as long as all earlier ones together, or longer if the block that needs it is. Regions are
//! stored in address order; to find a block's region, the heap searches them from the last one
//! down.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::engine::Heap;
use crate::error::{AllocError, Fault, FreeResult};
use crate::pages::{Config, PageHeap};
use crate::source::Region;
use crate::strategy::{Span, Strategy, Usage, empty_block, move_to_another};
use crate::walk;

/// The source of a growing heap's regions.
///
/// # Safety
/// Implementers guarantee that the memory returned by [`grow`](Self::grow) is never used by anyone
/// else, and is above all memory returned before.
pub(super) unsafe trait Grow {
    /// Returns the start and the length of at least `len` bytes of new memory, aligned to 4,096;
    /// `None` if there is no more.
    fn grow(&mut self, len: usize) -> Option<(*mut u8, usize)>;
}

/// Length of the first regions in bytes.
const LEAST: usize = 1 << 20;

/// The most bytes of a region: pointer offsets are signed.
const MOST: usize = 1 << 30;

/// The most regions. Fewer than that already cover 4 GiB.
const REGIONS: usize = 40;

/// Bytes of bookkeeping that a new region needs, in addition to 1/64 of its length.
const BOOKKEEPING: usize = 64 << 10;

/// The heap. Invariants: the first `count` entries of `regions` are `Some`, in address order. Each
/// points to a strategy at the start of its region that manages the rest of it and is accessed only
/// through this heap. `last` is the region that served the last request; it is below `count` unless
/// there are no regions.
#[derive(Debug)]
pub(super) struct Growing<G> {
    more: G,
    regions: [Option<NonNull<PageHeap<Region>>>; REGIONS],
    count: usize,
    last: usize,
}

// SAFETY: only this heap accesses its regions, so they can move to another thread with it.
unsafe impl<G: Send> Send for Growing<G> {}

impl<G: Grow> Growing<G> {
    /// Returns a heap without memory.
    pub(super) const fn new(more: G) -> Self {
        Self { more, regions: [None; REGIONS], count: 0, last: 0 }
    }

    /// Returns the number of regions.
    pub(super) fn regions(&self) -> usize {
        self.count
    }

    fn heaps(&self) -> impl Iterator<Item = &PageHeap<Region>> {
        // SAFETY: by the invariant, a strategy is there; nothing modifies it while `self` is
        // borrowed.
        self.regions[..self.count].iter().flatten().map(|heap| unsafe { heap.as_ref() })
    }

    #[inline(always)]
    fn heap(&mut self, region: usize) -> Option<&mut PageHeap<Region>> {
        // SAFETY: by the invariant, a strategy is there, and it is accessed only through `self`.
        self.regions[region].map(|mut heap| unsafe { heap.as_mut() })
    }

    /// Returns the region that a block at this address would belong to, if there is one.
    #[inline(always)]
    fn region_of(&self, block: NonNull<u8>) -> Option<usize> {
        let starts_below = |heap: &Option<NonNull<_>>| {
            heap.is_some_and(|heap: NonNull<PageHeap<Region>>| heap.addr() <= block.addr())
        };
        self.regions[..self.count].iter().rposition(starts_below)
    }

    /// Returns the strategy of the region that `block`, a block in use, is in.
    ///
    /// # Panics
    /// If no region starts at or below the address.
    fn owner(&mut self, block: NonNull<u8>) -> &mut PageHeap<Region> {
        let owner = self.region_of(block).and_then(|region| self.heap(region));
        owner.unwrap_or_else(|| panic!("the block at {block:?} is in no region"))
    }

    /// Serves a request from the existing regions, trying each in turn.
    #[cold]
    fn serve(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        for region in 0..self.count {
            if let Some(Ok(block)) = self.heap(region).map(|heap| heap.allocate(layout)) {
                self.last = region;
                return Ok(block);
            }
        }
        Err(AllocError::Exhausted)
    }

    /// Adds a region that has room for `layout`.
    #[cold]
    fn grow(&mut self, layout: Layout) -> Result<(), AllocError> {
        let own = size_of::<PageHeap<Region>>();
        let needed = layout.size().checked_add(layout.align()).ok_or(AllocError::Exhausted)?;
        let needed = needed.saturating_add(needed / 64 + BOOKKEEPING + own);
        if self.count == REGIONS || needed > MOST {
            return Err(AllocError::Exhausted);
        }
        let held: usize = self.heaps().map(|heap| heap.backing.source.get().len()).sum();
        let wanted = (held / 2).clamp(LEAST, MOST).max(needed);
        let memory = self.more.grow(wanted).or_else(|| self.more.grow(needed));
        let (start, len) = memory.ok_or(AllocError::Exhausted)?;
        let place = NonNull::new(start.cast::<PageHeap<Region>>()).ok_or(AllocError::Exhausted)?;
        // SAFETY: by the contract of `Grow`, nothing else uses the memory. It is longer than a
        // strategy, and aligned to more than a strategy needs.
        unsafe {
            let region = Region::new(start.add(own), len - own);
            place.write(PageHeap::new(Config::arena(), region, ()));
        }
        self.last = self.count;
        self.regions[self.count] = Some(place);
        self.count += 1;
        Ok(())
    }
}

// SAFETY: the regions are disjoint, each strategy's blocks are in its own region, and a block goes
// back to the strategy whose region contains it.
unsafe impl<G: Grow> Strategy for Growing<G> {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(empty_block(layout));
        }
        if let Some(Ok(block)) = self.heap(self.last).map(|heap| heap.allocate(layout)) {
            return Ok(block);
        }
        self.serve(layout).or_else(|_| {
            self.grow(layout)?;
            self.serve(layout)
        })
    }

    #[inline]
    unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            // SAFETY: the caller guarantees that the block is in use with this layout; its owner
            // allocated it.
            unsafe { self.owner(block).deallocate(block, layout) };
        }
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
        // SAFETY: as in `deallocate`.
        unsafe { self.owner(block).resize_in_place(block, layout, new_size) }
    }

    /// Lets the owner move the block; if the owner has no memory, moves the block to another
    /// region.
    unsafe fn relocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() > 0 {
            // SAFETY: as in `deallocate`.
            let moved = unsafe { self.owner(block).relocate(block, layout, new_size) };
            if moved.is_ok() {
                return moved;
            }
        }
        // SAFETY: the caller gives the same guarantees.
        unsafe { move_to_another(self, block, layout, new_size) }
    }

    unsafe fn keep(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
    ) -> Option<NonNull<[u8]>> {
        if layout.size() == 0 {
            return None;
        }
        // SAFETY: as in `deallocate`.
        unsafe { self.owner(block).keep(block, layout, new_layout) }
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout) -> bool {
        self.heaps().any(|heap| heap.has_block(block, layout))
    }

    fn serves_around(&self, block: NonNull<u8>) -> Option<usize> {
        self.heaps().find_map(|heap| heap.serves_around(block))
    }

    unsafe fn try_free(&mut self, block: NonNull<u8>, layout: Layout) -> FreeResult {
        let owner = self.region_of(block).and_then(|region| self.heap(region));
        // SAFETY: the caller gives the same guarantees.
        owner.map_or(FreeResult::Unallocated, |heap| unsafe { heap.try_free(block, layout) })
    }

    /// Adds up the regions' figures. The maxima are sums of maxima that the regions may have
    /// reached at different times.
    fn usage(&self) -> Usage {
        self.heaps().map(Heap::usage).sum()
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.heaps().for_each(|heap| heap.walk(visit));
    }

    fn audit(&self) -> Result<(), Fault> {
        self.heaps().try_for_each(Strategy::audit)?;
        walk::check(self)
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
