//! The heap of FIRST-FIT: blocks of any size, lowest address first, in O(log n).
//!
//! It follows Brent's own implementation (reference 5 in Brent 1984). The heap is divided into
//! *segments*; each segment knows the largest free block that starts in it, and a tree over the
//! segments finds the lowest one with a block that is large enough. Within that segment the free
//! blocks are looked at one by one.
//!
//! One point differs. Brent has a control word in front of each block; here the control words are
//! bits stored apart from the heap. So pages of p bytes aligned to p are adjacent without gaps, and
//! no page contains bookkeeping. Memory is counted in *granules*, and each granule has two bits:
//!
//! ```text
//! granule   0   1   2   3   4   5   6   7 | 8   9  10  11  12  13  14  15 |16 …
//! block     [ in use ][ free     ][ in use, across the segment's end  ][ …
//! starts    1   0   0   1   0   0   0   1 | 0   0   0   0   0   0   1   0
//! free      0   0   0   1   0   0   0   0 | 0   0   0   0   0   0   0   0
//! segment 0: end = 14 (of its last block)  | segment 1: lead = 7 (its first granule's block)
//! ```
//! A block ends at the next start. If it is the last one to start in its segment, it ends at the
//! segment's `end`. The block before a start is found in the same way, or, across segments, by
//! `lead`. So finding a block's size and neighbours takes O(granules in a segment / 64), whatever
//! the blocks' sizes. In a segment of 64 granules, the default, that is one word.
//!
//! `blocks.rs` interprets the bits, and `audit.rs` checks the invariants.

use core::ptr::NonNull;

use super::tree::Tree;
use crate::error::AllocError;
use crate::meter::Meter;
use crate::source::Source;
use crate::strategy::{Span, SpanKind};
use crate::words::{Plain, Table};

#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// Start of the block that covers the segment's first granules, if it starts in an earlier
    /// segment and ends in this one.
    pub(super) lead: u32,
    /// End of the last block that starts in this segment, if it reaches the segment's end.
    pub(super) end: u32,
}

// SAFETY: every bit pattern is a valid value of the integers.
unsafe impl Plain for Segment {}

/// A block of the heap, in granules from the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Extent {
    pub(crate) fn len(self) -> u32 {
        self.end - self.start
    }
}

/// The engine of [`FirstFit`](super::FirstFit). Invariants:
/// - Blocks tile the heap: granule 0 is a start, and the last block ends at `granules`.
/// - No two neighbouring blocks are both free.
/// - `free` bits are set only at starts.
/// - `segments` describes the blocks that cross a segment's end as in the picture above.
/// - The tree's leaves are the largest free blocks that start in their segments.
#[derive(Debug)]
pub struct SegmentHeap {
    pub(super) origin: *mut u8,
    pub(super) granules: u32,
    granule_shift: u32,
    /// log₂ of the number of granules in a segment.
    pub(super) segment_shift: u32,
    /// log₂ of the number of granules by which the heap grows; the origin is aligned to that.
    pub(super) growth_shift: u32,
    /// Each segment's record, followed by its `starts` bits and its `free` bits.
    pub(super) segments: Table<Segment>,
    pub(super) tree: Tree,
    /// Whether the meter also counts the blocks in use that a search of a segment passes.
    pub(super) counts_in_use: bool,
}

/// The kinds of a segment's bits.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Starts,
    Free,
}

// SAFETY: the heap's memory belongs to the source kept beside it, and neither is tied to a thread.
unsafe impl Send for SegmentHeap {}

