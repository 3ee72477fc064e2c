//! A list whose items are the free blocks themselves. Every list in this directory is built on it,
//! whatever its order.
//!
//! ```text
//! first ─▶ [40] ⇄ [900] ⇄ [16] ⇄ … ⇄ [72] ◀─ last
//! ```

use super::index::fit;
use crate::error::Fault;
use crate::meter::Meter;
use crate::tags::{Block, Cells, Link, NONE};

/// The link to the block before, and to the one behind.
const BEFORE: Link = Link::First;
const BEHIND: Link = Link::Second;

/// A doubly linked list. Invariants: the links of its blocks lead from `first` to `last` and back;
/// both are `NONE` iff it is empty.
#[derive(Debug)]
pub(super) struct Links {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Links {
    /// No blocks.
    pub(super) const EMPTY: Self = Self { first: NONE, last: NONE };

    /// Returns the block before this one; [`NONE`] before the first.
    pub(super) fn before(start: u32, cells: &Cells) -> u32 {
        cells.link(start, BEFORE)
    }

    /// Returns the block behind this one; [`NONE`] behind the last.
    pub(super) fn behind(start: u32, cells: &Cells) -> u32 {
        cells.link(start, BEHIND)
    }

    /// Puts a block between two neighbours on the list; either may be [`NONE`].
    pub(super) fn put<M: Meter>(
        &mut self,
        start: u32,
        (before, behind): (u32, u32),
        cells: &mut Cells,
        meter: &M,
    ) {
        meter.link_double(cells.header(start));
        cells.set_link(start, BEFORE, before);
        cells.set_link(start, BEHIND, behind);
        self.join(before, start, cells);
        self.join(start, behind, cells);
    }

    /// Removes a block.
    pub(super) fn take(&mut self, start: u32, cells: &mut Cells) {
        self.join(Self::before(start, cells), Self::behind(start, cells), cells);
    }

    /// Makes two blocks neighbours; [`NONE`] stands for the list's ends.
    fn join(&mut self, before: u32, behind: u32, cells: &mut Cells) {
        match before {
            NONE => self.first = behind,
            before => cells.set_link(before, BEHIND, behind),
        }
        match behind {
            NONE => self.last = before,
            behind => cells.set_link(behind, BEFORE, before),
        }
    }

    /// Returns the first block from `from` up to, not including, `to` that holds the request, and
    /// where in it that starts. O(n).
    pub(super) fn search<M: Meter>(
        from: u32,
        to: u32,
        (len, align): (u32, usize),
        cells: &Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        let mut node = from;
        while node != to {
            meter.visit(cells.header(node));
            let block = cells.block(node);
            if let Some(start) = fit(block, len, align, cells) {
                return Some((block, start));
            }
            node = Self::behind(node, cells);
        }
        None
    }

    /// Checks the links and calls `visit` for every block in their order.
    pub(super) fn audit(
        &self,
        cells: &Cells,
        visit: &mut dyn FnMut(Block) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let last = audit_list(self.first, [BEFORE, BEHIND], cells, visit)?;
        let at = cells.origin().addr();
        Fault::unless(self.last == last, "a list knows its last block", at)
    }
}

/// Checks a list of free blocks with these two links, calls `visit` for every block in their order,
/// and returns the last one.
pub(crate) fn audit_list(
    first: u32,
    [before, behind]: [Link; 2],
    cells: &Cells,
    visit: &mut dyn FnMut(Block) -> Result<(), Fault>,
) -> Result<u32, Fault> {
    let (mut last, mut node) = (NONE, first);
    // A list with more blocks than there are cells is a circle.
    let mut unseen = cells.end();
    while node != NONE {
        let at = cells.contents(node).addr();
        Fault::unless(node < cells.end(), "a link leads to a block", at)?;
        Fault::unless(!cells.is_in_use(node), "a block on a list is free", at)?;
        let linked = cells.link(node, before) == last && unseen > 0;
        Fault::unless(linked, "the links of a list agree both ways", at)?;
        visit(cells.block(node))?;
        (last, node) = (node, cells.link(node, behind));
        unseen -= 1;
    }
    Ok(last)
}
