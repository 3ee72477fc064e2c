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
    /// Bytes requested. May be negative: a checked free accepts any layout that fits the block. Has
    /// 64 bits everywhere, since blocks can have more than half of 32-bit addresses.
    requested: i64,
    /// Bytes of the blocks.
    block: usize,
    /// The most bytes ever requested at one time.
    peak_requested: i64,
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
        self.requested += requested as i64;
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
        self.requested -= requested as i64;
        self.block -= block;
        self.frees += 1;
    }

    /// Counts allocated blocks of `size` bytes each, as if the program had requested all bytes.
    pub(crate) fn allocated_many(&mut self, blocks: usize, size: usize) {
        self.requested += (blocks * size) as i64;
        self.block += blocks * size;
        self.allocations += blocks as u64;
        self.peak_requested = self.peak_requested.max(self.requested);
    }

    /// Counts freed blocks of `bytes` bytes together, as if the program had requested all bytes.
    pub(crate) fn freed_many(&mut self, blocks: usize, bytes: usize) {
        self.requested -= bytes as i64;
        self.block -= bytes;
        self.frees += blocks as u64;
    }

    /// Counts a block of `whole` bytes that was divided into `parts` of `size` bytes each, as if
    /// the program had requested all bytes.
    pub(crate) fn divided(&mut self, whole: usize, parts: usize, size: usize) {
        self.requested += (parts * size) as i64 - whole as i64;
        self.block = self.block - whole + parts * size;
        self.allocations += parts as u64 - 1;
    }

    /// Counts a resized block: the bytes requested, and those of the block.
    #[inline(always)]
    pub(crate) fn resized(&mut self, requested: Change, block: Change) {
        self.requested += requested.new as i64 - requested.old as i64;
        self.block = self.block - block.old + block.new;
        self.peak_requested = self.peak_requested.max(self.requested);
    }

    /// Notes that a block was freed whose layout nobody vouches for: it fitted the block, but the
    /// program may have requested another size. From now on the bytes requested are an estimate; it
    /// is corrected here as far as possible, so that its errors do not add up.
    pub(crate) fn note_unknown_layout(&mut self) {
        self.is_estimate = true;
        self.requested = self.requested.clamp(0, self.block as i64);
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
        let bounded = |bytes: i64, most: usize| {
            let bytes = usize::try_from(bytes.max(0)).unwrap_or(usize::MAX);
            if self.is_estimate { bytes.min(most) } else { bytes }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// (Regression: on 32 bits the bytes requested were negative, 0 in the usage, and counting
    /// panicked where overflows are checked.)
    #[test]
    fn blocks_can_have_more_than_half_of_all_addresses() {
        const BLOCK: usize = 1 << 30;
        let mut tally = Tally::new();
        let usage = |tally: &Tally| {
            let usage = tally.usage(3 * BLOCK, 3 * BLOCK);
            (usage.requested, usage.peak_requested)
        };
        for number in 1..=3 {
            tally.allocated(BLOCK - 1, BLOCK);
            assert_eq!(usage(&tally), (number * (BLOCK - 1), number * (BLOCK - 1)));
        }
        let (old, new) = (BLOCK - 1, BLOCK);
        tally.resized(Change { old, new }, Change::none(BLOCK));
        assert_eq!(usage(&tally), (3 * BLOCK - 2, 3 * BLOCK - 2));
        tally.note_unknown_layout();
        assert_eq!(usage(&tally), (3 * BLOCK - 2, 3 * BLOCK - 2));
        tally.freed(1, BLOCK);
        tally.note_unknown_layout();
        assert_eq!(usage(&tally), (2 * BLOCK, 3 * BLOCK - 2));

        tally = Tally::new();
        tally.allocated_many(3, BLOCK);
        tally.divided(BLOCK, 1, BLOCK);
        assert_eq!(usage(&tally), (3 * BLOCK, 3 * BLOCK));
        tally.freed_many(3, 3 * BLOCK);
        assert_eq!(usage(&tally), (0, 3 * BLOCK));
    }
}
