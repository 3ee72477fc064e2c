//! The layout of a block: cells, and the places of its words in them.

/// Bytes of a cell: blocks are aligned to it, and their sizes are multiples of it.
pub(crate) const CELL: usize = 16;

/// Bytes of a header.
pub(crate) const TAG: usize = size_of::<u32>();

/// Words of a cell.
pub(crate) const WORDS: usize = CELL / TAG;

/// No block: contents never start at the first cell, which holds a header.
pub(crate) const NONE: u32 = 0;

/// The places of the words, in bytes from a block's start.
pub(super) const HEADER: isize = -(TAG as isize);
pub(super) const LINK: isize = TAG as isize;
/// In bytes from the start of the block above.
pub(super) const FOOTER: isize = 2 * HEADER;

/// A block: its start and its length, in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Block {
    /// No block.
    pub(crate) const NONE: Self = Self { start: NONE, len: 0 };

    /// Returns the cells from `start` up to, not including, `end`.
    #[inline(always)]
    pub(crate) fn between(start: u32, end: u32) -> Self {
        Self { start, len: end - start }
    }

    /// Returns a block with the blocks right below and above it.
    #[inline(always)]
    pub(crate) fn joined_with(self, below: Option<Self>, above: Option<Self>) -> Self {
        let start = below.map_or(self.start, |below| below.start);
        Self::between(start, above.map_or(self.end(), Self::end))
    }

    /// Returns whether a cell is one of the block's.
    pub(crate) fn has(self, cell: u32) -> bool {
        (self.start..self.end()).contains(&cell)
    }

    /// Returns the start of the block above.
    pub(crate) fn end(self) -> u32 {
        self.start + self.len
    }
}

/// Which link of a free block; a block of one cell has two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    First,
    Second,
    Third,
    Fourth,
}
