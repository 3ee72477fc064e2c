//! The contiguous heap: blocks with boundary tags, and the wilderness above them (§3.1, §3.9).
//!
//! ```text
//! origin                                              top               limit
//!  | gap [H]| in use [H]| withheld [H]| free [F][H]| … [H'| wilderness    | extend ▶
//!            1
//! ```
//! The module `tags` describes the tags. Unlike in the fits, two free blocks may be neighbours:
//! joining them can wait. The *wilderness* is not a block: it is on no list, and blocks are cut
//! from its lower end only when no free block serves. H' is the header of an empty block in use,
//! which ends the blocks below the wilderness.
//!
//! Invariants:
//! - blocks tile the cells from 1 to `top`, where the empty block in use is;
//! - a block is in use; or *withheld*, that is, on the quick list of its size and marked as in use
//!   in the block above; or free: on the list of its size, with its size in its footer, and marked
//!   as free in the block above;
//! - of two free neighbours, at least one waits to be joined.
//!
//! The tags and the stacks of the quick lists are shared with the fits, but the heap is not. To
//! turn the fits' heap into this one, policies would need more code than this file, since the two
//! heaps represent different things:
//! - A free block waits or is joined, and its list depends on that. An index of the fits depends
//!   only on a block's place and size.
//! - Any number of free blocks may be side by side, so joining and extending take whole runs, not
//!   one neighbour on either side.
//! - A rest of one cell stays with its block, so the layout does not determine the block's length.
//! - The wilderness is not a block. In a fit it is a free block, with tags.
//! - The parameters decide at run time which memory is tried in which order.

use super::lists::{LISTS, Lists, State, Taken};
use super::monitor::Monitor;
use super::settings::Settings;
use crate::error::AllocError;
use crate::fit::stacks::Stacks;
use crate::meter::Meter;
use crate::source::Source;
use crate::tags::{Block, Cells, Sizes, TAG};

/// The contiguous heap of a [`Tuned`](super::Tuned) engine.
#[derive(Debug)]
pub(super) struct HybridHeap {
    pub(super) cells: Cells,
    /// Where the wilderness starts.
    pub(super) top: u32,
    /// The quick lists, by size in cells.
    pub(super) quick: Stacks<LISTS>,
    pub(super) lists: Lists,
    /// The largest number of bytes in use, tags included, among the times when this was updated.
    /// The threshold is a percentage of it.
    pub(super) most_in_use: usize,
    /// The number of frees up to the last time when all free blocks were joined; [`UNJOINED`] if
    /// blocks were preallocated since.
    pub(super) frees_at_join: u64,
    pub(super) monitor: Monitor,
}

/// The parts of the heap that the engine works with but does not own.
pub(super) struct Context<'c, S, M> {
    pub(super) settings: &'c Settings,
    pub(super) source: &'c mut S,
    pub(super) meter: &'c M,
    /// Bytes in use now, tags included.
    pub(super) in_use: usize,
    /// Blocks freed since the beginning.
    pub(super) frees: u64,
}

/// Not a number of frees: there may be blocks to join, however many were freed.
const UNJOINED: u64 = u64::MAX;

/// The sizes of its blocks.
pub(super) type Size = Sizes<TAG>;

impl HybridHeap {
    pub(super) const fn new() -> Self {
        Self {
            cells: Cells::new(),
            top: 0,
            quick: Stacks::new(),
            lists: Lists::new(),
            most_in_use: 0,
            frees_at_join: 0,
            monitor: Monitor::new(),
        }
    }

    /// Puts the first `len` cells of a free block to use, and splits the rest off. A rest of one
    /// cell stays with the block, as the paper leaves 8 bytes (§3.8).
    pub(super) fn serve<M: Meter>(&mut self, taken: Taken, len: u32, meter: &M) -> Block {
        let used = used(taken.block, len);
        let prev_in_use = self.cells.prev_is_in_use(used.start);
        let (_, rest) = self.cells.carve(taken.block, used, prev_in_use);
        if rest.len > 0 {
            self.monitor.splits += 1;
            self.lists.insert(rest, taken.state, &mut self.cells, meter);
        }
        used
    }

