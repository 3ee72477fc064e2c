//! FIRST-FIT: each block at the lowest possible address (Brent §2.6), in O(log n) (his reference 5).
//!
//! The strategy for blocks of any size; below the paged strategies it serves what exceeds
//! FFCROSSOVER and the pages themselves. Its structure is told in `heap/mod.rs`.

pub(crate) mod heap;
mod tree;

use core::alloc::Layout;
use core::ptr::NonNull;

pub use self::heap::SegmentHeap;
use crate::engine::{Backing, Engine, Heap, Resized, Served};
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::source::Source;
use crate::strategy::{Span, SpanKind};

/// FIRST-FIT over a source.
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
}

// SAFETY: blocks are disjoint parts of the source's extent; the bookkeeping lies in the dedicated
// memory. Both stay in place when the engine moves.
unsafe impl<S: Source, M: Meter> Engine<S, M> for SegmentHeap {
    fn take(&mut self, layout: Layout, backing: &mut Backing<S, M>) -> Result<Served, AllocError> {
        let len = self.granules_for(layout.size()).ok_or(AllocError::Exhausted)?;
        let block = self.allocate(len, layout.align(), &mut backing.source, &backing.meter)?;
        let bytes = self.bytes(len);
        let contents = NonNull::slice_from_raw_parts(self.address(block.start), bytes);
        Ok(Served { contents, bytes, part: Part::Fit })
    }

    unsafe fn free(heap: &mut Heap<Self, S, M>, block: NonNull<u8>, layout: Layout) {
        let Heap { engine, backing } = heap;
        let start = (engine.offset(block) >> engine.bytes(1).trailing_zeros()) as u32;
        let bytes = layout.size().next_multiple_of(engine.bytes(1));
        engine.release(start, &backing.meter);
        backing.freed(layout.size(), bytes, Part::Fit);
    }

    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        let start = self.granule_at(block.addr().get())?;
        let len = self.granules_for(new_layout.size())?;
        if !self.resize_block(start, len, &backing.meter) {
            return None;
        }
        let bytes = (layout.size().next_multiple_of(self.bytes(1)), self.bytes(len));
        Some(Resized { contents: NonNull::slice_from_raw_parts(block, bytes.1), bytes })
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout, _: &Backing<S, M>) -> bool {
        let granules = self.granules_for(layout.size());
        (self.granule_at(block.addr().get()))
            .and_then(|granule| self.block_in_use(granule))
            .is_some_and(|found| granules == Some(found.len()))
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        for (block, free) in self.blocks() {
            visit(self.span(block, if free { SpanKind::Free } else { SpanKind::Block }));
        }
    }

    fn audit(&self) -> Result<(), Fault> {
        self.audit_blocks()
    }
}
