//! What can go wrong, and what a check answers: [`AllocError`], [`Freed`], [`Fault`].

use core::fmt;

/// Why a request could not be served. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AllocError {
    /// The source has no more memory that would do.
    Exhausted,
    /// The strategy's source had handed out memory before the strategy got it. A strategy lays out
    /// its memory from the source's first byte on and takes no source that others have used.
    UsedSource,
    /// There is no memory yet: an arena that was [made empty](crate::Arena::empty) has not been given its region, or
    /// a [`Region`](crate::Region) was made of no address.
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

/// The answer of a checked free ([`Strategy::try_free`](crate::Strategy::try_free)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a refused free frees nothing"]
pub enum Freed {
    /// The block was in use and is now free.
    Freed,
    /// No block in use starts there, or not one of that layout: a double free, an interior or a
    /// foreign pointer. Nothing was changed.
    Unallocated,
    /// The block is in use, but another's ([`HeadFirst`](crate::catalogue::HeadFirst) knows whose
    /// its blocks are). Nothing was changed.
    NotOwner,
}

/// A violated invariant: what should hold, and the address of the structure in which it does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// The invariant, as a sentence that should be true.
    pub invariant: &'static str,
    /// Address of the structure (page, block, header) concerned.
    pub address: usize,
}

impl Fault {
    /// `Ok` if `holds`, else the fault.
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
