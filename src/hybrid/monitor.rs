//! The heap's counts of its own work (§3.11, MONITOR).

/// Figures since the beginning, kept if MONITOR is on. Bytes in use and held, and the numbers of
/// allocations and frees, are always known: [`Usage`](crate::Usage).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Monitor {
    /// The most blocks that were in use at one time.
    pub most_blocks: usize,
    /// Bytes requested in all.
    pub requested: u64,
    /// Allocations served by a quick list.
    pub quick: u64,
    /// Free blocks that were split.
    pub splits: u64,
    /// Blocks put on a quick list by preallocation.
    pub preallocated: u64,
    /// Free blocks that found free neighbours when they were joined.
    pub joins: u64,
    /// How often all free blocks were joined.
    pub complete_coalescings: u64,
    /// How often the heap asked its source for more.
    pub growths: u64,
}

impl Monitor {
    pub(super) const fn new() -> Self {
        Self {
            most_blocks: 0,
            requested: 0,
            quick: 0,
            splits: 0,
            preallocated: 0,
            joins: 0,
            complete_coalescings: 0,
            growths: 0,
        }
    }
}
