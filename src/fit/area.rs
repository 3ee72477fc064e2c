//! The free-space area of lazy fits: memory that serves requests by the increment of a pointer
//! (Chung & Moon, §3).
//!
//! ```text
//!              allocation pointer          bound pointer
//!                      ▼                         ▼
//!  … in use │ in use │ area                      │ in use …
//!            bumped ──▶
//! ```
//! A request is served from the area's lower end. One that is larger than what is left of the area
//! is served as the policy has it, and the whole free block it chooses becomes the new area; the
//! rest of the old one is free memory again. The variants differ in what a block does that is freed
//! beside the area:
//!
//! | paper | policy | a block freed beside the area |
//! |---|---|---|
//! | F, W | [`NoArea`] | there is none: a request is cut from the free block, whose rest stays free |
//! | LF, LW | [`Apart`] | is free memory like any other |
//! | LFB, LWB | [`Joining`] | is joined with the area, also below the allocation pointer |
//! | LFL, LWL | [`Releasing`] | the area is given back and joined with it; the next request gets a new one |
//!
//! To its neighbours the area is a block in use, with a header of its own at the allocation
//! pointer, so that nothing else joins it. An area that was used up keeps its place: a block freed
//! right there is beside it. Deviations from the paper, which has no `realloc`: a block below the
//! area grows in place by a bump.
//!
//! Two more policies are ours, each over any of these. They keep small blocks out of large memory,
//! which is why lazy fits need more of it (docs/lazy.md): the area is no more than some bytes of the
//! free block that was found ([`Bounded`]), or never the wilderness ([`Sparing`]).
//!
//! Invariants: the area is a block whose header says in use; beside one that is [`Joining`] or
//! [`Releasing`] nothing is free, unless joining is deferred, but what a [`Bounded`] one left above.

use core::marker::PhantomData;

use super::heap::Heap;
use super::policy::Policy;
use super::reclaim::Reclaim;
use super::sealed;
use crate::block::tag::{Block, CELL};
use crate::error::Fault;
use crate::meter::Meter;

/// Whether a heap has a free-space area, and what is joined with it.
pub trait Area: sealed::Sealed {
    /// Whether there is an area.
    #[doc(hidden)]
    const LAZY: bool;

    /// What a block does that is freed beside it.
    #[doc(hidden)]
    #[allow(private_interfaces, reason = "the trait is sealed; this is for this crate")]
    const BESIDE: Beside;

    /// The most cells of a free block that become the area, if a request does not need more.
    #[doc(hidden)]
    const MOST: u32 = u32::MAX;

    /// Whether the wilderness is never the area.
    #[doc(hidden)]
    const SPARES_WILDERNESS: bool = false;
}

/// What a block does that is freed beside the area.
pub(crate) enum Beside {
    Apart,
    Joins,
    Releases,
}

/// No area: the conventional fits.
#[derive(Debug)]
pub struct NoArea;

/// Blocks freed beside the area are free memory like any other.
#[derive(Debug)]
pub struct Apart;

/// Blocks freed beside the area are joined with it.
#[derive(Debug)]
pub struct Joining;

/// A block freed beside the area is joined with it and both are free memory; there is no area then.
#[derive(Debug)]
pub struct Releasing;

macro_rules! areas {
    ($($area:ident: $lazy:literal, $beside:ident;)*) => {$(
        impl sealed::Sealed for $area {}

        #[allow(private_interfaces, reason = "the trait is sealed; this is for this crate")]
        impl Area for $area {
            const LAZY: bool = $lazy;
            const BESIDE: Beside = Beside::$beside;
        }
    )*};
}

areas! {
    NoArea: false, Apart;
    Apart: true, Apart;
    Joining: true, Joins;
    Releasing: true, Releases;
}

/// An area of which no more than `BYTES`, a multiple of 16, are ahead of the allocation pointer when
/// it is new; the rest of the free block stays free.
#[derive(Debug)]
pub struct Bounded<A, const BYTES: usize>(PhantomData<A>);

/// An area that is never the wilderness: what is cut from that is cut as the conventional fits do.
#[derive(Debug)]
pub struct Sparing<A>(PhantomData<A>);

impl<A, const BYTES: usize> sealed::Sealed for Bounded<A, BYTES> {}
impl<A> sealed::Sealed for Sparing<A> {}

#[allow(private_interfaces, reason = "the trait is sealed; this is for this crate")]
impl<A: Area, const BYTES: usize> Area for Bounded<A, BYTES> {
    const LAZY: bool = A::LAZY;
    const BESIDE: Beside = A::BESIDE;
    const MOST: u32 = {
        assert!(BYTES > 0 && BYTES.is_multiple_of(CELL) && BYTES / CELL < u32::MAX as usize);
        (BYTES / CELL) as u32
    };
    const SPARES_WILDERNESS: bool = A::SPARES_WILDERNESS;
}

#[allow(private_interfaces, reason = "the trait is sealed; this is for this crate")]
impl<A: Area> Area for Sparing<A> {
    const LAZY: bool = A::LAZY;
    const BESIDE: Beside = A::BESIDE;
    const MOST: u32 = A::MOST;
    const SPARES_WILDERNESS: bool = true;
}

