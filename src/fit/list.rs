//! FIRST-FIT and NEXT-FIT over a list of the free blocks in address order, as the literature has
//! them (Knuth 1973, §2.5, algorithm A and exercise 6): O(n) to search, and to find a freed
//! block's place where no free neighbour shows it.
//!
//! ```text
//! first ─▶ [16] ⇄ [40] ⇄ [72] ⇄ … ⇄ [900]
//!                    ▲ rover
//! ```
//! The place of a freed block is looked for from that of the last one, downwards or upwards: programs
//! free neighbours together. Every block looked at is told to the meter. For a first fit in O(log n) see
//! [`FirstFit`](crate::first_fit::FirstFit).

use core::marker::PhantomData;

use super::policy::{Policy, fit};
use super::sealed;
use crate::block::tag::{Block, Cells, Link, NONE};
use crate::meter::Meter;
use crate::strategy::Fault;

/// The link to the block below, and to the one above.
const BELOW: Link = Link::First;
const ABOVE: Link = Link::Second;

/// Where a search of the list starts.
pub trait Start: sealed::Sealed {
    /// Whether it starts where the last one ended, and goes on from the list's end to its start.
    #[doc(hidden)]
    const ROVES: bool;
}

/// From the lowest block.
#[derive(Debug)]
pub struct Lowest;

/// From the block that the last search took, or from the one above it.
#[derive(Debug)]
pub struct Rover;

/// The list. Invariants: links lead to the next free block below and above; `rover` is a block of
/// the list, or `NONE` for its start; `recent` is the block that was last put in or replaced, or
/// one beside it, and `NONE` iff the list is empty.
#[derive(Debug)]
pub struct List<T> {
    first: u32,
    rover: u32,
    recent: u32,
    start: PhantomData<T>,
}

/// FIRST-FIT: the lowest block that fits.
pub type First = List<Lowest>;

/// NEXT-FIT: the next block that fits, from where the last search ended.
pub type Next = List<Rover>;

impl<T> List<T> {
    /// Sets the link above of `below`, or the list's start if that is [`NONE`].
    fn set_above(&mut self, below: u32, to: u32, cells: &mut Cells) {
        if below == NONE {
            self.first = to;
        } else {
            cells.set_link(below, ABOVE, to);
        }
    }

    /// Links a block in between two that were neighbours on the list.
    fn link<M: Meter>(&mut self, start: u32, below: u32, above: u32, cells: &mut Cells, meter: &M) {
        meter.link_double(cells.header(start));
        cells.set_link(start, BELOW, below);
        cells.set_link(start, ABOVE, above);
        self.set_above(below, start, cells);
        if above != NONE {
            cells.set_link(above, BELOW, start);
        }
    }

    /// The first block from `from` up to, not including, `to` that holds the request.
    fn search<M: Meter>(
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
            node = cells.link(node, ABOVE);
        }
        None
    }
}

impl<T> sealed::Sealed for List<T> {}

#[allow(private_interfaces, reason = "the trait is sealed; its methods are for this crate")]
impl<T: Start> Policy for List<T> {
    const EMPTY: Self = Self { first: NONE, rover: NONE, recent: NONE, start: PhantomData };

    fn insert<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) {
        let (mut below, mut above) = match self.recent {
            NONE => (NONE, self.first),
            recent if recent < block.start => (recent, cells.link(recent, ABOVE)),
            recent => (cells.link(recent, BELOW), recent),
        };
        while above != NONE && above < block.start {
            meter.visit(cells.header(above));
            below = above;
            above = cells.link(above, ABOVE);
        }
        while below != NONE && below > block.start {
            meter.visit(cells.header(below));
            above = below;
            below = cells.link(below, BELOW);
        }
        self.recent = block.start;
        self.link(block.start, below, above, cells, meter);
    }

    fn remove<M: Meter>(&mut self, block: Block, cells: &mut Cells, _: &M) {
        let below = cells.link(block.start, BELOW);
        let above = cells.link(block.start, ABOVE);
        self.set_above(below, above, cells);
        if above != NONE {
            cells.set_link(above, BELOW, below);
        }
        if self.rover == block.start {
            self.rover = above;
        }
        if self.recent == block.start {
            self.recent = if below == NONE { above } else { below };
        }
    }

    fn replace<M: Meter>(&mut self, old: Block, new: Block, cells: &mut Cells, meter: &M) {
        if new.start != old.start {
            let below = cells.link(old.start, BELOW);
            let above = cells.link(old.start, ABOVE);
            self.link(new.start, below, above, cells, meter);
            if self.rover == old.start {
                self.rover = new.start;
            }
        }
        self.recent = new.start;
    }

    fn find<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        let request = (len, align);
        if !T::ROVES || self.rover == NONE {
            let found = Self::search(self.first, NONE, request, cells, meter)?;
            if T::ROVES {
                self.rover = found.0.start;
            }
            return Some(found);
        }
        let found = Self::search(self.rover, NONE, request, cells, meter)
            .or_else(|| Self::search(self.first, self.rover, request, cells, meter))?;
        self.rover = found.0.start;
        Some(found)
    }

    fn audit(&self, cells: &Cells, visit: &mut dyn FnMut(Block)) -> Result<(), Fault> {
        let mut below = NONE;
        let mut node = self.first;
        let (mut roves, mut recent) = (self.rover == NONE, self.first == NONE);
        while node != NONE {
            let at = cells.contents(node).addr();
            Fault::unless(node < cells.end(), "a link leads to a block", at)?;
            Fault::unless(node > below, "the list is in address order", at)?;
            Fault::unless(!cells.is_in_use(node), "a block on the list is free", at)?;
            let linked = cells.link(node, BELOW) == below;
            Fault::unless(linked, "links below and above agree", at)?;
            visit(cells.block(node));
            roves |= self.rover == node;
            recent |= self.recent == node;
            below = node;
            node = cells.link(node, ABOVE);
        }
        let at = cells.origin().addr();
        Fault::unless(roves, "the rover is on the list", at)?;
        Fault::unless(recent, "the recent block is on the list", at)
    }
}

impl sealed::Sealed for Lowest {}
impl sealed::Sealed for Rover {}

impl Start for Lowest {
    const ROVES: bool = false;
}

impl Start for Rover {
    const ROVES: bool = true;
}
