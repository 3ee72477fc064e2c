//! Errors and the results of checks: [`AllocError`], [`FreeResult`], [`Fault`].

use core::fmt;

/// The reasons why a request cannot be served. The strategy is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AllocError {
    /// The source has no suitable memory left.
    Exhausted,
    /// The source had handed out memory before the strategy got it. A strategy lays out its memory
    /// from the source's first byte on, so it accepts only a source that was never used.
    UsedSource,
    /// There is no memory yet: an arena that was created [empty](crate::Arena::empty) has no region
    /// yet, [`Claims`](crate::arena::Claims) have no strategy yet, or the address of a
    /// [`Region`](crate::Region) is null.
    NoRegion,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted => f.write_str("memory exhausted"),
            Self::UsedSource => f.write_str("the strategy's source was used before"),
            Self::NoRegion => f.write_str("there is no memory yet: the heap was given no region"),
        }
    }
}

impl core::error::Error for AllocError {}

/// The result of a checked free ([`Strategy::try_free`](crate::Strategy::try_free)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a refused free frees nothing"]
pub enum FreeResult {
    /// The block was in use and is now free.
    Freed,
    /// No block in use that fits the layout starts there: a double free, an interior pointer, a
    /// foreign pointer, or a wrong layout. Nothing was changed.
    Unallocated,
    /// The block is in use, but belongs to another owner. Only
    /// [`HeadFirst`](crate::catalogue::HeadFirst) and its variants record owners. Nothing was
    /// changed.
    NotOwner,
}

/// A violated invariant, and the address of the structure that violates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The invariant, as a sentence that should be true.
    pub invariant: &'static str,
    /// Address of the structure (page, block, header) concerned.
    pub address: usize,
}

impl Fault {
    /// Returns `Ok` if `holds`, and the fault otherwise.
    pub(crate) fn unless(
        holds: bool,
        invariant: &'static str,
        address: usize,
    ) -> Result<(), Fault> {
        if holds { Ok(()) } else { Err(Fault { invariant, address }) }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invariant violated at {:#x}: {}", self.address, self.invariant)
    }
}

impl core::error::Error for Fault {}