impl<P: Policy, R: Reclaim, A: Area> Heap<P, R, A> {
    /// Puts `len` cells at a multiple of `align` bytes of the area to use, if it has them. O(1).
    #[inline(always)]
    pub(super) fn bump<M: Meter>(&mut self, len: u32, align: usize, meter: &M) -> Option<u32> {
        if !A::LAZY || len > self.area.len {
            return None;
        }
        let start = self.cells.aligned(self.area.start, align)?;
        if start.checked_add(len)? > self.area.end() {
            return None;
        }
        self.use_area(start, len, meter);
        Some(start)
    }

    /// Puts `len` cells of the area to use, from `start` on. What lies below them is free.
    #[inline(always)]
    pub(super) fn use_area<M: Meter>(&mut self, start: u32, len: u32, meter: &M) {
        let gap = self.cut(start - self.area.start);
        self.cut(len);
        if gap.len > 0 {
            self.make_free(gap, meter);
        }
    }

    /// Increments the allocation pointer: the lower `len` cells of the area are a block of their
    /// own, if they are any.
    #[inline(always)]
    fn cut(&mut self, len: u32) -> Block {
        if 0 < len && len < self.area.len {
            self.cells.divide(self.area, len);
        }
        let below = Block { start: self.area.start, len };
        self.area = Block { start: below.end(), len: self.area.len - len };
        below
    }

    /// Makes the area free memory. There is none then.
    #[inline]
    pub(super) fn give_back<M: Meter>(&mut self, meter: &M) {
        let rest = core::mem::replace(&mut self.area, Block::NONE);
        if rest.len > 0 {
            self.make_free(rest, meter);
        }
    }

    /// Whether a free block may become the area.
    #[inline(always)]
    pub(super) fn serves_as_area(&self, block: Block) -> bool {
        A::LAZY && !(A::SPARES_WILDERNESS && block.end() == self.cells.end())
    }

    /// Makes a free block the area, or its lower part, to `end` at least. `indexed` is the block, if
    /// the index has it still.
    pub(super) fn renew_area<M: Meter>(
        &mut self,
        block: Block,
        end: u32,
        indexed: Option<Block>,
        meter: &M,
    ) {
        let len = A::MOST.max(end - block.start).min(block.len);
        let rest = Block { start: block.start + len, len: block.len - len };
        let prev_in_use = self.cells.prev_is_in_use(block.start);
        self.area = Block { start: block.start, len };
        if rest.len > 0 {
            self.cells.put_free(rest, true);
        }
        self.cells.put_in_use(self.area, prev_in_use);
        self.exchange(indexed, self.indexed(rest), meter);
    }

    /// Whether a block lies right below the allocation pointer or right above the bound pointer.
    #[inline(always)]
    pub(super) fn adjoins_area(&self, block: Block) -> bool {
        block.end() == self.area.start || block.start == self.area.end()
    }

    /// Joins a block in use beside the area, and what is free beside that block, with the area.
    pub(super) fn extend_area<M: Meter>(&mut self, block: Block, meter: &M) {
        let joined = self.take_neighbours(block, meter);
        let start = joined.start.min(self.area.start);
        let end = joined.end().max(self.area.end());
        let prev_in_use = self.cells.prev_is_in_use(start);
        self.area = Block { start, len: end - start };
        self.cells.put_in_use(self.area, prev_in_use);
    }

    /// Whether a block is the area.
    #[inline(always)]
    pub(super) fn is_area(&self, block: Block) -> bool {
        A::LAZY && self.area.len > 0 && block.start == self.area.start
    }

    /// Makes a block in use right below the area `len` cells long, if less of it is wanted or the
    /// area has what is missing.
    pub(super) fn resize_beside_area<M: Meter>(
        &mut self,
        block: Block,
        len: u32,
        meter: &M,
    ) -> bool {
        if self.area.len == 0 || block.end() != self.area.start {
            return false;
        }
        if len < block.len {
            self.cells.divide(block, len);
            self.make_free(Block { start: block.start + len, len: block.len - len }, meter);
            return true;
        }
        let more = len - block.len;
        if more > self.area.len {
            if self.area.end() == self.cells.end() {
                // As the wilderness it can grow.
                self.give_back(meter);
            }
            return false;
        }
        let prev_in_use = self.cells.prev_is_in_use(block.start);
        self.cut(more);
        self.cells.put_in_use(Block { start: block.start, len }, prev_in_use);
        true
    }

    /// Checks what lies beside the area.
    pub(super) fn audit_area(&self) -> Result<(), Fault> {
        let (area, cells) = (self.area, &self.cells);
        if area.len == 0 || matches!(A::BESIDE, Beside::Apart) || !R::JOINS {
            return Ok(());
        }
        let at = cells.contents(area.start).addr();
        let bounded = A::MOST < u32::MAX;
        let above = if bounded { None } else { self.free_above(area.end()) };
        let alone = cells.prev_is_in_use(area.start) && above.is_none();
        Fault::unless(alone, "nothing beside the free-space area is free", at)
    }
}
