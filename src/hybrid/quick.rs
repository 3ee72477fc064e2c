//! Quick lists: small blocks as they were freed, in one stack for each size (§3.10).
//!
//! ```text
//! cells     1    2    3   …   9 = QL_HIGH
//! head      0    ●    ●       ●
//!                ▼    ▼       ▼                 withheld: not in use, but neither splits nor joins
//!                ●    ●       ●
//! ```
//! A push and a pop are a few instructions. Nothing in the neighbourhood is told: the block above a
//! withheld one takes it to be in use. The paper leaves the block's own IN_USE set, too; we clear it,
//! one instruction each way, so that a walk of the heap and a checked free know what is free.

use super::lists::LISTS;
use crate::error::Fault;
use crate::meter::Meter;
use crate::tags::{Cells, Link, NONE};

/// The heads, by size in cells. Invariant: a list has withheld blocks of its size only.
#[derive(Debug)]
pub(super) struct Quick {
    heads: [u32; LISTS],
}

impl Quick {
    pub(super) const fn new() -> Self {
        Self { heads: [NONE; LISTS] }
    }

    /// Puts a block in use, of `len` cells, on its list.
    #[inline(always)]
    pub(super) fn push<M: Meter>(&mut self, start: u32, len: u32, cells: &mut Cells, meter: &M) {
        cells.set_in_use(start, false);
        self.link(start, len, cells, meter);
    }

    /// Puts a withheld block on its list.
    #[inline(always)]
    pub(super) fn link<M: Meter>(&mut self, start: u32, len: u32, cells: &mut Cells, meter: &M) {
        let head = &mut self.heads[len as usize % LISTS];
        cells.set_link(start, Link::First, *head);
        *head = start;
        meter.link(cells.header(start));
    }

    /// Puts a block of `len` cells to use, if its list has one.
    #[inline(always)]
    pub(super) fn pop<M: Meter>(&mut self, len: u32, cells: &mut Cells, meter: &M) -> Option<u32> {
        let start = self.take(len, cells, meter)?;
        cells.set_in_use(start, true);
        Some(start)
    }

    /// Takes a block of `len` cells off its list, still withheld.
    #[inline(always)]
    pub(super) fn take<M: Meter>(&mut self, len: u32, cells: &Cells, meter: &M) -> Option<u32> {
        let head = &mut self.heads[len as usize % LISTS];
        let start = *head;
        if start == NONE {
            return None;
        }
        meter.visit(cells.header(start));
        *head = cells.link(start, Link::First);
        Some(start)
    }

    /// Checks that the lists have the withheld blocks of which there are so many of each size.
    pub(super) fn audit(&self, withheld: &[u32; LISTS], cells: &Cells) -> Result<(), Fault> {
        for (len, (&head, &count)) in self.heads.iter().zip(withheld).enumerate() {
            let (mut node, mut members) = (head, 0);
            while node != NONE {
                let at = cells.contents(node).addr();
                members += 1;
                Fault::unless(
                    members <= count,
                    "a quick list has each block of its size once",
                    at,
                )?;
                Fault::unless(node < cells.end(), "a link leads to a block", at)?;
                let block = cells.block(node);
                let belongs = block.len as usize == len && cells.is_withheld(block);
                Fault::unless(belongs, "a quick list has withheld blocks of its size", at)?;
                node = cells.link(node, Link::First);
            }
            let at = cells.origin().addr();
            Fault::unless(members == count, "a withheld block is on its quick list", at)?;
        }
        Ok(())
    }
}
