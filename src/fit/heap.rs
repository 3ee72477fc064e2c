//! The engine below all fits: blocks with boundary tags that split, join their free neighbours at
//! once, and grow in place (Knuth 1973, §2.5; Hasan & Chang 2006, §3).
//!
//! ```text
//! origin                                                                     end
//!  | gap [H]| in use [H]| free [F][H]| in use  …  [H]| wilderness    [F][H'] |
//!            1                                                               extend ▶
//! ```
//! The tags are told of in `block/tag.rs`. The first cell has the first header only; H' is an
//! empty block in use, so that neither end is a special case. The uppermost free block, if it
//! reaches the end, is the *wilderness*: it is in no index, is spent last (§3.9), and grows when
//! the source is asked for more. All other free blocks are in the policy's index.
//!
//! Invariants:
//! - blocks tile the cells from 1 to `end`; the last header is at `end`;
//! - no two neighbouring blocks are both free;
//! - PREV_IN_USE says of the block below what its IN_USE does; a free block's footer is its size;
//! - the index has every free block but the wilderness.

use super::policy::{Policy, fit};
use crate::block::tag::{Block, CELL, Cells, MAX_CELLS, TAG};
use crate::meter::Meter;
use crate::source::Source;
use crate::strategy::{AllocError, Fault};
use crate::walk::{Span, SpanKind};

/// The heap.
#[derive(Debug)]
pub(crate) struct Heap<P> {
    cells: Cells,
    /// Cells the heap grows by.
    growth: u32,
    index: P,
}

impl<P: Policy> Heap<P> {
    /// An empty heap that grows by multiples of `growth` bytes.
    pub(crate) const fn new(growth: usize) -> Self {
        assert!(growth > 0 && growth.is_multiple_of(CELL) && growth / CELL < MAX_CELLS as usize);
        Self { cells: Cells::new(), growth: (growth / CELL) as u32, index: P::EMPTY }
    }

    /// Number of cells: it changes when memory is taken from the source.
    #[inline(always)]
    pub(crate) fn end(&self) -> u32 {
        self.cells.end()
    }

    /// Cells of the block that holds this many bytes, or `None` if none does.
    #[inline(always)]
    pub(crate) fn cells_for(bytes: usize) -> Option<u32> {
        let cells = bytes.checked_add(TAG)?.div_ceil(CELL);
        u32::try_from(cells).ok().filter(|&cells| cells < MAX_CELLS)
    }

    /// Bytes that a block of this many cells holds.
    #[inline(always)]
    pub(crate) fn bytes(len: u32) -> usize {
        len as usize * CELL - TAG
    }

    /// Where a block's contents lie.
    #[inline(always)]
    pub(crate) fn contents(&self, start: u32) -> *mut u8 {
        self.cells.contents(start)
    }

    /// The block in use whose contents lie at this address, of which its owner says so.
    #[inline(always)]
    pub(crate) fn block_at(&self, address: usize) -> Block {
        let offset = address.wrapping_sub(self.cells.origin().addr());
        debug_assert!(self.cells.cell_at(address).is_some(), "a block lies in the heap");
        let block = self.cells.block((offset / CELL) as u32);
        debug_assert!(self.cells.is_in_use(block.start), "the block is in use");
        debug_assert!(self.cells.prev_is_in_use(block.end()), "its neighbour knows that");
        block
    }

    /// The block in use whose contents lie at this address, if one's do. Any address may be asked
    /// for: the blocks below are walked, since an address alone does not tell whether the word
    /// before it is a header. O(n).
    pub(crate) fn find_in_use(&self, address: usize) -> Option<Block> {
        let wanted = self.cells.cell_at(address)?;
        let found = self.blocks().find(|block| block.end() > wanted)?;
        (found.start == wanted && self.cells.is_in_use(wanted)).then_some(found)
    }

