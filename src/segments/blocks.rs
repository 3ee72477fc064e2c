//! Finds blocks by the bits: where a block starts and ends, and which block is before it.

use super::heap::{Extent, Kind, SegmentHeap};
use crate::words::bits;

impl SegmentHeap {
    /// Returns the segment of a granule.
    pub(super) fn segment_of(&self, granule: u32) -> usize {
        (granule >> self.segment_shift) as usize
    }

    /// Returns the first granule of a segment, and of the next.
    pub(super) fn range(&self, segment: usize) -> (u32, u32) {
        ((segment << self.segment_shift) as u32, ((segment + 1) << self.segment_shift) as u32)
    }

    /// Returns the position of a granule in its segment.
    fn within(&self, granule: u32) -> usize {
        granule as usize & ((1 << self.segment_shift) - 1)
    }

    /// Returns the bits of one kind for all granules of a segment.
    pub(super) fn bits(&self, segment: usize, kind: Kind) -> &[u64] {
        let (starts, free) = self.segments.tail(segment).split_at(1 << (self.segment_shift - 6));
        match kind {
            Kind::Starts => starts,
            Kind::Free => free,
        }
    }

    /// As [`bits`](Self::bits), mutably.
    fn bits_mut(&mut self, segment: usize, kind: Kind) -> &mut [u64] {
        let (_, words) = self.segments.record_and_tail(segment);
        let (starts, free) = words.split_at_mut(1 << (self.segment_shift - 6));
        match kind {
            Kind::Starts => starts,
            Kind::Free => free,
        }
    }

    /// Returns whether a granule's bit of this kind is set.
    pub(super) fn is(&self, kind: Kind, granule: u32) -> bool {
        bits::get(self.bits(self.segment_of(granule), kind), self.within(granule))
    }

    /// Sets a granule's bit.
    pub(super) fn mark(&mut self, kind: Kind, granule: u32) {
        let index = self.within(granule);
        bits::set(self.bits_mut(self.segment_of(granule), kind), index);
    }

    /// Clears a granule's bit.
    pub(super) fn clear(&mut self, kind: Kind, granule: u32) {
        let index = self.within(granule);
        bits::clear(self.bits_mut(self.segment_of(granule), kind), index);
    }

    /// Returns the block that starts at `start`.
    pub(super) fn block(&self, start: u32) -> Extent {
        let segment = self.segment_of(start);
        let starts = self.bits(segment, Kind::Starts);
        let end = match bits::first(starts, self.within(start) + 1) {
            Some(next) => self.range(segment).0 + next as u32,
            None => self.segments.get(segment).end,
        };
        Extent { start, end }
    }

    /// Returns the block that ends at `end`, if there is one.
    pub(super) fn block_before(&self, end: u32) -> Option<Extent> {
        let last = end.checked_sub(1)?;
        let segment = self.segment_of(last);
        let start = match bits::last(self.bits(segment, Kind::Starts), self.within(last)) {
            Some(start) => self.range(segment).0 + start as u32,
            None => self.segments.get(segment).lead,
        };
        Some(Extent { start, end })
    }

    /// Returns the free blocks that start in a segment, in address order.
    pub(super) fn free_blocks(&self, segment: usize) -> impl Iterator<Item = Extent> {
        let free = self.bits(segment, Kind::Free);
        let origin = self.range(segment).0;
        bits::iter(free).map(move |start| self.block(origin + start as u32))
    }

    /// Records where a block starts and ends.
    pub(super) fn set(&mut self, block: Extent) {
        self.mark(Kind::Starts, block.start);
        let first = self.segment_of(block.start);
        let last = self.segment_of(block.end - 1);
        if block.end >= self.range(first).1 {
            self.segments.get_mut(first).end = block.end;
        }
        if last != first {
            self.segments.get_mut(last).lead = block.start;
        }
    }

    /// Records a free block, unless it is empty.
    pub(super) fn put(&mut self, block: Extent) {
        if block.len() > 0 {
            self.set(block);
            self.mark(Kind::Free, block.start);
        }
    }
}
