//! When a freed block becomes free memory: at once, or when memory is scarce.
//!
//! | policy | a freed block | when a search fails |
//! |---|---|---|
//! | [`Immediate`] | joins its free neighbours | |
//! | [`Deferred`] | is free as it is, and can serve a request of its size at once | free neighbours are joined (Hasan & Chang 2006, §2.3) |
//! | [`Collected`] | is *withheld*: it serves nothing | all withheld blocks are freed, in the order of their frees (Chung & Moon, §4.2) |
//!
//! [`Collected`] is how Chung & Moon simulate a program with a garbage collector, whose heap grows
//! only when a collection did not help. A withheld block is marked in the two tags beside it and links
//! to the next:
//!
//! ```text
//! first ─▶ withheld ─▶ withheld ─▶ … ─▶ withheld ◀─ last        the oldest first
//! ```
//! A search fails if neither the index nor the wilderness as it is has a block large enough; only
//! then is the source asked for more. Unlike Hasan & Chang's, a deferred heap does not join its
//! blocks at every such failure: a pass visits every block of the heap, so it waits until a
//! sixteenth of the heap was freed since the last one, or the source is exhausted. So a pass costs
//! O(1) for each cell freed, where otherwise a growing heap would be walked at every step.

use super::area::Area;
use super::heap::Heap;
use super::policy::Policy;
use super::sealed;
use crate::block::tag::{Block, Cells, Link, NONE};
use crate::error::Fault;
use crate::meter::Meter;

/// When a freed block becomes free memory.
#[allow(private_interfaces, reason = "the trait is sealed; its methods are for this crate")]
pub trait Reclaim: sealed::Sealed + Sized {
    /// Nothing was freed.
    #[doc(hidden)]
    const EMPTY: Self;

    /// Whether free memory is always joined with free neighbours.
    #[doc(hidden)]
    const JOINS: bool;

    /// Whether there are withheld blocks.
    #[doc(hidden)]
    const WITHHOLDS: bool;

    /// Frees a block in use.
    #[doc(hidden)]
    fn release<P: Policy, A: Area, M: Meter>(heap: &mut Heap<P, Self, A>, block: Block, meter: &M);

    /// Makes more of what was freed; says whether it did. `exhausted`: there is nothing else left.
    #[doc(hidden)]
    fn reclaim<P: Policy, A: Area, M: Meter>(
        heap: &mut Heap<P, Self, A>,
        exhausted: bool,
        meter: &M,
    ) -> bool;

    /// Checks the list of withheld blocks, and counts them.
    #[doc(hidden)]
    fn withheld(&self, cells: &Cells) -> Result<u32, Fault>;
}

/// Freed blocks join their free neighbours at once.
#[derive(Debug)]
pub struct Immediate;

/// Freed blocks are free as they are; neighbours are joined when a search fails.
#[derive(Debug)]
pub struct Deferred {
    /// Cells freed since neighbours were last joined.
    loose: u32,
}

/// Freed blocks are withheld until a search fails. Invariant: `first` leads to every withheld block, of
/// which `last` is the last; `NONE` iff there are none.
#[derive(Debug)]
pub struct Collected {
    first: u32,
    last: u32,
}

/// The link of a withheld block to the next.
const NEXT: Link = Link::First;

/// A deferred heap joins free neighbours once this part of it was freed.
const LOOSE_PART: u32 = 16;

impl sealed::Sealed for Immediate {}
impl sealed::Sealed for Deferred {}
impl sealed::Sealed for Collected {}

#[allow(private_interfaces, reason = "the trait is sealed; its methods are for this crate")]
impl Reclaim for Immediate {
    const EMPTY: Self = Self;
    const JOINS: bool = true;
    const WITHHOLDS: bool = false;

    #[inline(always)]
    fn release<P: Policy, A: Area, M: Meter>(heap: &mut Heap<P, Self, A>, block: Block, meter: &M) {
        heap.make_free(block, meter);
    }

