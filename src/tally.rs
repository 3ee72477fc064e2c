//! What a heap has in use, counted as it goes.

use crate::strategy::Usage;

/// Counts what is in use, cheaply.
#[derive(Debug)]
pub(crate) struct Tally {
    /// May be negative: a checked free takes any layout that fits the block.
    requested: isize,
    block: usize,
    peak_requested: isize,
    allocations: u64,
    frees: u64,
}

impl Tally {
    /// Nothing in use, nothing held.
    pub(crate) const fn new() -> Self {
        Self { requested: 0, block: 0, peak_requested: 0, allocations: 0, frees: 0 }
    }

    /// Counts a block put to use.
    #[inline(always)]
    pub(crate) fn allocated(&mut self, requested: usize, block: usize) {
        self.requested += requested as isize;
        self.block += block;
        self.allocations += 1;
        // Unlike a maximum, a branch costs next to nothing: it goes the same way for long.
        if self.requested > self.peak_requested {
            self.peak_requested = self.requested;
        }
    }

    /// Counts a block freed.
    #[inline(always)]
    pub(crate) fn freed(&mut self, requested: usize, block: usize) {
        self.requested -= requested as isize;
        self.block -= block;
        self.frees += 1;
    }

    /// Counts blocks put to use, each requested with all of its size.
    pub(crate) fn allocated_many(&mut self, blocks: usize, size: usize) {
        self.requested += (blocks * size) as isize;
        self.block += blocks * size;
        self.allocations += blocks as u64;
        self.peak_requested = self.peak_requested.max(self.requested);
    }

    /// Counts blocks freed, each requested with all of its size: how many, and their bytes together.
    pub(crate) fn freed_many(&mut self, blocks: usize, bytes: usize) {
        self.requested -= bytes as isize;
        self.block -= bytes;
        self.frees += blocks as u64;
    }

    /// Counts a block that changed its size in place, from the first to the second.
    #[inline(always)]
    pub(crate) fn resized(&mut self, requested: (usize, usize), block: (usize, usize)) {
        self.requested += requested.1 as isize - requested.0 as isize;
        self.block = self.block - block.0 + block.1;
        self.peak_requested = self.peak_requested.max(self.requested);
    }

    /// Blocks in use.
    #[inline(always)]
    pub(crate) fn blocks(&self) -> usize {
        (self.allocations - self.frees) as usize
    }

    /// Bytes of the blocks in use.
    pub(crate) fn block_bytes(&self) -> usize {
        self.block
    }

    /// Blocks freed since the beginning.
    pub(crate) fn frees(&self) -> u64 {
        self.frees
    }

    /// All but what is held, which the source knows.
    #[inline]
    pub(crate) fn usage(&self) -> Usage {
        Usage {
            requested: self.requested.max(0) as usize,
            block: self.block,
            held: 0,
            blocks: self.blocks(),
            peak_requested: self.peak_requested as usize,
            peak_held: 0,
            allocations: self.allocations,
            frees: self.frees,
        }
    }
}
