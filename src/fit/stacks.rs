//! Stacks of free blocks, one for each class, that are neither split nor joined: the quick lists of
//! Hasan & Chang (§3.10), and the whole of Kingsley's allocator.
//!
//! ```text
//! class     1    2    3   …
//! head      0    ●    ●       ●
//!                ▼    ▼       ▼                 not in use, but their neighbours are not told
//!                ●    ●       ●
//! ```
//! A push and a pop take a few instructions each. The tag of the block above still marks a block on
//! a stack as in use, so nothing joins it. Hasan & Chang leave the block's own IN_USE set as well.
//! Here it is cleared, at one instruction each way, so that heap walks and checked frees see that
//! the block is free.

use crate::error::Fault;
use crate::meter::Meter;
use crate::tags::{Block, Cells, Link, NONE};

/// The heads of `N` stacks, a power of two.
#[derive(Debug)]
pub(crate) struct Stacks<const N: usize> {
    heads: [u32; N],
}

impl<const N: usize> Stacks<N> {
    pub(crate) const fn new() -> Self {
        const { assert!(N.is_power_of_two()) };
        Self { heads: [NONE; N] }
    }

    /// Puts a block in use on a stack.
    #[inline(always)]
    pub(crate) fn push<M: Meter>(
        &mut self,
        start: u32,
        class: usize,
        cells: &mut Cells,
        meter: &M,
    ) {
        cells.set_in_use(start, false);
        self.link(start, class, cells, meter);
    }

    /// Puts a withheld block on a stack.
    #[inline(always)]
    pub(crate) fn link<M: Meter>(
        &mut self,
        start: u32,
        class: usize,
        cells: &mut Cells,
        meter: &M,
    ) {
        let head = &mut self.heads[class % N];
        cells.set_link(start, Link::First, *head);
        *head = start;
        meter.link(cells.header(start));
    }

    /// Takes the top block off a stack, if it has one, and marks it as in use.
    #[inline(always)]
    pub(crate) fn pop<M: Meter>(
        &mut self,
        class: usize,
        cells: &mut Cells,
        meter: &M,
    ) -> Option<u32> {
        let start = self.take(class, cells, meter)?;
        cells.set_in_use(start, true);
        Some(start)
    }

    /// Takes the top block off a stack, if it has one. The block is still withheld.
    #[inline(always)]
    pub(crate) fn take<M: Meter>(&mut self, class: usize, cells: &Cells, meter: &M) -> Option<u32> {
        let head = &mut self.heads[class % N];
        let start = *head;
        if start == NONE {
            return None;
        }
        meter.visit(cells.header(start));
        *head = cells.link(start, Link::First);
        Some(start)
    }

    /// Checks that each stack has as many blocks as `counts` says, and that each block `belongs` on
    /// its stack.
    pub(crate) fn audit(
        &self,
        counts: &[u32; N],
        cells: &Cells,
        belongs: impl Fn(usize, Block) -> bool,
    ) -> Result<(), Fault> {
        for (class, (&head, &count)) in self.heads.iter().zip(counts).enumerate() {
            let (mut node, mut members) = (head, 0);
            while node != NONE {
                let at = cells.contents(node).addr();
                members += 1;
                Fault::unless(members <= count, "a stack has each block of its class once", at)?;
                Fault::unless(node < cells.end(), "a link leads to a block", at)?;
                let belongs = belongs(class, cells.block(node));
                Fault::unless(belongs, "a stack has blocks of its class that are not in use", at)?;
                node = cells.link(node, Link::First);
            }
            let at = cells.origin().addr();
            Fault::unless(members == count, "a block that waits is on the stack of its class", at)?;
        }
        Ok(())
    }
}