    #[inline(always)]
    fn reclaim<P: Policy, A: Area, M: Meter>(_: &mut Heap<P, Self, A>, _: bool, _: &M) -> bool {
        false
    }

    fn withheld(&self, _: &Cells) -> Result<u32, Fault> {
        Ok(0)
    }
}

#[allow(private_interfaces, reason = "the trait is sealed; its methods are for this crate")]
impl Reclaim for Deferred {
    const EMPTY: Self = Self { loose: 0 };
    const JOINS: bool = false;
    const WITHHOLDS: bool = false;

    fn release<P: Policy, A: Area, M: Meter>(heap: &mut Heap<P, Self, A>, block: Block, meter: &M) {
        heap.reclaim.loose = heap.reclaim.loose.saturating_add(block.len);
        heap.make_free(block, meter);
    }

    fn reclaim<P: Policy, A: Area, M: Meter>(
        heap: &mut Heap<P, Self, A>,
        exhausted: bool,
        meter: &M,
    ) -> bool {
        let loose = core::mem::take(&mut heap.reclaim.loose);
        if loose < heap.cells.end() / LOOSE_PART && !exhausted {
            heap.reclaim.loose = loose;
            return false;
        }
        loose > 0 && join_all(heap, meter)
    }

    fn withheld(&self, _: &Cells) -> Result<u32, Fault> {
        Ok(0)
    }
}

/// Joins all free neighbours; says whether there were any. O(n).
fn join_all<P: Policy, A: Area, M: Meter>(heap: &mut Heap<P, Deferred, A>, meter: &M) -> bool {
    let mut joined_any = false;
    let mut start = heap.cells.first();
    while start < heap.cells.end() {
        let mut joined = heap.cells.block(start);
        meter.visit(heap.cells.header(start));
        if let Some(mut free) = heap.cells.free_above(start) {
            while let Some(above) = heap.cells.free_above(joined.end()) {
                heap.exchange(heap.indexed(free), None, meter);
                joined.len += above.len;
                free = above;
            }
            if free != joined {
                heap.exchange(heap.indexed(free), None, meter);
                heap.cells.put_free(joined, true);
                heap.exchange(None, heap.indexed(joined), meter);
                joined_any = true;
            }
        }
        start = joined.end();
    }
    joined_any
}

#[allow(private_interfaces, reason = "the trait is sealed; its methods are for this crate")]
impl Reclaim for Collected {
    const EMPTY: Self = Self { first: NONE, last: NONE };
    const JOINS: bool = true;
    const WITHHOLDS: bool = true;

    fn release<P: Policy, A: Area, M: Meter>(heap: &mut Heap<P, Self, A>, block: Block, meter: &M) {
        meter.link(heap.cells.header(block.start));
        heap.cells.set_in_use(block.start, false);
        heap.cells.set_link(block.start, NEXT, NONE);
        match heap.reclaim.last {
            NONE => heap.reclaim.first = block.start,
            last => heap.cells.set_link(last, NEXT, block.start),
        }
        heap.reclaim.last = block.start;
    }

    fn reclaim<P: Policy, A: Area, M: Meter>(
        heap: &mut Heap<P, Self, A>,
        _: bool,
        meter: &M,
    ) -> bool {
        let mut next = core::mem::replace(&mut heap.reclaim, Self::EMPTY).first;
        let any = next != NONE;
        while next != NONE {
            meter.visit(heap.cells.header(next));
            let block = heap.cells.block(next);
            next = heap.cells.link(next, NEXT);
            heap.make_free(block, meter);
        }
        any
    }

    fn withheld(&self, cells: &Cells) -> Result<u32, Fault> {
        let (mut count, mut last, mut next) = (0, NONE, self.first);
        while next != NONE {
            let at = cells.contents(next).addr();
            // More blocks than there are cells are a circle.
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
