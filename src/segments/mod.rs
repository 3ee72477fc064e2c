//! FIRST-FIT: each block at the lowest possible address (Brent §2.6), in O(log n) (his reference 5).
//!
//! The strategy for blocks of any size; below the paged strategies it serves what exceeds
//! FFCROSSOVER and the pages themselves.

// `heap`: the structure, with a picture of it; `tree`, over its segments; `blocks`, as its bits tell
// them; `grow`, more memory; `audit`, spans and invariants.

mod audit;
mod blocks;
mod grow;
mod heap;
mod tree;

use core::alloc::Layout;
use core::ptr::NonNull;

use self::heap::Extent;
pub use self::heap::SegmentHeap;
use crate::engine::{Backing, Engine, Heap, Resized, Served};
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::source::Source;
use crate::strategy::Span;

/// FIRST-FIT over a source: the lowest block that fits, in O(log n).
///
/// ```
/// use core::alloc::Layout;
/// use pagewise::segments::FirstFit;
/// use pagewise::{Reserved, Strategy};
///
/// // Blocks in multiples of 16 bytes; the heap grows by multiples of 64 KiB.
/// let mut heap = FirstFit::new(16, 1 << 16, Reserved::new(1 << 30), ());
/// let block = heap.allocate(Layout::new::<[u64; 5]>())?;
/// assert_eq!(block.len(), 48, "no header: 40 bytes, rounded up");
/// # Ok::<(), pagewise::AllocError>(())
/// ```
///
/// Blocks are multiples of a *granule* and have no header: equal-sized blocks lie side by side,
/// across OS page boundaries if need be (§2.6). Two bits for each granule and 16 bytes for each
/// segment, by default 64 granules, lie apart from them.
///
/// Time: O(log n) plus the free blocks of one segment, n the number of segments.
pub type FirstFit<S, M = ()> = Heap<SegmentHeap, S, M>;

impl<S: Source, M: Meter> Heap<SegmentHeap, S, M> {
    /// FIRST-FIT over `source`, with granules of this size in bytes, and growing by multiples of
    /// `growth` bytes. The granule is the least block, and the alignment blocks have for free.
    ///
    /// # Panics
    /// Unless both are powers of two and `growth` is at least 64 granules, and fewer than 2³¹; in a
    /// `const`, at compile time.
    #[must_use]
    pub const fn new(granule: usize, growth: usize, source: S, meter: M) -> Self {
        Self::with_segments(granule, 64 * granule, growth, source, meter)
    }

    /// As [`new`](Self::new), with segments of this size in bytes; Brent §7.2 takes the page size.
    /// A segment's free blocks are searched one by one, so larger segments cost time and save
    /// bookkeeping.
    ///
    /// # Panics
    /// Unless all are powers of two, `segment` at least 64 granules and `growth` at least a
    /// segment and fewer than 2³¹ granules.
    #[must_use]
    pub const fn with_segments(
        granule: usize,
        segment: usize,
        growth: usize,
        source: S,
        meter: M,
    ) -> Self {
        Self::over(SegmentHeap::new(granule, segment, growth), source, meter)
    }

    /// The same, whose meter hears of every block of a segment that is searched, in use or free: what
    /// Brent's implementation looks at, whose control words lie before all blocks. Ours looks at the free
    /// ones alone.
    #[must_use]
    pub const fn counting_in_use(mut self) -> Self {
        self.engine.counts_in_use = true;
        self
    }
}

impl SegmentHeap {
    /// A block for a layout, and its length in bytes, of the memory the heap has.
    pub(crate) fn take_known<M: Meter>(
        &mut self,
        layout: Layout,
        meter: &M,
    ) -> Option<(NonNull<u8>, usize)> {
        let len = self.granules_for(layout.size())?;
        let block = self.allocate_known(len, layout.align(), meter)?;
        Some(self.taken(block))
    }

    /// As [`take_known`](Self::take_known), where that finds none: with more memory.
    pub(crate) fn take_more<S: Source, M: Meter>(
        &mut self,
        layout: Layout,
        source: &mut S,
        meter: &M,
    ) -> Result<(NonNull<u8>, usize), AllocError> {
        let len = self.granules_for(layout.size()).ok_or(AllocError::Exhausted)?;
        let block = self.allocate_more(len, layout.align(), source, meter)?;
        Ok(self.taken(block))
    }

    fn taken(&self, block: Extent) -> (NonNull<u8>, usize) {
        (self.address(block.start), self.bytes(block.len()))
    }

    /// Frees a block in use that was requested with this size; its length in bytes.
    pub(crate) fn free<M: Meter>(
        &mut self,
        block: NonNull<u8>,
        requested: usize,
        meter: &M,
    ) -> usize {
        let start = self.granule_of(block);
        debug_assert!(
            self.block_in_use(start).map(Extent::len) == self.granules_for(requested),
            "a freed block is in use"
        );
        self.release(start, meter);
        requested.next_multiple_of(self.bytes(1))
    }

    /// Resizes a block in place that was requested with the first size, to hold the second; its
    /// lengths before and after, in bytes.
    pub(crate) fn resize<M: Meter>(
        &mut self,
        block: NonNull<u8>,
        (size, new_size): (usize, usize),
        meter: &M,
    ) -> Option<(usize, usize)> {
        let len = self.granules_for(new_size)?;
        let done = self.resize_block(self.granule_of(block), len, meter);
        done.then(|| (size.next_multiple_of(self.bytes(1)), self.bytes(len)))
    }

    /// Whether a block in use starts at any address that could be known by a layout.
    pub(crate) fn has_block(&self, block: NonNull<u8>, layout: Layout) -> bool {
        let found = self.granule_at(block.addr().get()).and_then(|start| self.block_in_use(start));
        found.is_some_and(|found| self.granules_for(layout.size()) == Some(found.len()))
    }
}

// SAFETY: blocks are disjoint parts of the source's extent; the bookkeeping lies in the dedicated
// memory. Both stay in place when the engine moves.
unsafe impl<S: Source, M: Meter> Engine<S, M> for SegmentHeap {
    fn take(&mut self, layout: Layout, backing: &mut Backing<S, M>) -> Result<Served, AllocError> {
        let Backing { source, meter, .. } = backing;
        let (block, bytes) = match self.take_known(layout, meter) {
            Some(taken) => taken,
            None => self.take_more(layout, source, meter)?,
        };
        Ok(Served::whole(block, bytes, Part::Fit))
    }

    unsafe fn free(heap: &mut Heap<Self, S, M>, block: NonNull<u8>, layout: Layout) {
        let Heap { engine, backing } = heap;
        let bytes = engine.free(block, layout.size(), &backing.meter);
        backing.freed(layout.size(), bytes, Part::Fit);
    }

    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        let sizes = (layout.size(), new_layout.size());
        let bytes = self.resize(block, sizes, &backing.meter)?;
        Some(Resized::whole(block, bytes))
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout, _: &Backing<S, M>) -> bool {
        self.has_block(block, layout)
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.walk_blocks(visit);
    }

    fn audit(&self) -> Result<(), Fault> {
        self.audit_blocks()
    }
}