    /// Like [`serve`](Self::serve), for a small block. Makes up to `most` more blocks from the
    /// rest, and puts them on the quick list, the lowest first (§3.10).
    pub(super) fn serve_small<M: Meter>(
        &mut self,
        taken: Taken,
        len: u32,
        most: u32,
        meter: &M,
    ) -> Block {
        let more = (taken.block.len / len - 1).min(most);
        let run = Block { start: taken.block.start, len: len * (more + 1) };
        if more == 0 {
            return self.serve(taken, len, meter);
        }
        // The last block must not keep one more cell: it would have another size.
        let rest = Block { start: run.end(), len: taken.block.len - run.len };
        let prev_in_use = self.cells.prev_is_in_use(run.start);
        self.monitor.splits += 1;
        self.monitor.preallocated += u64::from(more);
        self.frees_at_join = UNJOINED;
        if rest.len > 0 {
            self.cells.put_free(rest, true);
            self.lists.insert(rest, taken.state, &mut self.cells, meter);
        }
        for place in (1..=more).rev() {
            let block = Block { start: run.start + place * len, len };
            self.cells.put_withheld(block);
            self.quick.link(block.start, len as usize, &mut self.cells, meter);
        }
        let used = Block { start: run.start, len };
        self.cells.put_in_use(used, prev_in_use);
        used
    }

    /// Frees a block in use, or a part of one whose header is not written yet. The block below is
    /// not free iff `prev_in_use`.
    pub(super) fn release<M: Meter>(&mut self, block: Block, prev_in_use: bool, meter: &M) {
        self.cells.put_free(block, prev_in_use);
        self.lists.insert(block, State::Waiting, &mut self.cells, meter);
    }

    /// Shrinks a block in use to `kept`, or one cell more, and frees the cells below and above.
    pub(super) fn trim<M: Meter>(&mut self, block: Block, kept: Block, meter: &M) -> Block {
        let prev_in_use = self.cells.prev_is_in_use(block.start);
        let kept = used(Block::between(kept.start, block.end()), kept.len);
        let (below, above) = self.cells.carve(block, kept, prev_in_use);
        for rest in [above, below].into_iter().filter(|rest| rest.len > 0) {
            self.lists.insert(rest, State::Waiting, &mut self.cells, meter);
        }
        kept
    }

    /// Cuts a block from the wilderness, which grows if it must.
    pub(super) fn cut<S: Source, M: Meter>(
        &mut self,
        len: u32,
        context: &mut Context<'_, S, M>,
    ) -> Result<Block, AllocError> {
        if self.cells.end() - self.top < len {
            self.widen(context.meter);
            self.grow(len, context)?;
        }
        let block = Block { start: self.top, len };
        context.meter.touch(self.cells.header(block.start));
        let prev_in_use = self.cells.prev_is_in_use(block.start);
        self.top += len;
        self.cells.put_border(self.top, true);
        self.cells.put_in_use(block, prev_in_use);
        Ok(block)
    }

    /// Expands the wilderness downwards over the free blocks below it.
    pub(super) fn widen<M: Meter>(&mut self, meter: &M) {
        while self.top > 0
            && let Some(below) = self.cells.free_below(self.top)
        {
            self.lists.remove(below, &mut self.cells, meter);
            self.top = below.start;
            let prev_in_use = self.cells.prev_is_in_use(below.start);
            self.cells.put_border(self.top, prev_in_use);
        }
    }

    /// Takes memory from the source until the wilderness has `len` cells: by the growth unit, or by
    /// just the cells needed if the source has no more.
    pub(super) fn grow<S: Source, M: Meter>(
        &mut self,
        len: u32,
        context: &mut Context<'_, S, M>,
    ) -> Result<(), AllocError> {
        // Cell 0 has the first block's header.
        let wanted = self.top.max(1).checked_add(len).ok_or(AllocError::Exhausted)?;
        if wanted <= self.cells.end() {
            return Ok(());
        }
        let end = self.cells.end();
        let missing = (wanted - end).checked_next_multiple_of(context.settings.growth_cells());
        missing
            .and_then(|cells| self.append(end.checked_add(cells)?, context.source).ok())
            .map_or_else(|| self.append(wanted, context.source), Ok)?;
        self.monitor.growths += 1;
        Ok(())
    }

    /// Takes memory from the source so that there are `end` cells.
    fn append<S: Source>(&mut self, end: u32, source: &mut S) -> Result<(), AllocError> {
        let is_first = self.cells.end() == 0;
        // SAFETY: the source's extent is the heap's alone.
        unsafe { self.cells.append(end, source)? };
        if is_first {
            self.top = 1;
            self.cells.put_border(self.top, true);
        }
        Ok(())
    }
}

/// Returns the first `len` cells of a block, or all of them if only one would remain.
fn used(block: Block, len: u32) -> Block {
    if block.len > len + 1 { Block { start: block.start, len } } else { block }
}
