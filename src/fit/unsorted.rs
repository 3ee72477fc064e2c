//! FIRST-FIT over a list in the order in which blocks were freed (Wilson et al. 1995; Hasan & Chang
//! 2006, §2.5; Chung & Moon, §2): O(1) to free, O(n) to search.
//!
//! ```text
//! LIFO  put ─▶ [72] ⇄ [16] ⇄ [900] ⇄ … ⇄ [40]
//! FIFO         [40] ⇄ … ⇄ [900] ⇄ [16] ⇄ [72] ◀─ put
//! ```
//! A block that is split or grows counts as a new block, and goes where a freed block goes. LIFO
//! finds memory that is still in the cache. FIFO leaves a block time until its neighbours are
//! freed, which keeps fragmentation down, as address order does.

use core::marker::PhantomData;

use super::index::{Index, IndexPolicy};
use super::links::Links;
use crate::error::Fault;
use crate::meter::Meter;
use crate::tags::{Block, Cells, NONE};

/// Where on the list a block is put.
pub trait End {
    /// Whether a block is put at the start of the list, where searches start.
    const FIRST: bool;
}

/// At the start of the list: searches meet the last freed block first.
#[derive(Debug)]
pub struct Front;

/// At the end of the list: searches meet the earliest freed block first.
#[derive(Debug)]
pub struct Back;

/// Free blocks on one list in the order of their frees; [`Front`] or [`Back`] decides at which end
/// a block is put.
#[derive(Debug)]
pub struct Unsorted<E> {
    links: Links,
    end: PhantomData<E>,
}

/// FIRST-FIT, LIFO: the block freed last of those that fit.
pub type Lifo = Unsorted<Front>;

/// FIRST-FIT, FIFO: the block freed first of those that fit.
pub type Fifo = Unsorted<Back>;

impl<E> Unsorted<E> {
    /// Returns whether the list is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.links.first == NONE
    }
}

impl<E: End> Index for Unsorted<E> {}

impl<E: End> IndexPolicy for Unsorted<E> {
    const EMPTY: Self = Self { links: Links::EMPTY, end: PhantomData };

    fn insert<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) {
        let between = if E::FIRST { (NONE, self.links.first) } else { (self.links.last, NONE) };
        self.links.put(block.start, between, cells, meter);
    }

    fn remove<M: Meter>(&mut self, block: Block, cells: &mut Cells, _: &M) {
        self.links.take(block.start, cells);
    }

    fn find<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        Links::search(self.links.first, NONE, (len, align), cells, meter)
    }

    fn audit(&self, cells: &Cells, visit: &mut dyn FnMut(Block)) -> Result<(), Fault> {
        self.links.audit(cells, &mut |block| {
            visit(block);
            Ok(())
        })
    }
}

impl End for Front {
    const FIRST: bool = true;
}

impl End for Back {
    const FIRST: bool = false;
}
