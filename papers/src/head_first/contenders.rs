//! The contenders of the benchmark: the four compositions, with the paper's search and ours.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

use pagewise::Strategy;
use pagewise::fit::{Best, First, HalfFit, Next, Worst};
use pagewise::head_first::{
    ChunkUp, FitFirst, NoChunkUp, Owner, RegionFirst, SpaceFitting, Traverse,
};
use pagewise::meter::{Meter, Part};
use pagewise::source::Region;

use super::script::Freeing;

/// Counts items visited.
#[derive(Debug, Default)]
pub(super) struct Visited(AtomicU64);

impl Visited {
    pub(super) fn items(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

// SAFETY: adding to an atomic never unwinds.
unsafe impl Meter for Visited {
    fn item(&self, _: usize, weight: u32) {
        self.0.fetch_add(u64::from(weight), Ordering::Relaxed);
    }
    fn served(&self, _: Part) {}
}

/// A composition and its search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contender {
    pub(super) name: &'static str,
    /// Searches and frees by traversing all blocks, as in the paper.
    pub(super) traverses: bool,
    plain: fn(Region, usize) -> Box<dyn Strategy + Send>,
    metered: for<'m> fn(Region, usize, &'m Visited) -> Box<dyn Strategy + Send + 'm>,
}

macro_rules! contender {
    ($name:literal, $order:ident, $halving:ident, $search:ident, $traverses:literal) => {
        Contender {
            name: $name,
            traverses: $traverses,
            plain: |region, bytes| {
                Box::new(heap::<$order, $halving, $search, _>(region, bytes, ()))
            },
            metered: |region, bytes, meter| {
                Box::new(heap::<$order, $halving, $search, _>(region, bytes, meter))
            },
        }
    };
}

/// Makes a heap that takes all of its memory at once, for this process's blocks.
fn heap<O, H, P, M>(region: Region, bytes: usize, meter: M) -> SpaceFitting<O, H, P, Region, M>
where
    O: pagewise::head_first::Order,
    H: pagewise::head_first::Halving,
    P: pagewise::fit::Index,
    M: Meter,
{
    let mut heap = SpaceFitting::new(bytes, region, meter);
    heap.set_owner(Owner(std::process::id()));
    heap
}

/// The paper's heap of Table 8.
pub(super) const TABLE_8: usize = 0;
/// The paper's heap of Table 9.
pub(super) const TABLE_9: usize = 1;

/// The four compositions with the paper's search, then with ours.
pub(super) const CONTENDERS: [Contender; 8] = [
    contender!("non-head-first, ChunkUp", FitFirst, ChunkUp, Traverse, true),
    contender!("head-first", RegionFirst, NoChunkUp, Traverse, true),
    contender!("non-head-first", FitFirst, NoChunkUp, Traverse, true),
    contender!("head-first, ChunkUp", RegionFirst, ChunkUp, Traverse, true),
    contender!("bins: non-head-first, ChunkUp", FitFirst, ChunkUp, Best, false),
    contender!("bins: head-first", RegionFirst, NoChunkUp, Best, false),
    contender!("bins: non-head-first", FitFirst, NoChunkUp, Best, false),
    contender!("bins: head-first, ChunkUp", RegionFirst, ChunkUp, Best, false),
];

/// Other fits, which the paper leaves open (§6): each without the region first, then with it.
pub(super) const OTHER_FITS: [Contender; 8] = [
    contender!("first fit", FitFirst, NoChunkUp, First, false),
    contender!("first fit, head-first", RegionFirst, NoChunkUp, First, false),
    contender!("next fit", FitFirst, NoChunkUp, Next, false),
    contender!("next fit, head-first", RegionFirst, NoChunkUp, Next, false),
    contender!("worst fit", FitFirst, NoChunkUp, Worst, false),
    contender!("worst fit, head-first", RegionFirst, NoChunkUp, Worst, false),
    contender!("half-fit", FitFirst, NoChunkUp, HalfFit, false),
    contender!("half-fit, head-first", RegionFirst, NoChunkUp, HalfFit, false),
];

impl Contender {
    /// Returns how it frees: the paper's Free traverses as well.
    pub(super) fn freeing(&self) -> Freeing {
        if self.traverses { Freeing::Checked } else { Freeing::Trusted }
    }

    pub(super) fn build<'m>(&self, memory: &'m mut Memory) -> Box<dyn Strategy + Send + 'm> {
        let bytes = memory.bytes();
        (self.plain)(memory.region(), bytes)
    }

    pub(super) fn build_metered<'m>(
        &self,
        memory: &'m mut Memory,
        meter: &'m Visited,
    ) -> Box<dyn Strategy + Send + 'm> {
        let bytes = memory.bytes();
        (self.metered)(memory.region(), bytes, meter)
    }
}

/// Memory used by one heap after another, so that none pays for page faults.
#[derive(Debug)]
pub(super) struct Memory(Vec<MaybeUninit<u128>>);

impl Memory {
    /// Returns `bytes` of touched memory, a multiple of 16.
    pub(super) fn new(bytes: usize) -> Self {
        Self(vec![MaybeUninit::new(1); bytes / size_of::<u128>()])
    }

    fn bytes(&self) -> usize {
        self.0.len() * size_of::<u128>()
    }

    fn region(&mut self) -> Region {
        let bytes = self.bytes();
        // SAFETY: `build` and `build_metered` borrow the memory for as long as the heap lives.
        unsafe { Region::new(self.0.as_mut_ptr().cast(), bytes) }
    }
}
