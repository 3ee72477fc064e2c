//! FIRST-FIT: places each block at the lowest possible address (Brent §2.6), in O(log n) (his
//! reference 5).
//!
//! It serves blocks of any size. Below the paged strategies it serves the pages themselves and the
//! blocks above FFCROSSOVER.

// `heap`: the structure, with a picture of it. `tree`: the tree over its segments. `blocks`: finds
// blocks by the bits. `grow`: takes more memory. `audit`: spans and invariants.

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
use crate::tally::Change;

/// FIRST-FIT over a source: takes the lowest free block that fits, in O(log n).
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
/// Blocks are multiples of a *granule* and have no header: blocks of the same size are adjacent,
/// even across OS page boundaries (§2.6). The bookkeeping is stored apart from them: two bits for
/// each granule, and 16 bytes for each segment of, by default, 64 granules.
///
/// Time: O(log n), with n the number of segments, plus the free blocks of one segment.
pub type FirstFit<S, M = ()> = Heap<SegmentHeap, S, M>;

impl<S: Source, M: Meter> Heap<SegmentHeap, S, M> {
    /// Returns FIRST-FIT over `source`, with granules of `granule` bytes; the heap grows by
    /// multiples of `growth` bytes. The granule is the smallest block, and every block is aligned
    /// to it.
    ///
    /// # Panics
    /// Unless both are powers of two and `growth` is at least 64 and less than 2³¹ granules, or if
    /// 64 granules have more than `usize::MAX` bytes. In a `const` this is a compile-time error.
    #[must_use]
    pub const fn new(granule: usize, growth: usize, source: S, meter: M) -> Self {
        Self::with_segments(granule, 64 * granule, growth, source, meter)
    }

    /// Returns FIRST-FIT as [`new`](Self::new) does, with segments of `segment` bytes; Brent §7.2
    /// uses the page size. The free blocks of a segment are searched one by one, so larger segments
    /// take more time and less bookkeeping.
    ///
    /// # Panics
    /// Unless all are powers of two, `segment` is at least 64 granules, and `growth` is at least a
    /// segment and less than 2³¹ granules.
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

    /// Makes the meter count every block of a segment that a search passes, in use or free. Brent's
    /// implementation looks at all of them, since each has a control word in front; this one looks
    /// only at free blocks.
    #[must_use]
    pub const fn counting_in_use(mut self) -> Self {
        self.engine.counts_in_use = true;
        self
    }
}

impl SegmentHeap {
    /// Takes a block from the heap's existing memory; returns it and its length in bytes.
    pub(crate) fn take_known<M: Meter>(
        &mut self,
        layout: Layout,
        meter: &M,
    ) -> Option<(NonNull<u8>, usize)> {
        let len = self.granules_for(layout.size())?;
        let block = self.allocate_known(len, layout.align(), meter)?;
        Some(self.taken(block))
    }

    /// Takes a block as [`take_known`](Self::take_known) does after that failed, by growing the
    /// heap.
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

    /// Frees a block in use that was requested with `requested` bytes; returns its length in bytes.
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

    /// Resizes a block in place, as the requested bytes change by `sizes`. Returns the change of
    /// its length.
    pub(crate) fn resize<M: Meter>(
        &mut self,
        block: NonNull<u8>,
        sizes: Change,
        meter: &M,
    ) -> Option<Change> {
        let len = self.granules_for(sizes.new)?;
        let done = self.resize_block(self.granule_of(block), len, meter);
        done.then(|| Change {
            old: sizes.old.next_multiple_of(self.bytes(1)),
            new: self.bytes(len),
        })
    }

    /// Returns whether a block in use that fits `layout` starts at `block`. Any address is allowed.
    pub(crate) fn has_block(&self, block: NonNull<u8>, layout: Layout) -> bool {
        let found = self.granule_at(block.addr().get()).and_then(|start| self.block_in_use(start));
        found.is_some_and(|found| self.granules_for(layout.size()) == Some(found.len()))
    }
}

// SAFETY: blocks are disjoint parts of the source's extent, and the bookkeeping is in dedicated
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
        let sizes = Change { old: layout.size(), new: new_layout.size() };
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
