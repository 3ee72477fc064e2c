//! The free-space area of lazy fits: memory from which requests are served by incrementing a
//! pointer (Chung & Moon, §3).
//!
//! ```text
//!              allocation pointer          bound pointer
//!                      ▼                         ▼
//!  … in use │ in use │ area                      │ in use …
//!            bumped ──▶
//! ```
//! A request is served from the area's lower end. If it is larger than the rest of the area, the
//! index chooses a free block: all of that block becomes the new area, and the rest of the old area
//! becomes free memory. The variants differ in how they treat a block freed beside the area:
//!
//! | paper | policy | a block freed beside the area |
//! |---|---|---|
//! | F, W | [`NoArea`] | without an area, a request is cut from the free block, whose rest stays free |
//! | LF, LW | [`Apart`] | is free memory like any other |
//! | LFB, LWB | [`Joining`] | is joined with the area, also below the allocation pointer |
//! | LFL, LWL | [`Releasing`] | the area is given back and joined with it; the next request gets a new one |
//!
//! The area is tagged as a block in use, with its own header at the allocation pointer, so its
//! neighbours do not join it. A used-up area keeps its place: a block freed right there counts as
//! beside it. The paper has no `realloc`; here a block below the area grows in place by a bump.
//!
//! Two more policies are ours, and combine with any of these. Lazy fits need more memory because
//! they place small blocks in large free ones (docs/lazy.md). These policies prevent that:
//! [`Bounded`] limits the area to some bytes of the free block that was found, and [`Sparing`]
//! never makes the wilderness the area.
//!
//! Invariants: the header of the area marks it as a block in use. Under [`Joining`] and
//! [`Releasing`], unless joining is deferred, no block beside the area is free, except above a
//! [`Bounded`] area.

use core::marker::PhantomData;

use crate::tags::CELL;

/// Whether a heap has a free-space area, and which freed blocks join it: [`NoArea`], [`Apart`],
/// [`Joining`] or [`Releasing`]; the last three optionally within [`Bounded`] or [`Sparing`].
pub trait Area: AreaPolicy {}

/// The constants of an [`Area`] that a heap uses.
pub trait AreaPolicy {
    /// Whether there is an area.
    const LAZY: bool;

    /// The treatment of a block freed beside it.
    const BESIDE: Beside;

    /// The most cells of a free block that become the area, unless the request needs more.
    const MOST: u32 = u32::MAX;

    /// Whether the wilderness is never the area.
    const SPARES_WILDERNESS: bool = false;
}

/// The treatment of a block freed beside the area.
pub enum Beside {
    /// It is free memory like any other.
    Apart,
    /// It is joined with the area.
    Joins,
    /// It is joined with the area, and both are free memory.
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

/// A block freed beside the area is joined with it, and both are free memory: the heap has no area
/// until the next allocation finds one.
#[derive(Debug)]
pub struct Releasing;

macro_rules! areas {
    ($($area:ident: $lazy:literal, $beside:ident;)*) => {$(
        impl Area for $area {}

        impl AreaPolicy for $area {
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

/// An area of at most `BYTES` bytes when it is new, or as long as the request if that is longer;
/// the rest of the free block stays free. `BYTES` is a multiple of 16.
#[derive(Debug)]
pub struct Bounded<A, const BYTES: usize>(PhantomData<A>);

/// An area that is never the wilderness: blocks are cut from the wilderness as in a conventional
/// fit.
#[derive(Debug)]
pub struct Sparing<A>(PhantomData<A>);

impl<A: Area, const BYTES: usize> Area for Bounded<A, BYTES> {}
impl<A: Area> Area for Sparing<A> {}

impl<A: Area, const BYTES: usize> AreaPolicy for Bounded<A, BYTES> {
    const LAZY: bool = A::LAZY;
    const BESIDE: Beside = A::BESIDE;
    const MOST: u32 = {
        assert!(BYTES > 0 && BYTES.is_multiple_of(CELL) && BYTES / CELL < u32::MAX as usize);
        (BYTES / CELL) as u32
    };
    const SPARES_WILDERNESS: bool = A::SPARES_WILDERNESS;
}

impl<A: Area> AreaPolicy for Sparing<A> {
    const LAZY: bool = A::LAZY;
    const BESIDE: Beside = A::BESIDE;
    const MOST: u32 = A::MOST;
    const SPARES_WILDERNESS: bool = true;
}
