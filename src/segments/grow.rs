//! Takes more memory: the heap grows at its upper end, and its tables with it.

use super::heap::{Extent, Kind, SegmentHeap};
use crate::error::AllocError;
use crate::meter::Meter;
use crate::source::Source;

impl SegmentHeap {
    /// Takes memory from the source until the last block is free and can hold the request. Returns
    /// that block, and where in it the request starts.
    pub(super) fn extend<S: Source, M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        source: &mut S,
        meter: &M,
    ) -> Result<(Extent, u32), AllocError> {
        if self.granules == 0 {
            // The origin's address is known only when there is a first segment.
            self.append(1 << self.growth_shift, source, meter)?;
        }
        let last = self.block_before(self.granules).filter(|b| self.is(Kind::Free, b.start));
        let from = last.map_or(self.granules, |block| block.start);
        let start = self.aligned(from, align).ok_or(AllocError::Exhausted)?;
        let end = start
            .checked_add(len)
            .and_then(|end| end.checked_next_multiple_of(1 << self.growth_shift))
            .filter(|&end| end < u32::MAX / 2)
            .ok_or(AllocError::Exhausted)?;
        if end > self.granules {
            self.append(end - self.granules, source, meter)?;
        }
        // The last block may already be large enough, because the search gives up after some
        // attempts.
        Ok((Extent { start: from, end: self.granules }, start))
    }

    /// Appends granules as free memory. Their number is a multiple of what the heap grows by.
    fn append<S: Source, M: Meter>(
        &mut self,
        granules: u32,
        source: &mut S,
        meter: &M,
    ) -> Result<(), AllocError> {
        let (old, new) = (self.granules, self.granules + granules);
        let segments = new as usize >> self.segment_shift;
        let align = self.bytes(1 << self.growth_shift);
        let memory = source.extend(self.bytes(granules), align)?;
        let tables = (self.segments.ensure(segments, source))
            .and_then(|()| self.tree.ensure(segments, source));
        if let Err(error) = tables {
            // SAFETY: these bytes were taken just now, and nothing uses them.
            unsafe { source.retract(self.bytes(granules)) };
            return Err(error);
        }
        if old == 0 {
            self.origin = memory.as_ptr();
        }
        self.granules = new;
        for _ in old as usize >> self.segment_shift..segments {
            self.tree.push();
        }
        let mut block = Extent { start: old, end: new };
        if let Some(last) = self.block_before(old).filter(|b| self.is(Kind::Free, b.start)) {
            block.start = last.start;
        }
        self.put(block);
        self.grown(block, meter);
        Ok(())
    }
}