    /// Puts `len` cells at a multiple of `align` bytes to use: a search of the index.
    #[inline(always)]
    pub(crate) fn allocate<S: Source, M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        source: &mut S,
        meter: &M,
    ) -> Result<u32, AllocError> {
        let (block, start) = match self.index.find(len, align, &self.cells, meter) {
            Some(found) => found,
            None => self.wilderness_for(len, align, source, meter)?,
        };
        if start == block.start {
            let indexed = self.indexed(block);
            let behind = self.cells.split(block, len);
            self.exchange(indexed, self.indexed(behind), meter);
            return Ok(start);
        }
        self.carve(block, Block { start, len }, meter);
        Ok(start)
    }

    /// Puts cells in the middle of a free block to use.
    #[cold]
    fn carve<M: Meter>(&mut self, block: Block, used: Block, meter: &M) {
        let before = Block { start: block.start, len: used.start - block.start };
        let behind = Block { start: used.end(), len: block.end() - used.end() };
        let indexed = self.indexed(block);
        if behind.len > 0 {
            self.cells.put_free(behind);
        }
        self.cells.put_in_use(used, true);
        self.cells.put_free(before);
        self.exchange(indexed, Some(before), meter);
        self.exchange(None, self.indexed(behind), meter);
    }

    /// Frees a block in use, joining it with free neighbours: a change of the index.
    #[inline(always)]
    pub(crate) fn release<M: Meter>(&mut self, block: Block, meter: &M) {
        meter.touch(self.cells.header(block.start));
        meter.touch(self.cells.header(block.end()));
        let below = self.cells.free_below(block.start);
        let above = self.cells.free_above(block.end());
        // Each case by itself, and known blocks go out of the index while their tags are right.
        match (below, above) {
            (None, None) => {
                self.cells.put_free(block);
                self.exchange(None, self.indexed(block), meter);
            }
            (Some(below), None) => {
                let joined = Block { start: below.start, len: below.len + block.len };
                self.cells.put_free(joined);
                self.exchange(Some(below), self.indexed(joined), meter);
            }
            (None, Some(above)) => {
                let joined = Block { start: block.start, len: block.len + above.len };
                self.cells.put_free(joined);
                self.exchange(self.indexed(above), self.indexed(joined), meter);
            }
            (Some(below), Some(above)) => {
                let joined = Block { start: below.start, len: above.end() - below.start };
                self.exchange(self.indexed(above), None, meter);
                self.cells.put_free(joined);
                self.exchange(Some(below), self.indexed(joined), meter);
            }
        }
    }

    /// Makes a block in use `len` cells long without moving it, if it is that long, free memory
    /// above it is, or the source has more. A change of the index.
    pub(crate) fn resize<S: Source, M: Meter>(
        &mut self,
        block: Block,
        len: u32,
        source: &mut S,
        meter: &M,
    ) -> bool {
        if len == block.len {
            return true;
        }
        let Some(wanted) = block.start.checked_add(len) else { return false };
        meter.touch(self.cells.header(block.end()));
        let mut above = self.cells.free_above(block.end());
        let reach = above.map_or(block.end(), Block::end);
        if wanted > reach {
            if reach != self.cells.end() || self.extend(wanted, source).is_err() {
                return false;
            }
            above = self.cells.free_above(block.end());
        }
        let end = above.map_or(block.end(), Block::end);
        let rest = Block { start: wanted, len: end - wanted };
        let indexed = above.and_then(|above| self.indexed(above));
        let resized = Block { start: block.start, len };
        let prev_in_use = self.cells.prev_is_in_use(block.start);
        if rest.len > 0 {
            self.cells.put_free(rest);
        }
        self.cells.put_in_use(resized, prev_in_use);
        self.exchange(indexed, self.indexed(rest), meter);
        true
    }

    /// The free block that reaches the end, if there is one.
    fn wilderness(&self) -> Option<Block> {
        self.cells.free_below(self.cells.end())
    }

    /// The block, if it belongs in the index: it has cells, and is not the wilderness.
    #[inline(always)]
    fn indexed(&self, block: Block) -> Option<Block> {
        (block.len > 0 && block.end() != self.cells.end()).then_some(block)
    }

    /// Has the index know `new` in the place of `old`.
    #[inline(always)]
    fn exchange<M: Meter>(&mut self, old: Option<Block>, new: Option<Block>, meter: &M) {
        match (old, new) {
            (Some(old), Some(new)) => self.index.replace(old, new, &mut self.cells, meter),
            (Some(old), None) => self.index.remove(old, &mut self.cells, meter),
            (None, Some(new)) => self.index.insert(new, &mut self.cells, meter),
            (None, None) => {}
        }
    }

    /// The wilderness, large enough for `len` cells at a multiple of `align` bytes, and where in
    /// it they start.
    #[inline(never)]
    fn wilderness_for<S: Source, M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        source: &mut S,
        meter: &M,
    ) -> Result<(Block, u32), AllocError> {
        if self.cells.end() == 0 {
            // What an alignment asks for is known only once the origin is.
            self.append(1, source)?;
        }
        if let Some(block) = self.wilderness() {
            meter.touch(self.cells.header(block.start));
            if let Some(start) = fit(block, len, align, &self.cells) {
                return Ok((block, start));
            }
        }
        let from = self.wilderness().map_or(self.cells.end(), |block| block.start);
        let start = self.cells.aligned(from, align).ok_or(AllocError::Exhausted)?;
        self.extend(start.checked_add(len).ok_or(AllocError::Exhausted)?, source)?;
        Ok((Block { start: from, len: self.cells.end() - from }, start))
    }

    /// Takes memory from the source so that the wilderness reaches `end` at least: by the growth
    /// unit, or to `end` exactly if there is no more.
    #[cold]
    fn extend<S: Source>(&mut self, end: u32, source: &mut S) -> Result<(), AllocError> {
        let rounded = end.checked_next_multiple_of(self.growth).unwrap_or(end);
        self.append(rounded, source).or_else(|_| self.append(end, source))
    }

    /// Takes memory from the source so that the heap ends at `end`.
    fn append<S: Source>(&mut self, end: u32, source: &mut S) -> Result<(), AllocError> {
        let old = self.cells.end();
        if end > MAX_CELLS {
            return Err(AllocError::Exhausted);
        }
        // 2³⁰ cells are more than 32 bits address.
        let bytes = ((end - old) as usize).checked_mul(CELL).ok_or(AllocError::Exhausted)?;
        let memory = source.extend(bytes, CELL)?;
        let origin = if old == 0 { memory.as_ptr() } else { self.cells.origin() };
        let wilderness = (old > 0).then(|| self.wilderness()).flatten();
        // SAFETY: the source's extent is the heap's alone, and grows where it ended.
        unsafe { self.cells.extend(origin, end) };
        if old == 0 {
            self.cells.put_end(true);
            return Ok(());
        }
        self.cells.put_end(false);
        let start = wilderness.map_or(old, |block| block.start);
        self.cells.put_free(Block { start, len: end - start });
        Ok(())
    }

    /// Every block in address order, as far as the tags make sense.
    fn blocks(&self) -> impl Iterator<Item = Block> {
        let mut start = 1;
        core::iter::from_fn(move || {
            let block = (start < self.cells.end()).then(|| self.cells.block(start))?;
            let sound = block.len > 0 && block.len <= self.cells.end() - start;
            start = block.end();
            sound.then_some(block)
        })
    }

    /// Calls `visit` for every span of the heap in address order.
    pub(crate) fn walk(&self, visit: &mut dyn FnMut(Span)) {
        let origin = self.cells.origin().addr();
        if self.cells.end() == 0 {
            return;
        }
        visit(Span { start: origin, len: CELL - TAG, kind: SpanKind::Slack });
        for block in self.blocks() {
            let start = self.contents(block.start).addr();
            let kind =
                if self.cells.is_in_use(block.start) { SpanKind::Block } else { SpanKind::Free };
            visit(Span { start: start - TAG, len: TAG, kind: SpanKind::Header });
            visit(Span { start, len: Self::bytes(block.len), kind });
        }
        let end = self.contents(self.cells.end()).addr();
        visit(Span { start: end - TAG, len: TAG, kind: SpanKind::Header });
    }

    /// Checks the invariants. O(n log n).
    pub(crate) fn audit(&self) -> Result<(), Fault> {
        let cells = &self.cells;
        if cells.end() == 0 {
            return Ok(());
        }
        let mut expected = 1;
        let mut prev_in_use = true;
        let (mut free_blocks, mut free_cells) = (0, 0);
        for block in self.blocks() {
            let at = self.contents(block.start).addr();
            let in_use = cells.is_in_use(block.start);
            let known = cells.prev_is_in_use(block.start) == prev_in_use;
            Fault::unless(known, "PREV_IN_USE says whether the block below is in use", at)?;
            Fault::unless(in_use || prev_in_use, "free neighbours are joined", at)?;
            if !in_use {
                Fault::unless(
                    cells.footer(block) == block.len,
                    "a footer is its block's size",
                    at,
                )?;
                free_blocks += 1;
                free_cells += block.len;
            }
            expected = block.end();
            prev_in_use = in_use;
        }
        let end = self.contents(cells.end()).addr();
        Fault::unless(expected == cells.end(), "blocks tile the heap", end)?;
        let last = cells.block(cells.end());
        let ended = last.len == 0 && cells.is_in_use(last.start);
        Fault::unless(ended, "the last header is of an empty block in use", end)?;
        let known = cells.prev_is_in_use(last.start) == prev_in_use;
        Fault::unless(known, "PREV_IN_USE says whether the block below is in use", end)?;

        let wilderness = self.wilderness();
        let (mut known_blocks, mut known_cells) =
            (u32::from(wilderness.is_some()), wilderness.map_or(0, |block| block.len));
        self.index.audit(cells, &mut |block| {
            known_blocks += 1;
            known_cells += block.len;
        })?;
        Fault::unless(
            (known_blocks, known_cells) == (free_blocks, free_cells),
            "the index has every free block but the wilderness",
            cells.origin().addr(),
        )
    }
}