impl SegmentHeap {
    /// Returns an empty heap with granules and segments of these sizes in bytes, which grows by
    /// multiples of `growth` bytes and aligns its origin to that. All are powers of two, in
    /// ascending order; a segment has at least 64 granules.
    pub(crate) const fn new(granule: usize, segment: usize, growth: usize) -> Self {
        assert!(granule.is_power_of_two() && segment.is_power_of_two());
        assert!(growth.is_power_of_two() && segment <= growth && granule <= segment / 64);
        assert!(growth / granule < 1 << 31);
        let granule_shift = granule.trailing_zeros();
        let segment_shift = segment.trailing_zeros() - granule_shift;
        Self {
            origin: core::ptr::null_mut(),
            granules: 0,
            granule_shift,
            segment_shift,
            growth_shift: growth.trailing_zeros() - granule_shift,
            segments: Table::with_tail(2 << (segment_shift - 6)),
            tree: Tree::new(),
            counts_in_use: false,
        }
    }

    /// Returns the number of granules for `bytes` bytes; `None` if no heap is that large.
    pub(crate) fn granules_for(&self, bytes: usize) -> Option<u32> {
        let granules = bytes.div_ceil(1 << self.granule_shift);
        u32::try_from(granules).ok().filter(|&granules| granules < u32::MAX / 2)
    }

    /// Returns the number of bytes of `granules` granules.
    pub(crate) fn bytes(&self, granules: u32) -> usize {
        (granules as usize) << self.granule_shift
    }

    /// Returns the address of a granule.
    pub(crate) fn address(&self, granule: u32) -> NonNull<u8> {
        debug_assert!(granule <= self.granules);
        // SAFETY: the granule is in the heap, whose memory starts at `origin`.
        unsafe { NonNull::new_unchecked(self.origin.add(self.bytes(granule))) }
    }

    /// Returns the start of the heap; null while it is empty.
    #[inline(always)]
    pub(crate) fn origin(&self) -> *mut u8 {
        self.origin
    }

    /// Returns the heap's granule that starts at this address, if one does.
    pub(crate) fn granule_at(&self, address: usize) -> Option<u32> {
        let offset = address.checked_sub(self.origin.addr())?;
        let granule = offset >> self.granule_shift;
        (granule < self.granules as usize && offset == granule << self.granule_shift)
            .then_some(granule as u32)
    }

    /// Returns the granule at which `block` starts; a block must start there.
    #[inline(always)]
    pub(crate) fn granule_of(&self, block: NonNull<u8>) -> u32 {
        (block.addr().get().wrapping_sub(self.origin.addr()) >> self.granule_shift) as u32
    }

    /// Returns the block in use that starts at this granule, if one does. O(granules in a segment /
    /// 64).
    pub(crate) fn block_in_use(&self, start: u32) -> Option<Extent> {
        let in_use = self.is(Kind::Starts, start) && !self.is(Kind::Free, start);
        in_use.then(|| self.block(start))
    }

