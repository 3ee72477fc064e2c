//! Lazy first fit by pointer *decrements* (Chung & Moon, §3, footnote 1): the free-space area is a
//! block of the free list and stays there.
//!
//! ```text
//! first ─▶ [16] ⇄ [40] ⇄ [ area       ◀── served ] ⇄ … ⇄ [900]
//!                          links          pointer
//! ```
//! A request is served from the upper end of the block that served the last one, while it fits;
//! else from the lowest block that fits, which becomes the area. The links of a free block are at
//! its lower end, so serving changes its length but no link: the area need not be taken off the
//! list or put back. In all other respects the area is a free block, and a block freed beside it
//! joins it.

use super::index::{Index, IndexPolicy};
use super::list::First;
use crate::error::Fault;
use crate::meter::Meter;
use crate::tags::{Block, Cells, NONE};

/// FIRST-FIT in address order that serves from the upper end of the block it served from last.
/// Invariant: `area` is a block of the list, or `NONE`.
#[derive(Debug)]
pub struct Decrement {
    list: First,
    area: u32,
}

/// Returns the highest start in a free block of `len` cells at a multiple of `align` bytes, if they
/// fit.
fn highest(block: Block, len: u32, align: usize, cells: &Cells) -> Option<u32> {
    let start = cells.aligned_down(block.end().checked_sub(len)?, align)?;
    (start >= block.start).then_some(start)
}

impl Index for Decrement {}

impl IndexPolicy for Decrement {
    const EMPTY: Self = Self { list: First::EMPTY, area: NONE };

    fn insert<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) {
        self.list.insert(block, cells, meter);
    }

    fn remove<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) {
        self.list.remove(block, cells, meter);
        if self.area == block.start {
            self.area = NONE;
        }
    }

    fn replace<M: Meter>(&mut self, old: Block, new: Block, cells: &mut Cells, meter: &M) {
        self.list.replace(old, new, cells, meter);
        if self.area == old.start {
            self.area = new.start;
        }
    }

    /// An area that is joined with the block below stays the area.
    fn remove_but_one<M: Meter>(
        &mut self,
        (below, above): (Option<Block>, Option<Block>),
        cells: &mut Cells,
        meter: &M,
    ) -> Option<Block> {
        if let (Some(below), Some(above)) = (below, above)
            && self.area == above.start
        {
            self.area = below.start;
        }
        self.list.remove_but_one((below, above), cells, meter)
    }

    fn find<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        if self.area != NONE {
            meter.touch(cells.header(self.area));
            let area = cells.block(self.area);
            if let Some(start) = highest(area, len, align, cells) {
                return Some((area, start));
            }
        }
        let (block, lowest) = self.list.find(len, align, cells, meter)?;
        self.area = block.start;
        Some((block, highest(block, len, align, cells).unwrap_or(lowest)))
    }

    fn audit(&self, cells: &Cells, visit: &mut dyn FnMut(Block)) -> Result<(), Fault> {
        let mut listed = self.area == NONE;
        self.list.audit(cells, &mut |block| {
            listed |= block.start == self.area;
            visit(block);
        })?;
        Fault::unless(listed, "the free-space area is on the list", cells.origin().addr())
    }
}
