//! Takes memory from the source: all of it at once, as the paper does, or in pieces.

use super::{Block, FittedHeap, Halving, Index, Meter, Order, Source};
use crate::error::AllocError;

impl<O: Order, H: Halving, P: Index> FittedHeap<O, H, P> {
    /// Takes the cell of the first header, and those of the index. The cells that an alignment needs
    /// are known only once the origin is.
    fn open<S: Source, M: Meter>(&mut self, source: &mut S, meter: &M) -> Result<(), AllocError> {
        if self.cells.end() == 0 { self.append(P::FIRST, source, meter) } else { Ok(()) }
    }

    /// Returns whether the heap is open, and has no memory for blocks yet.
    fn is_fresh(&self) -> bool {
        self.cells.end() == P::FIRST
    }

    /// Takes the first memory from the source, if there is none yet.
    pub(in crate::head_first) fn prepare<S: Source, M: Meter>(
        &mut self,
        source: &mut S,
        meter: &M,
    ) -> Result<(), AllocError> {
        self.open(source, meter)?;
        if !self.is_fresh() {
            return Ok(());
        }
        self.append(self.growth.max(P::FIRST + 1), source, meter)
    }

    /// Returns a free block that holds the request, with more of the source's memory.
    #[cold]
    pub(super) fn grow<S: Source, M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        source: &mut S,
        meter: &M,
    ) -> Result<Block, AllocError> {
        self.open(source, meter)?;
        let fresh = self.is_fresh();
        let from =
            self.cells.free_below(self.cells.end()).map_or(self.cells.end(), |top| top.start);
        let start = self.cells.aligned(from, align).ok_or(AllocError::Exhausted)?;
        let end = start.checked_add(len).ok_or(AllocError::Exhausted)?;
        // The index may have overlooked that the uppermost block holds an aligned place.
        if end > self.cells.end() {
            self.extend(end, source, meter)?;
        }
        if fresh && let Some(half) = self.find(len, align, meter) {
            return Ok(half);
        }
        self.stitch(meter);
        self.cells.free_below(self.cells.end()).ok_or(AllocError::Exhausted)
    }

    /// Takes memory from the source so that the heap reaches at least `end`: up to a multiple of
    /// the growth unit, or exactly to `end` if the source has no more.
    #[cold]
    pub(super) fn extend<S: Source, M: Meter>(
        &mut self,
        end: u32,
        source: &mut S,
        meter: &M,
    ) -> Result<(), AllocError> {
        let rounded = end.checked_next_multiple_of(self.growth).unwrap_or(end);
        self.append(rounded, source, meter).or_else(|_| self.append(end, source, meter))
    }

    /// Takes memory from the source so that the heap ends at `end`. The new memory, joined with
    /// free memory right below it, becomes the unallocated region.
    fn append<S: Source, M: Meter>(
        &mut self,
        end: u32,
        source: &mut S,
        meter: &M,
    ) -> Result<(), AllocError> {
        let old = self.cells.end();
        let top = if old > 0 { self.cells.free_below(old) } else { None };
        // SAFETY: the source's extent is the heap's alone.
        unsafe { self.cells.append(end, source)? };
        if old == 0 {
            self.index.open(&mut self.cells);
            self.cells.put_end(true);
            return Ok(());
        }
        self.cells.put_end(false);
        let gained = Block { start: old, len: end - old };
        if old == P::FIRST {
            self.lay_out(gained, meter);
            return Ok(());
        }
        let start = top.map_or(old, |top| top.start);
        if O::REGION_FIRST && self.region != start {
            let former = self.region();
            if let Some(top) = top {
                self.index.remove(top, &mut self.cells, meter);
            }
            self.region = start;
            self.exchange(None, former, meter);
        }
        self.join(top, gained, None, meter);
        Ok(())
    }

    /// Lays out the first memory as in Table 1: as two halves, the upper one longer by an odd cell.
    fn lay_out<M: Meter>(&mut self, gained: Block, meter: &M) {
        let lower = Block { start: gained.start, len: gained.len / 2 };
        let upper = Block { start: lower.end(), len: gained.len - lower.len };
        if O::REGION_FIRST {
            self.region = gained.start;
        }
        self.cells.put_free(upper, lower.len == 0);
        self.exchange(None, self.indexed(upper), meter);
        if lower.len > 0 {
            self.cells.put_free(lower, true);
            self.exchange(None, self.indexed(lower), meter);
            self.seamed = true;
        }
    }
}