    /// Allocates the lowest free block that contains `len` granules at a multiple of `align` bytes.
    /// O(log n), plus the free blocks of one segment. With an alignment above the granule's, the
    /// search tries only the lowest few segments; then it takes the lowest block that is large
    /// enough at any address; then, if there is no other memory, it tries all segments.
    pub(crate) fn allocate<S: Source, M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        source: &mut S,
        meter: &M,
    ) -> Result<Extent, AllocError> {
        match self.allocate_known(len, align, meter) {
            Some(block) => Ok(block),
            None => self.allocate_more(len, align, source, meter),
        }
    }

    /// Does the same as [`allocate`](Self::allocate), without growing the heap.
    pub(crate) fn allocate_known<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        meter: &M,
    ) -> Option<Extent> {
        let (block, start) = self.find(len, align, meter)?;
        Some(self.carve(block, start, len, meter))
    }

    /// Does the same as [`allocate`](Self::allocate) when no free block was found: grows the heap.
    /// If that fails and the request is aligned, looks at every segment with a block that is large
    /// enough.
    pub(crate) fn allocate_more<S: Source, M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        source: &mut S,
        meter: &M,
    ) -> Result<Extent, AllocError> {
        let grown = self.extend(len, align, source, meter);
        let (block, start) =
            grown.or_else(|exhausted| self.find_last(len, align, meter).ok_or(exhausted))?;
        Ok(self.carve(block, start, len, meter))
    }

    /// Frees the block in use that starts at `start`, and joins it with free neighbours. O(log n).
    pub(crate) fn release<M: Meter>(&mut self, start: u32, meter: &M) {
        debug_assert!(self.block_in_use(start).is_some());
        let mut block = self.block(start);
        if block.end < self.granules && self.is(Kind::Free, block.end) {
            let next = self.block(block.end);
            self.clear(Kind::Free, next.start);
            self.clear(Kind::Starts, next.start);
            block.end = next.end;
            if self.segment_of(next.start) != self.segment_of(start) {
                self.shrunk(self.segment_of(next.start), next.len(), 0, meter);
            }
        }
        if let Some(before) = self.block_before(start).filter(|b| self.is(Kind::Free, b.start)) {
            self.clear(Kind::Starts, start);
            block.start = before.start;
            if self.segment_of(before.start) != self.segment_of(start) {
                self.shrunk(self.segment_of(start), u32::MAX, 0, meter);
            }
        }
        self.set(block);
        self.mark(Kind::Free, block.start);
        // The block is larger than each of its parts was.
        self.grown(block, meter);
    }

    /// Changes the length of the block in use that starts at `start` to `len` granules in place.
    /// Returns whether that was possible: the block was long enough, or enough free memory followed
    /// it. O(log n).
    pub(crate) fn resize_block<M: Meter>(&mut self, start: u32, len: u32, meter: &M) -> bool {
        let block = self.block(start);
        if len == block.len() {
            return true;
        }
        let follower = (block.end < self.granules && self.is(Kind::Free, block.end))
            .then(|| self.block(block.end));
        let end = follower.map_or(block.end, |free| free.end);
        if end - start < len {
            return false;
        }
        if let Some(free) = follower {
            self.clear(Kind::Free, free.start);
            self.clear(Kind::Starts, free.start);
        }
        self.set(Extent { start, end: start + len });
        let rest = Extent { start: start + len, end };
        self.put(rest);
        match follower {
            Some(free) => self.replaced(free, rest, meter),
            None => self.grown(rest, meter),
        }
        true
    }

    /// Returns a free block for `len` granules at a multiple of `align` bytes, and where in it they
    /// start.
    fn find<M: Meter>(&self, len: u32, align: usize, meter: &M) -> Option<(Extent, u32)> {
        /// The number of segments tried before searching for a block that fits the request at any
        /// address.
        const ALIGNED_ATTEMPTS: usize = 8;
        let mut from = 0;
        for _ in 0..ALIGNED_ATTEMPTS {
            let segment = self.tree.find(len, from, meter)?;
            if let Some(found) = self.find_in(segment, len, align, meter) {
                return Some(found);
            }
            from = segment + 1;
        }
        let certain = len.checked_add((align >> self.granule_shift).try_into().ok()?)? - 1;
        let segment = self.tree.find(certain, 0, meter)?;
        self.find_in(segment, len, align, meter)
    }

    /// Like [`find`](Self::find), which overlooks only blocks for aligned requests, but looks at
    /// every segment with a block that is large enough.
    #[cold]
    fn find_last<M: Meter>(&self, len: u32, align: usize, meter: &M) -> Option<(Extent, u32)> {
        if align <= self.bytes(1) {
            return None;
        }
        let mut from = 0;
        loop {
            let segment = self.tree.find(len, from, meter)?;
            if let Some(found) = self.find_in(segment, len, align, meter) {
                return Some(found);
            }
            from = segment + 1;
        }
    }

    fn find_in<M: Meter>(
        &self,
        segment: usize,
        len: u32,
        align: usize,
        meter: &M,
    ) -> Option<(Extent, u32)> {
        let found = self.free_blocks(segment).find_map(|block| {
            self.look_at(segment, meter);
            let start = self.aligned(block.start, align)?;
            (start.checked_add(len)? <= block.end).then_some((block, start))
        });
        self.pass(segment, found.map_or(u32::MAX, |(block, _)| block.start), meter);
        found
    }

    /// Returns the first granule from `granule` on whose address is a multiple of `align`.
    pub(super) fn aligned(&self, granule: u32, align: usize) -> Option<u32> {
        let address = self.origin.addr() + self.bytes(granule);
        let gap = address.checked_next_multiple_of(align)? - address;
        granule.checked_add(u32::try_from(gap >> self.granule_shift).ok()?)
    }

    /// Takes `len` granules at `start` out of a free block that contains them.
    fn carve<M: Meter>(&mut self, block: Extent, start: u32, len: u32, meter: &M) -> Extent {
        let used = Extent { start, end: start + len };
        let before = Extent { start: block.start, end: start };
        let behind = Extent { start: used.end, end: block.end };
        self.clear(Kind::Free, block.start);
        self.set(used);
        self.put(before);
        self.put(behind);
        self.grown(behind, meter);
        self.replaced(block, before, meter);
        used
    }

    /// Updates the tree after the bits of a free block were set. Does nothing if the block is
    /// empty.
    pub(super) fn grown<M: Meter>(&mut self, block: Extent, meter: &M) {
        let segment = self.segment_of(block.start);
        if block.len() > 0 && block.len() > self.tree.largest(segment) {
            self.tree.set(segment, block.len(), meter);
        }
    }

    /// Updates the tree after a free block of `old` granules in a segment was replaced by a smaller
    /// one of `new` granules. The bits have been updated already.
    fn shrunk<M: Meter>(&mut self, segment: usize, old: u32, new: u32, meter: &M) {
        let largest = self.tree.largest(segment);
        if old >= largest && new < largest {
            meter.touch(self.segments.record(segment));
            let largest = self
                .free_blocks(segment)
                .inspect(|_| self.look_at(segment, meter))
                .map(Extent::len);
            let largest = largest.max().unwrap_or(0);
            self.pass(segment, u32::MAX, meter);
            self.tree.set(segment, largest, meter);
        }
    }

    /// Updates the tree after a free block was replaced by another, which may be empty.
    fn replaced<M: Meter>(&mut self, old: Extent, new: Extent, meter: &M) {
        let segment = self.segment_of(old.start);
        let stays = self.segment_of(new.start) == segment;
        self.grown(new, meter);
        self.shrunk(segment, old.len(), if stays { new.len() } else { 0 }, meter);
    }

    /// Tells the meter that a block of a segment was looked at.
    fn look_at<M: Meter>(&self, segment: usize, meter: &M) {
        meter.visit(self.segments.record(segment));
    }

    /// Tells the meter about the blocks in use of a segment that start below `end`, if it counts
    /// these.
    #[inline(always)]
    fn pass<M: Meter>(&self, segment: usize, end: u32, meter: &M) {
        if self.counts_in_use {
            let (first, behind) = self.range(segment);
            let passed = first..behind.min(end).min(self.granules);
            let in_use =
                |granule: &u32| self.is(Kind::Starts, *granule) && !self.is(Kind::Free, *granule);
            passed.filter(in_use).for_each(|_| self.look_at(segment, meter));
        }
    }

    /// Returns every block in address order, and whether it is free.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (Extent, bool)> {
        let mut start = 0;
        core::iter::from_fn(move || {
            (start < self.granules).then(|| {
                let block = self.block(start);
                let free = self.is(Kind::Free, start);
                start = block.end;
                (block, free)
            })
        })
    }

    /// Calls `visit` for every block in address order.
    pub(crate) fn walk_blocks(&self, visit: &mut dyn FnMut(Span)) {
        for (block, free) in self.blocks() {
            let kind = if free { SpanKind::Free } else { SpanKind::Block };
            let start = self.address(block.start).addr().get();
            visit(Span { start, len: self.bytes(block.len()), kind });
        }
    }
}
