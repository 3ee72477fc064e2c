//! HALF-FIT: lists by powers of two; a request takes the first block of a list, without a search
//! (Ogasawara 1995).
//!
//! List i has the free blocks of 2ⁱ up to, not including, 2ⁱ⁺¹ cells. A request of r cells is
//! served from the first list whose every block is large enough, list ⌈log₂ r⌉ or a higher one, by
//! the block freed last: O(1). Unlike [`Segregated`], it does not search the list of the request's
//! own size, whose blocks may be large enough. Ogasawara's allocator refuses a request that only
//! such blocks could serve; here the heap searches them if its source has no more memory.

use super::index::{Index, IndexPolicy, certain};
use super::segregated::Segregated;
use super::unsorted::Front;
use crate::error::Fault;
use crate::meter::Meter;
use crate::tags::{Block, Cells};

/// HALF-FIT: the last block freed on the first list on which all blocks are large enough.
#[derive(Debug)]
pub struct HalfFit(Segregated<Front>);

impl Index for HalfFit {}

impl IndexPolicy for HalfFit {
    const EMPTY: Self = Self(Segregated::EMPTY);

    fn insert<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) {
        self.0.insert(block, cells, meter);
    }

    fn remove<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) {
        self.0.remove(block, cells, meter);
    }

    fn find<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        let list = certain(len, align.max(crate::tags::CELL))?.checked_next_power_of_two()?.ilog2();
        self.0.find_from(list as usize, (len, align), cells, meter)
    }

    fn take_last<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &mut Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        self.0.take(len, align, cells, meter)
    }

    fn audit(&self, cells: &Cells, visit: &mut dyn FnMut(Block)) -> Result<(), Fault> {
        self.0.audit(cells, visit)
    }
}
