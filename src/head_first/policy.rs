//! The differences between the heap's four compositions: whether the unallocated region is tried
//! first ([`Order`]), and whether the block that was found is halved first ([`Halving`]).

/// Whether the unallocated region is tried before anything is searched: [`RegionFirst`], or not:
/// [`FitFirst`].
pub trait Order: OrderPolicy {}

/// The constants of an [`Order`] that the heap uses.
pub trait OrderPolicy {
    /// Whether the unallocated region serves every request that it can, before anything is
    /// searched.
    const REGION_FIRST: bool;
}

/// Head-first: the unallocated region, while it can serve the request; then the best fit (§4, Table
/// 5), or the given [`Index`](crate::fit::Index).
#[derive(Debug)]
pub struct RegionFirst;

/// Non-head-first: the best fit at once. The unallocated region is a free block like all others
/// (§4, Table 4).
#[derive(Debug)]
pub struct FitFirst;

/// Whether a block that was found is halved before the request is fitted into it: [`ChunkUp`] or
/// [`NoChunkUp`].
pub trait Halving: HalvingPolicy {}

/// The constants of a [`Halving`] that the heap uses.
pub trait HalvingPolicy {
    /// Whether a block is halved if its lower half holds the request.
    const CHUNKS_UP: bool;
}

/// The block is halved: the request gets the low end, the upper half the rest (Tables 3, 4).
#[derive(Debug)]
pub struct ChunkUp;

/// The block is not halved: `SpaceFit` alone places the request (Tables 2, 5).
#[derive(Debug)]
pub struct NoChunkUp;

impl Order for RegionFirst {}
impl Order for FitFirst {}
impl Halving for ChunkUp {}
impl Halving for NoChunkUp {}

impl OrderPolicy for RegionFirst {
    const REGION_FIRST: bool = true;
}

impl OrderPolicy for FitFirst {
    const REGION_FIRST: bool = false;
}

impl HalvingPolicy for ChunkUp {
    const CHUNKS_UP: bool = true;
}

impl HalvingPolicy for NoChunkUp {
    const CHUNKS_UP: bool = false;
}
