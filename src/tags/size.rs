//! Converts bytes to cells and back, for blocks with `OVERHEAD` bytes in addition to the contents.

use super::header::MAX_CELLS;
use super::layout::CELL;

/// The arithmetic of a heap whose blocks each keep `OVERHEAD` bytes: a header, or header and owner.
pub(crate) enum Sizes<const OVERHEAD: usize> {}

impl<const OVERHEAD: usize> Sizes<OVERHEAD> {
    /// The most bytes that a block holds and that the machine can address.
    pub(crate) const MOST: usize = {
        let most = (MAX_CELLS as u64 - 1) * CELL as u64 - OVERHEAD as u64;
        if most > usize::MAX as u64 / 2 { usize::MAX / 2 } else { most as usize }
    };

    /// Returns the cells of the block that holds this many bytes, or `None` if none does.
    #[inline(always)]
    pub(crate) fn cells_for(bytes: usize) -> Option<u32> {
        (bytes <= Self::MOST).then(|| Self::cells_of(bytes))
    }

    /// Like [`cells_for`](Self::cells_for), for a number of bytes that a block is known to hold.
    #[inline(always)]
    pub(crate) fn cells_of(bytes: usize) -> u32 {
        // Rounds up; `div_ceil` would take twice the instructions, as it must not overflow.
        ((bytes + (OVERHEAD + CELL - 1)) >> CELL.ilog2()) as u32
    }

    /// Returns the bytes that a block of this many cells holds.
    #[inline(always)]
    pub(crate) const fn bytes(len: u32) -> usize {
        len as usize * CELL - OVERHEAD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_the_shortest_that_holds_its_bytes() {
        type Owned = Sizes<8>;
        for bytes in 1..5_000 {
            let cells = Owned::cells_of(bytes);
            assert!(Owned::bytes(cells) >= bytes && Owned::bytes(cells) - bytes < CELL, "{bytes}");
            assert_eq!(Owned::cells_for(bytes), Some(cells));
        }
        assert_eq!(Owned::cells_for(usize::MAX), None);
        assert_eq!(Owned::cells_for(Owned::MOST + 1), None);
        let longest = Owned::cells_for(Owned::MOST).expect("it is the most that a block holds");
        assert!(longest < MAX_CELLS);
    }
}
