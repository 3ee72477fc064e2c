//! Finds memory for a fit whose index has no block: in the wilderness, among freed blocks that are
//! not yet free memory, and in the source (Hasan & Chang 2006, §3.9).

use super::area::Area;
use super::heap::TagHeap;
use super::index::{Index, fit};
use super::reclaim::Reclaim;
use crate::error::AllocError;
use crate::meter::Meter;
use crate::source::Source;
use crate::tags::{Block, CELL};

impl<P: Index, R: Reclaim, A: Area> TagHeap<P, R, A> {
    /// Finds a block for a request that the index cannot serve: in the wilderness, then among freed
    /// blocks that are not yet free memory, then from the source.
    pub(super) fn find_or_grow<S: Source, M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        source: &mut S,
        meter: &M,
    ) -> Result<(Block, u32), AllocError> {
        if let Some(found) = self.fit_wilderness(len, align, meter) {
            return Ok(found);
        }
        if self.reclaim(false, meter)
            && let Some(found) = self.search(len, align, meter)
        {
            return Ok(found);
        }
        self.grow(len, align, source).or_else(|exhausted| {
            let mut found = None;
            if self.reclaim(true, meter) {
                found = self.search(len, align, meter);
                // The wilderness may begin lower now.
                found = found.or_else(|| self.grow(len, align, source).ok());
            }
            found.or_else(|| self.look_up_last(len, align, meter)).ok_or(exhausted)
        })
    }

    /// Returns a block of the index that [`look_up`](Self::look_up) passes over. Like `look_up`,
    /// leaves it in an index that is not by size.
    #[cold]
    fn look_up_last<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        meter: &M,
    ) -> Option<(Block, u32)> {
        let found = self.index.take_last(len, align, &mut self.cells, meter)?;
        if !P::BY_SIZE {
            self.index.insert(found.0, &mut self.cells, meter);
        }
        Some(found)
    }

    /// Returns free memory of the heap for a request, and where in it the cells start. As
    /// [`look_up`](Self::look_up), but also looks at the wilderness.
    pub(super) fn search<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        meter: &M,
    ) -> Option<(Block, u32)> {
        let found = self.look_up(len, align, meter);
        found.or_else(|| self.fit_wilderness(len, align, meter))
    }

    /// Returns the wilderness, if it is large enough, and where in it the cells start.
    fn fit_wilderness<M: Meter>(&self, len: u32, align: usize, meter: &M) -> Option<(Block, u32)> {
        let block = (self.cells.end() > 0).then(|| self.wilderness()).flatten()?;
        meter.touch(self.cells.header(block.start));
        Some((block, fit(block, len, align, &self.cells)?))
    }

    /// Grows the wilderness so that it is large enough. Returns it, and where in it the cells
    /// start.
    fn grow<S: Source>(
        &mut self,
        len: u32,
        align: usize,
        source: &mut S,
    ) -> Result<(Block, u32), AllocError> {
        if self.cells.end() == 0 {
            // The cells that an alignment needs are known only once the origin is.
            self.append(P::FIRST, source)?;
        }
        let from = self.wilderness().map_or(self.cells.end(), |block| block.start);
        let start = self.cells.aligned(from, align).ok_or(AllocError::Exhausted)?;
        self.extend(start.checked_add(len).ok_or(AllocError::Exhausted)?, source)?;
        Ok((Block { start: from, len: self.cells.end() - from }, start))
    }

    /// Takes memory from the source so that the wilderness reaches at least `end`: up to an address
    /// that is a multiple of the growth unit, or exactly to `end` if the source has no more. (So
    /// where the unit is a page, the last header lies in the last page, and touches no other
    /// memory.)
    #[cold]
    pub(super) fn extend<S: Source>(&mut self, end: u32, source: &mut S) -> Result<(), AllocError> {
        let growth = self.growth as usize * CELL;
        let beyond = self.cells.contents(end).addr() % growth;
        let missing = if beyond == 0 { 0 } else { (growth - beyond) / CELL };
        let rounded = end.saturating_add(missing as u32);
        self.append(rounded, source).or_else(|_| self.append(end, source))
    }

    /// Takes memory from the source so that the heap ends at `end`.
    fn append<S: Source>(&mut self, end: u32, source: &mut S) -> Result<(), AllocError> {
        let old = self.cells.end();
        let wilderness = (old > 0).then(|| self.wilderness()).flatten();
        // SAFETY: the source's extent is the heap's alone.
        unsafe { self.cells.append(end, source)? };
        if old == 0 {
            self.index.open(&mut self.cells);
            self.cells.put_end(true);
            return Ok(());
        }
        self.cells.put_end(false);
        let start = wilderness.map_or(old, |block| block.start);
        let prev_in_use = self.cells.prev_is_in_use(start);
        self.cells.put_free(Block { start, len: end - start }, prev_in_use);
        Ok(())
    }
}
