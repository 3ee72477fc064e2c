//! What is on a thread's lists.

use core::ops::Add;

/// A number of blocks, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::global::native) struct Listed {
    pub(in crate::global::native) blocks: usize,
    pub(in crate::global::native) bytes: usize,
}

impl Listed {
    /// Returns what `blocks` blocks of `size` bytes each amount to.
    pub(in crate::global::native) fn of_size(blocks: usize, size: usize) -> Self {
        Self { blocks, bytes: blocks * size }
    }
}

impl Add for Listed {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { blocks: self.blocks + other.blocks, bytes: self.bytes + other.bytes }
    }
}
