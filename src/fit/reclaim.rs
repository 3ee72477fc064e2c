//! When a freed block becomes free memory: at once, or when memory is scarce.
//!
//! | policy | a freed block | when a search fails |
//! |---|---|---|
//! | [`Immediate`] | joins its free neighbours | |
//! | [`Deferred`] | is free but not joined, and can serve a request of its size at once | free neighbours are joined (Hasan & Chang 2006, §2.3) |
//! | [`Collected`] | is *withheld*: it serves nothing | all withheld blocks are freed, in the order of their frees (Chung & Moon, §4.2) |
//!
//! With [`Collected`], Chung & Moon simulate a program with a garbage collector, whose heap grows
//! only if a collection did not help. A withheld block is marked in the two tags beside it and
//! links to the next:
//!
//! ```text
//! first ─▶ withheld ─▶ withheld ─▶ … ─▶ withheld ◀─ last        the oldest first
//! ```
//! A search fails if neither the index nor the present wilderness has a block large enough; only
//! then is the source asked for more. Unlike Hasan & Chang's, a deferred heap does not join its
//! blocks at every failed search, since a pass visits every block of the heap. It waits until a
//! sixteenth of the heap has been freed since the last pass, or the source is exhausted. So passes
//! cost O(1) for each freed cell, and a growing heap is not walked at every step.

use crate::error::Fault;
use crate::meter::Meter;
use crate::tags::{Block, Cells, Link, NONE};

/// When a freed block becomes free memory: [`Immediate`], [`Deferred`] or [`Collected`].
pub trait Reclaim: ReclaimPolicy {}

/// The methods of a [`Reclaim`] that a heap uses.
pub trait ReclaimPolicy: Sized {
    /// Nothing was freed.
    const EMPTY: Self;

    /// Whether free memory is always joined with free neighbours.
    const JOINS: bool;

    /// Whether there are withheld blocks.
    const WITHHOLDS: bool;

    /// Records that a block in use is freed. Returns whether it becomes free memory at once.
    fn free<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) -> bool;

    /// Returns whether to join free neighbours now, after a failed search of a heap of `cells`
    /// cells. `exhausted` means that there is no other memory.
    fn join_now(&mut self, _cells: u32, _exhausted: bool) -> bool {
        false
    }

    /// Takes the oldest withheld block off the list.
    fn take_withheld<M: Meter>(&mut self, _cells: &Cells, _meter: &M) -> Option<Block> {
        None
    }

    /// Checks the list of withheld blocks, and returns their number.
    fn withheld(&self, _cells: &Cells) -> Result<u32, Fault> {
        Ok(0)
    }
}

/// Freed blocks join their free neighbours at once.
#[derive(Debug)]
pub struct Immediate;

/// Freed blocks are free but not joined; neighbours are joined when a search fails.
#[derive(Debug)]
pub struct Deferred {
    /// Cells freed since neighbours were last joined.
    loose: u32,
}

/// Freed blocks are withheld until a search fails. Invariant: the list from `first` to `last` has
/// every withheld block; both are `NONE` iff there are none.
#[derive(Debug)]
pub struct Collected {
    first: u32,
    last: u32,
}

/// The link of a withheld block to the next.
const NEXT: Link = Link::First;

/// A deferred heap joins free neighbours once 1 / `LOOSE_PART` of its cells have been freed.
const LOOSE_PART: u32 = 16;

impl Reclaim for Immediate {}
impl Reclaim for Deferred {}
impl Reclaim for Collected {}

impl ReclaimPolicy for Immediate {
    const EMPTY: Self = Self;
    const JOINS: bool = true;
    const WITHHOLDS: bool = false;

    #[inline(always)]
    fn free<M: Meter>(&mut self, _: Block, _: &mut Cells, _: &M) -> bool {
        true
    }
}

impl ReclaimPolicy for Deferred {
    const EMPTY: Self = Self { loose: 0 };
    const JOINS: bool = false;
    const WITHHOLDS: bool = false;

    fn free<M: Meter>(&mut self, block: Block, _: &mut Cells, _: &M) -> bool {
        self.loose = self.loose.saturating_add(block.len);
        true
    }

    fn join_now(&mut self, cells: u32, exhausted: bool) -> bool {
        if self.loose < cells / LOOSE_PART && !exhausted {
            return false;
        }
        core::mem::take(&mut self.loose) > 0
    }
}

impl ReclaimPolicy for Collected {
    const EMPTY: Self = Self { first: NONE, last: NONE };
    const JOINS: bool = true;
    const WITHHOLDS: bool = true;

    fn free<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) -> bool {
        meter.link(cells.header(block.start));
        cells.set_in_use(block.start, false);
        cells.set_link(block.start, NEXT, NONE);
        match self.last {
            NONE => self.first = block.start,
            last => cells.set_link(last, NEXT, block.start),
        }
        self.last = block.start;
        false
    }

    fn take_withheld<M: Meter>(&mut self, cells: &Cells, meter: &M) -> Option<Block> {
        if self.first == NONE {
            return None;
        }
        meter.visit(cells.header(self.first));
        let block = cells.block(self.first);
        self.first = cells.link(block.start, NEXT);
        if self.first == NONE {
            self.last = NONE;
        }
        Some(block)
    }

    fn withheld(&self, cells: &Cells) -> Result<u32, Fault> {
        let (mut count, mut last, mut next) = (0, NONE, self.first);
        while next != NONE {
            let at = cells.contents(next).addr();
            // A list with more blocks than there are cells is a circle.
            let sound = next < cells.end() && count < cells.end();
            Fault::unless(
                sound && cells.is_withheld(cells.block(next)),
                "a listed block is withheld",
                at,
            )?;
            count += 1;
            last = next;
            next = cells.link(next, NEXT);
        }
        Fault::unless(
            self.last == last,
            "the last withheld block is known",
            cells.origin().addr(),
        )?;
        Ok(count)
    }
}
