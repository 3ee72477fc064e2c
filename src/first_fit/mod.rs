//! FIRST-FIT: each block at the lowest possible address (Brent §2.6), in O(log n) (his reference 5).
//!
//! The strategy for blocks of any size; below the paged strategies it serves what exceeds
//! FFCROSSOVER and the pages themselves. Its structure is told in `heap/mod.rs`.

pub(crate) mod heap;
mod tree;

use core::alloc::Layout;
use core::ptr::NonNull;

use self::heap::SegmentHeap;
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::source::{Owned, Source};
use crate::strategy::{Span, SpanKind, Strategy, Tally, Usage, empty_block, keep_aligned};
use crate::walk;

/// FIRST-FIT over a source.
///
/// Blocks are multiples of a *granule* and have no header: equal-sized blocks lie side by side,
/// across OS page boundaries if need be (§2.6). Two bits for each granule and 16 bytes for each
/// segment, by default 64 granules, lie apart from them.
///
/// Time: O(log n) plus the free blocks of one segment, n the number of segments.
#[derive(Debug)]
pub struct FirstFit<S, M = ()> {
    heap: SegmentHeap,
    source: Owned<S>,
    meter: M,
    tally: Tally,
}

impl<S: Source, M: Meter> FirstFit<S, M> {
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
        let heap = SegmentHeap::new(granule, segment, growth);
        Self { heap, source: Owned::new(source), meter, tally: Tally::new() }
    }
}

// SAFETY: the heap's blocks are disjoint parts of the source's extent; its bookkeeping lies in the
// dedicated memory. Both stay in place when the strategy moves.
unsafe impl<S: Source, M: Meter> Strategy for FirstFit<S, M> {
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(empty_block(layout));
        }
        let len = self.heap.granules_for(layout.size()).ok_or(AllocError::Exhausted)?;
        let block = self.heap.allocate(len, layout.align(), &mut self.source, &self.meter);
        self.tally.held(self.source.held());
        let block = block?;
        self.meter.served(Part::Fit);
        let bytes = self.heap.bytes(len);
        self.tally.allocated(layout.size(), bytes);
        Ok(NonNull::slice_from_raw_parts(self.heap.address(block.start), bytes))
    }

    unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        let start = (self.heap.offset(block) >> self.heap.bytes(1).trailing_zeros()) as u32;
        let bytes = layout.size().next_multiple_of(self.heap.bytes(1));
        self.heap.release(start, &self.meter);
        self.meter.served(Part::Fit);
        self.tally.freed(layout.size(), bytes);
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
        let start = self.heap.granule_at(block.addr().get())?;
        let len = self.heap.granules_for(new_size)?;
        if !self.heap.resize(start, len, &self.meter) {
            return None;
        }
        let old_bytes = layout.size().next_multiple_of(self.heap.bytes(1));
        let bytes = self.heap.bytes(len);
        self.tally.resized((layout.size(), new_size), (old_bytes, bytes));
        Some(NonNull::slice_from_raw_parts(block, bytes))
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
        let granules = self.heap.granules_for(layout.size());
        (self.heap.granule_at(block.addr().get()))
            .and_then(|granule| self.heap.block_in_use(granule))
            .is_some_and(|found| granules == Some(found.len()))
    }

    fn owns(&self, block: NonNull<u8>) -> bool {
        self.source.extent().contains(&block.addr().get())
    }

    fn usage(&self) -> Usage {
        self.tally.usage()
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        for (block, free) in self.heap.blocks() {
            visit(self.heap.span(block, if free { SpanKind::Free } else { SpanKind::Block }));
        }
        walk::dedicated(&self.source, visit);
    }

    fn audit(&self) -> Result<(), Fault> {
        self.heap.audit()?;
        walk::check(self)
    }
}
