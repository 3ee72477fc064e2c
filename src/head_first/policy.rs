//! What the heap's four compositions differ in: whether the unallocated region is asked first
//! ([`Order`]), and whether the block that was found is halved first ([`Halving`]).

use crate::sealed::Sealed;

/// Which free block is asked first.
pub trait Order: Sealed {
    /// Whether the unallocated region serves what it can, before anything is searched.
    #[doc(hidden)]
    const REGION_FIRST: bool;
}

/// The unallocated region, while it can serve the request; then the best fit (§4, Table 5).
#[derive(Debug)]
pub struct HeadFirst;

/// The best fit; the unallocated region is a free block as all others (§4, Table 4).
#[derive(Debug)]
pub struct NonHeadFirst;

/// Whether a block that was found is halved before the request is fitted into it.
pub trait Halving: Sealed {
    /// Whether it is, if the lower half holds the request.
    #[doc(hidden)]
    const CHUNKS_UP: bool;
}

/// It is: the request gets the low end, and the upper half takes what is left (Tables 3, 4).
#[derive(Debug)]
pub struct ChunkUp;

/// It is not: `SpaceFit` alone says where the request lies (Tables 2, 5).
#[derive(Debug)]
pub struct NoChunkUp;

impl Sealed for HeadFirst {}
impl Sealed for NonHeadFirst {}
impl Sealed for ChunkUp {}
impl Sealed for NoChunkUp {}

impl Order for HeadFirst {
    const REGION_FIRST: bool = true;
}

impl Order for NonHeadFirst {
    const REGION_FIRST: bool = false;
}

impl Halving for ChunkUp {
    const CHUNKS_UP: bool = true;
}

impl Halving for NoChunkUp {
    const CHUNKS_UP: bool = false;
}
