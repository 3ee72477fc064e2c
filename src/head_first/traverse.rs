//! Best fit as in the paper: traverses the chain of all blocks, in use and free alike, from the
//! head to the end; O(n).
//!
//! ```text
//! head ─▶ [8 in use] ─▶ [8 in use] ─▶ [128 free] ─▶ [16 in use] ─▶ [8 388 360 free] ─▶ end
//! ```
//! The tags themselves are the chain, so no other data is kept. A withheld block serves nothing.
//! [`Best`](crate::fit::Best) takes the same blocks in O(log n).

use crate::error::Fault;
use crate::fit::index::{Index, IndexPolicy, fit};
use crate::meter::Meter;
use crate::tags::{Block, Cells};

/// BEST-FIT by traversing all blocks: the lowest of the smallest that fit.
#[derive(Debug)]
pub struct Traverse;

/// Returns all blocks from the head on, as far as the tags make sense.
fn chain(cells: &Cells) -> impl Iterator<Item = Block> {
    cells.blocks(cells.end())
}

impl Index for Traverse {}

impl IndexPolicy for Traverse {
    const EMPTY: Self = Self;

    #[inline]
    fn insert<M: Meter>(&mut self, _: Block, _: &mut Cells, _: &M) {}

    #[inline]
    fn remove<M: Meter>(&mut self, _: Block, _: &mut Cells, _: &M) {}

    fn find<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        let mut best: Option<(Block, u32)> = None;
        for block in chain(cells) {
            meter.visit(cells.header(block.start));
            if cells.is_in_use(block.start) || best.is_some_and(|(best, _)| best.len <= block.len) {
                continue;
            }
            if let Some(start) = fit(block, len, align, cells)
                && !cells.is_withheld(block)
            {
                best = Some((block, start));
            }
        }
        best
    }

    fn audit(&self, cells: &Cells, visit: &mut dyn FnMut(Block)) -> Result<(), Fault> {
        let is_free = |&block: &Block| !cells.is_in_use(block.start) && !cells.is_withheld(block);
        chain(cells).filter(is_free).for_each(visit);
        Ok(())
    }
}
