//! What is on a thread's lists.

use core::iter::Sum;

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

impl Sum for Listed {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, next| Self {
            blocks: sum.blocks + next.blocks,
            bytes: sum.bytes + next.bytes,
        })
    }
}
