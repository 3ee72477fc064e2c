//! SEGREGATED-FIT: a list for every power of two (Chung & Moon, §2, §4; Wilson et al. 1995).
//!
//! ```text
//! list      0  1  2    3     4      5      6   …    29
//! cells     1  2  4–7  8–15  16–31  32–63  64–127   2²⁹ and more
//! occupied  1  0  1    0     0      1      0        0        bits
//! ```
//! List i has the free blocks of 2ⁱ up to, not including, 2ⁱ⁺¹ cells. The list of the request's own
//! size is searched, since its blocks may be too small. Every block of a higher list is large
//! enough, and bits tell which lists have any, so the first block is taken in O(1). Only the search
//! of the request's own list is linear. The lists may be of any kind; Chung & Moon's are FIFO.

use super::index::{Index, IndexPolicy};
use super::unsorted::{Back, End, Unsorted};
use crate::error::Fault;
use crate::meter::Meter;
use crate::tags::{Block, Cells, MAX_CELLS};
use crate::words::bits;

/// A list for each bit of a size.
const LISTS: usize = MAX_CELLS.ilog2() as usize;

/// Free blocks on lists by size, each [unsorted](super::Unsorted). Invariants: a block is on the
/// list of its size; a list's bit is set iff it has blocks.
#[derive(Debug)]
pub struct Segregated<E = Back> {
    occupied: [u64; 1],
    lists: [Unsorted<E>; LISTS],
}

/// Returns the list of a size.
#[inline(always)]
fn list_of(len: u32) -> usize {
    len.ilog2() as usize
}

impl<E: End> Segregated<E> {
    /// Returns the first block that holds the request on the list `from` or a higher one.
    pub(super) fn find_from<M: Meter>(
        &mut self,
        mut from: usize,
        (len, align): (u32, usize),
        cells: &Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        // The second list serves every request without a large alignment.
        loop {
            let list = bits::first(&self.occupied, from)?;
            let found = self.lists[list].find(len, align, cells, meter);
            if found.is_some() || list + 1 == LISTS {
                return found;
            }
            from = list + 1;
        }
    }
}

impl<E: End> Index for Segregated<E> {}

impl<E: End> IndexPolicy for Segregated<E> {
    const EMPTY: Self = Self { occupied: [0], lists: [const { Unsorted::EMPTY }; LISTS] };

    fn insert<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) {
        let list = list_of(block.len);
        bits::set(&mut self.occupied, list);
        self.lists[list].insert(block, cells, meter);
    }

    fn remove<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) {
        let list = list_of(block.len);
        self.lists[list].remove(block, cells, meter);
        if self.lists[list].is_empty() {
            bits::clear(&mut self.occupied, list);
        }
    }

    fn find<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        self.find_from(list_of(len), (len, align), cells, meter)
    }

    fn audit(&self, cells: &Cells, visit: &mut dyn FnMut(Block)) -> Result<(), Fault> {
        let at = cells.origin().addr();
        for (list, blocks) in self.lists.iter().enumerate() {
            let known = bits::get(&self.occupied, list) != blocks.is_empty();
            Fault::unless(known, "a list's bit says whether it has blocks", at)?;
            let mut listed = true;
            blocks.audit(cells, &mut |block| {
                listed &= block.len > 0 && list_of(block.len) == list;
                visit(block);
            })?;
            Fault::unless(listed, "a block is on the list of its size", at)?;
        }
        Ok(())
    }
}
