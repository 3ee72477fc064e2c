//! Lists of free blocks by size.

/// The number of a granule as it is stored in free memory: half a word, so that four fit into the
/// smallest block of two words.
#[cfg(target_pointer_width = "64")]
pub(super) type Half = u32;
/// The number of a granule as it is stored in free memory: half a word, so that four fit into the
/// smallest block of two words.
#[cfg(not(target_pointer_width = "64"))]
pub(super) type Half = u16;

/// Widens a granule number read from free memory.
#[inline(always)]
#[allow(clippy::unnecessary_cast)] // With words of 32 bits it is one.
pub(super) fn wide(half: Half) -> u32 {
    half as u32
}

/// Stands for no block.
pub(super) const NONE: u32 = 0;

/// The number of lists.
pub(super) const BINS: u32 = 64;

/// Each length below this has its own list; above, there are eight lists for each doubling.
pub(super) const EXACT: u32 = 16;

/// The first block of each list, and a bit for each list that is not empty.
#[derive(Debug)]
pub(super) struct Bins {
    heads: [Half; BINS as usize],
    filled: [usize; (BINS / usize::BITS) as usize],
}

/// Returns the list for blocks of `len` granules.
#[inline]
pub(super) fn bin_of(len: u32) -> u32 {
    if len < EXACT {
        return len;
    }
    // Like `ilog2`, without its check for 0.
    let doubling = 31 - len.leading_zeros();
    let bin = (doubling - 2) * 8 + (len >> (doubling - 3) & 7);
    bin.min(BINS - 1)
}

impl Bins {
    pub(super) const EMPTY: Self =
        Self { heads: [NONE as Half; BINS as usize], filled: [0; (BINS / usize::BITS) as usize] };

    #[inline(always)]
    pub(super) fn head(&self, bin: u32) -> u32 {
        wide(self.heads[(bin % BINS) as usize])
    }

    /// Makes `block` the first of a list.
    #[inline(always)]
    pub(super) fn put(&mut self, bin: u32, block: u32) {
        let bin = bin % BINS;
        self.heads[bin as usize] = block as Half;
        self.filled[(bin / usize::BITS) as usize] |= 1 << (bin % usize::BITS);
    }

    /// Removes the first block of a list; `next` is the block after it, or [`NONE`].
    #[inline(always)]
    pub(super) fn drop_first(&mut self, bin: u32, next: u32) {
        let bin = bin % BINS;
        self.heads[bin as usize] = next as Half;
        if next == NONE {
            self.filled[(bin / usize::BITS) as usize] &= !(1 << (bin % usize::BITS));
        }
    }

    /// Returns the first non-empty list from `bin` on.
    #[inline(always)]
    pub(super) fn filled_from(&self, bin: u32) -> Option<u32> {
        let mut mask = usize::MAX << (bin % usize::BITS);
        for index in bin / usize::BITS..BINS / usize::BITS {
            let word = self.filled[index as usize] & mask;
            if word != 0 {
                return Some(index * usize::BITS + word.trailing_zeros());
            }
            mask = usize::MAX;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_blocks_are_on_later_lists() {
        assert_eq!([2, 15, 16, 17, 18, 31, 32].map(bin_of), [2, 15, 16, 16, 17, 23, 24]);
        assert!(
            (2..if cfg!(miri) { 2_000 } else { 100_000 })
                .all(|len| bin_of(len) <= bin_of(len + 1) && bin_of(len) < BINS)
        );
        assert_eq!((bin_of(959), bin_of(960), bin_of(1 << 30)), (62, 63, 63));
    }

    #[test]
    fn a_list_with_a_block_is_found() {
        for filled in 0..BINS {
            let mut bins = Bins::EMPTY;
            bins.put(filled, 7);
            for from in 0..=BINS {
                assert_eq!(bins.filled_from(from), (from <= filled).then_some(filled));
            }
            bins.drop_first(filled, NONE);
            assert_eq!(bins.filled_from(0), None);
        }
    }
}
