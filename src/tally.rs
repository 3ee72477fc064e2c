//! Counts the memory that a heap has in use.

use crate::strategy::Usage;

/// A number of bytes that changes when a block is resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Before.
    pub(crate) old: usize,
    /// Afterwards.
    pub(crate) new: usize,
}

impl Change {
    /// Returns the change of what stays the same.
    #[inline(always)]
    pub(crate) fn none(bytes: usize) -> Self {
        Self { old: bytes, new: bytes }
    }
}

/// Counters of the blocks in use.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Bytes requested. May be negative: a checked free accepts any layout that fits the block.
    requested: isize,
    /// Bytes of the blocks.
    block: usize,
    /// The most bytes ever requested at one time.
    peak_requested: isize,
    /// Blocks allocated since the beginning.
    allocations: u64,
    /// Blocks freed since the beginning.
    frees: u64,
    /// Whether blocks were freed by a layout that may not be the one they were requested with.
    is_estimate: bool,
}

impl Tally {
    /// Returns counters at zero.
    pub(crate) const fn new() -> Self {
        Self {
            requested: 0,
            block: 0,
            peak_requested: 0,
            allocations: 0,
            frees: 0,
            is_estimate: false,
        }
    }

    /// Counts an allocated block.
    #[inline(always)]
    pub(crate) fn allocated(&mut self, requested: usize, block: usize) {
        self.requested += requested as isize;
        self.block += block;
        self.allocations += 1;
        // A branch costs less than a maximum: it is predicted, as it mostly goes the same way.
        if self.requested > self.peak_requested {
            self.peak_requested = self.requested;
        }
    }

    /// Counts a freed block.
    #[inline(always)]
    pub(crate) fn freed(&mut self, requested: usize, block: usize) {
        self.requested -= requested as isize;
        self.block -= block;
        self.frees += 1;
    }

    /// Counts allocated blocks of `size` bytes each, as if the program had requested all bytes.
    pub(crate) fn allocated_many(&mut self, blocks: usize, size: usize) {
        self.requested += (blocks * size) as isize;
        self.block += blocks * size;
        self.allocations += blocks as u64;
        self.peak_requested = self.peak_requested.max(self.requested);
    }

    /// Counts freed blocks of `bytes` bytes together, as if the program had requested all bytes.
    pub(crate) fn freed_many(&mut self, blocks: usize, bytes: usize) {
        self.requested -= bytes as isize;
        self.block -= bytes;
        self.frees += blocks as u64;
    }

    /// Counts a block of `whole` bytes that was divided into `parts` of `size` bytes each, as if
    /// the program had requested all bytes.
    pub(crate) fn divided(&mut self, whole: usize, parts: usize, size: usize) {
        self.requested += (parts * size) as isize - whole as isize;
        self.block = self.block - whole + parts * size;
        self.allocations += parts as u64 - 1;
    }

    /// Counts a resized block: the bytes requested, and those of the block.
    #[inline(always)]
    pub(crate) fn resized(&mut self, requested: Change, block: Change) {
        self.requested += requested.new as isize - requested.old as isize;
        self.block = self.block - block.old + block.new;
        self.peak_requested = self.peak_requested.max(self.requested);
    }

    /// Notes that a block was freed whose layout nobody vouches for: it fitted the block, but the
    /// program may have requested another size. From now on the bytes requested are an estimate; it
    /// is corrected here as far as possible, so that its errors do not add up.
    pub(crate) fn note_unknown_layout(&mut self) {
        self.is_estimate = true;
        self.requested = self.requested.clamp(0, self.block as isize);
    }

    /// Returns the number of blocks in use.
    #[inline(always)]
    pub(crate) fn blocks(&self) -> usize {
        (self.allocations - self.frees) as usize
    }

    /// Returns the bytes of the blocks in use.
    pub(crate) fn block_bytes(&self) -> usize {
        self.block
    }

    /// Returns the number of blocks freed since the beginning.
    pub(crate) fn frees(&self) -> u64 {
        self.frees
    }

    /// Returns the usage. `held` and `peak_held` are the bytes that the heap's source holds, and
    /// the most that it held.
    #[inline]
    pub(crate) fn usage(&self, held: usize, peak_held: usize) -> Usage {
        // An estimate may be above what is possible: a block was freed with a smaller layout.
        let bounded = |bytes: isize, most: usize| match self.is_estimate {
            true => (bytes.max(0) as usize).min(most),
            false => bytes.max(0) as usize,
        };
        Usage {
            requested: bounded(self.requested, self.block),
            block: self.block,
            held,
            blocks: self.blocks(),
            peak_requested: bounded(self.peak_requested, peak_held),
            peak_held,
            allocations: self.allocations,
            frees: self.frees,
        }
    }
}
