//! What the heap's four compositions differ in: whether the unallocated region is asked first
//! ([`Order`]), and whether the block that was found is halved first ([`Halving`]).

/// Which free block is asked first: [`HeadFirst`] or [`NonHeadFirst`].
pub trait Order: OrderPolicy {}

/// What the heap asks of an order.
pub trait OrderPolicy {
    /// Whether the unallocated region serves what it can, before anything is searched.
    const REGION_FIRST: bool;
}

/// The unallocated region, while it can serve the request; then the best fit (§4, Table 5).
#[derive(Debug)]
pub struct HeadFirst;

/// The best fit; the unallocated region is a free block as all others (§4, Table 4).
#[derive(Debug)]
pub struct NonHeadFirst;

/// Whether a block that was found is halved before the request is fitted into it: [`ChunkUp`] or
/// [`NoChunkUp`].
pub trait Halving: HalvingPolicy {}

/// What the heap asks of a policy of halving.
pub trait HalvingPolicy {
    /// Whether it is, if the lower half holds the request.
    const CHUNKS_UP: bool;
}

/// It is: the request gets the low end, and the upper half takes the rest (Tables 3, 4).
#[derive(Debug)]
pub struct ChunkUp;

/// It is not: `SpaceFit` alone says where the request lies (Tables 2, 5).
#[derive(Debug)]
pub struct NoChunkUp;

impl Order for HeadFirst {}
impl Order for NonHeadFirst {}
impl Halving for ChunkUp {}
impl Halving for NoChunkUp {}

impl OrderPolicy for HeadFirst {
    const REGION_FIRST: bool = true;
}

impl OrderPolicy for NonHeadFirst {
    const REGION_FIRST: bool = false;
}

impl HalvingPolicy for ChunkUp {
    const CHUNKS_UP: bool = true;
}

impl HalvingPolicy for NoChunkUp {
    const CHUNKS_UP: bool = false;
}
