//! Takes more memory: the heap grows at its upper end, and its map with it.

use super::heap::{BitHeap, FIRST, GRANULE, GranuleRun};
use super::map::Map;
use crate::error::AllocError;
use crate::meter::Meter;
use crate::source::Source;

impl BitHeap {
    /// Returns a free run that contains `len` granules at a multiple of `align` bytes, and where in
    /// it they start. Grows the heap; if that fails, accepts a run that leaves a single, unusable
    /// granule over.
    #[cold]
    #[inline(never)]
    pub(super) fn find_or_grow<S: Source, M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        source: &mut S,
        meter: &M,
    ) -> Result<(GranuleRun, u32), AllocError> {
        let grown = self.grow(len, align, source, meter);
        grown.or_else(|error| self.find(len, align, false, meter).ok_or(error))
    }

    /// Grows the heap, and returns a free run at its end that contains `len` granules at a multiple
    /// of `align` bytes, and where they start.
    fn grow<S: Source, M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        source: &mut S,
        meter: &M,
    ) -> Result<(GranuleRun, u32), AllocError> {
        if self.end == 0 {
            let origin = source.extend(0, GRANULE)?.as_ptr();
            self.base = origin.wrapping_sub(FIRST as usize * GRANULE);
            // The map has no words yet, so there is no free memory below.
            return self.grow_from(GranuleRun { start: FIRST, len: 0 }, len, align, source, meter);
        }
        let tail = self.free_below(self.end);
        self.grow_from(tail, len, align, source, meter)
    }

    /// Does the same as [`grow`](Self::grow), for a heap that ends with the free run `tail`.
    fn grow_from<S: Source, M: Meter>(
        &mut self,
        tail: GranuleRun,
        len: u32,
        align: usize,
        source: &mut S,
        meter: &M,
    ) -> Result<(GranuleRun, u32), AllocError> {
        let start = self.aligned(tail.start, align);
        let needed = start.checked_add(len).filter(|&end| end as usize <= Self::MOST);
        let needed = needed.ok_or(AllocError::Exhausted)?;
        // Grow to the end of what the map's words cover; if there is no memory for that, by just
        // what is needed.
        let whole = Map::end_with(Map::words_for(needed)).min(Self::MOST as u32);
        if self.append(tail.end(), whole, source).is_err() {
            self.append(tail.end(), needed, source)?;
        }
        if tail.end() < self.end {
            self.release(GranuleRun::between(tail.end(), self.end), meter);
        }
        Ok((self.free_below(self.end), start))
    }

    /// Grows the heap so that the free run above its last block has `len` granules. Returns that
    /// run; `None` if `above`, the run above a block, does not end where the heap does, or there is
    /// no memory.
    #[cold]
    #[inline(never)]
    pub(super) fn grow_above<S: Source, M: Meter>(
        &mut self,
        above: GranuleRun,
        len: u32,
        source: &mut S,
        meter: &M,
    ) -> Option<GranuleRun> {
        let is_last = above.end() == self.end;
        let grown = is_last.then(|| self.grow_from(above, len, GRANULE, source, meter));
        grown?.ok().map(|(above, _)| above)
    }

    /// Takes memory from the source up to granule `end`: granules, and words of the map for them.
    fn append<S: Source>(&mut self, old: u32, end: u32, source: &mut S) -> Result<(), AllocError> {
        if end <= old {
            return Ok(());
        }
        let bytes = (end - old) as usize * GRANULE;
        source.extend(bytes, GRANULE)?;
        if let Err(error) = self.append_words(Map::words_for(end), source) {
            // SAFETY: these bytes were taken just now, and nothing uses them.
            unsafe { source.retract(bytes) };
            return Err(error);
        }
        self.end = end;
        Ok(())
    }

    /// Extends the map to `words` words.
    fn append_words<S: Source>(&mut self, words: u32, source: &mut S) -> Result<(), AllocError> {
        let more = words.saturating_sub(self.map.words());
        if more == 0 {
            return Ok(());
        }
        let layout = core::alloc::Layout::array::<usize>(more as usize);
        let lowest = source.dedicate(layout.map_err(|_| AllocError::Exhausted)?)?;
        if !self.map.is_below(lowest, more) {
            return Err(AllocError::Exhausted);
        }
        // SAFETY: the source dedicated this memory just now; it is zeroed, and just below the other
        // words.
        unsafe { self.map.extend(lowest, more) };
        Ok(())
    }
}
