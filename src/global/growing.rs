//! A heap over memory that grows, never shrinks, and may be taken in part by others: a row of regions, each with a
//! strategy of its own, PAGEWISE.
//!
//! ```text
//!  memory  | program | region 0 | another's | region 1      | region 2                 | not there yet
//! ```
//! A region has its bookkeeping at its upper end, so it cannot be prolonged. Each further one is half as long as all
//! before it together, or as long as the block for which it is needed. Regions come in the order of their addresses, so
//! whose a block is takes a search among them from the last one on.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::engine::Heap;
use crate::error::{AllocError, Fault, Freed};
use crate::pages::{Config, PageHeap};
use crate::source::Region;
use crate::strategy::{Span, Strategy, Usage, empty_block, move_to_another};
use crate::walk;

/// Where regions come from.
///
/// # Safety
/// What is answered is memory that nobody else uses, ever, and lies above all that was answered before.
pub(super) unsafe trait Grow {
    /// At least `len` bytes, at a multiple of 4,096: where they start, and how many there are. `None` if there are no
    /// more.
    fn grow(&mut self, len: usize) -> Option<(*mut u8, usize)>;
}

/// Bytes of the first regions.
const LEAST: usize = 1 << 20;

/// The most bytes of a region: a pointer's distances are signed.
const MOST: usize = 1 << 30;

/// The most regions; with fewer there are 4 GiB.
const REGIONS: usize = 40;

/// Bytes of bookkeeping that a fresh region needs, beside a sixty-fourth.
const BOOKKEEPING: usize = 64 << 10;

/// The heap. Invariants: the first `count` of the regions are there, in the order of their addresses; each starts with
/// its strategy, which has the rest and is reached through here alone. `last`, the one that served last, is one of them
/// if there are any.
#[derive(Debug)]
pub(super) struct Growing<G> {
    more: G,
    regions: [Option<NonNull<PageHeap<Region>>>; REGIONS],
    count: usize,
    last: usize,
}

// SAFETY: the regions are the heap's own.
unsafe impl<G: Send> Send for Growing<G> {}

impl<G: Grow> Growing<G> {
    /// A heap without memory.
    pub(super) const fn new(more: G) -> Self {
        Self { more, regions: [None; REGIONS], count: 0, last: 0 }
    }

    /// Number of regions.
    pub(super) fn regions(&self) -> usize {
        self.count
    }

    fn heaps(&self) -> impl Iterator<Item = &PageHeap<Region>> {
        // SAFETY: by the invariant a strategy lies there, which nobody changes while this is borrowed.
        self.regions[..self.count].iter().flatten().map(|heap| unsafe { heap.as_ref() })
    }

    #[inline(always)]
    fn heap(&mut self, region: usize) -> Option<&mut PageHeap<Region>> {
        // SAFETY: by the invariant a strategy lies there, which is reached through this alone.
        self.regions[region].map(|mut heap| unsafe { heap.as_mut() })
    }

    /// The region that would have a block at this address, if any has.
    #[inline(always)]
    fn region_of(&self, block: NonNull<u8>) -> Option<usize> {
        let starts_below = |heap: &Option<NonNull<_>>| {
            heap.is_some_and(|heap: NonNull<PageHeap<Region>>| heap.addr() <= block.addr())
        };
        self.regions[..self.count].iter().rposition(starts_below)
    }

    /// The region that allocated this block in use.
    ///
    /// # Panics
    /// If none did, as far as its address tells.
    fn owner(&mut self, block: NonNull<u8>) -> &mut PageHeap<Region> {
        let owner = self.region_of(block).and_then(|region| self.heap(region));
        owner.unwrap_or_else(|| panic!("the block at {block:?} is in no region"))
    }

    /// Has the regions that are there serve a request.
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

    /// Takes a further region, which has room for this layout.
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
        // SAFETY: the memory is nobody else's, aligned to more than a strategy needs, and longer, by the promise of
        // `Grow`.
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

// SAFETY: blocks are those of heaps whose regions are disjoint; a block goes back to the one in whose region it lies.
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
            // SAFETY: the caller's promise; the block is this heap's.
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
        // SAFETY: as `deallocate`.
        unsafe { self.owner(block).resize_in_place(block, layout, new_size) }
    }

    /// The owner knows best how to move a block; where it has no memory, the others may.
    unsafe fn relocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() > 0 {
            // SAFETY: as `deallocate`.
            let moved = unsafe { self.owner(block).relocate(block, layout, new_size) };
            if moved.is_ok() {
                return moved;
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
        if layout.size() == 0 {
            return None;
        }
        // SAFETY: as `deallocate`.
        unsafe { self.owner(block).keep(block, layout, new_layout) }
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout) -> bool {
        self.heaps().any(|heap| heap.has_block(block, layout))
    }

    fn owns(&self, block: NonNull<u8>) -> bool {
        self.heaps().any(|heap| heap.owns(block))
    }

    unsafe fn try_free(&mut self, block: NonNull<u8>, layout: Layout) -> Freed {
        let owner = self.region_of(block).and_then(|region| self.heap(region));
        // SAFETY: passed on.
        owner.map_or(Freed::Unallocated, |heap| unsafe { heap.try_free(block, layout) })
    }

    /// The most that was held and requested are sums of the regions' own, which they had at different times.
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
