//! Searching words of bits.

use super::table::Table;
use crate::source::Source;
use crate::strategy::AllocError;

const BITS: usize = u64::BITS as usize;

/// A growable array of bits in dedicated memory, all 0 at first.
#[derive(Debug)]
pub(crate) struct Bits(Table<u64>);

impl Bits {
    pub(crate) const fn new() -> Self {
        Self(Table::new())
    }

    /// Takes memory for at least `len` bits.
    pub(crate) fn ensure<S: Source>(
        &mut self,
        len: usize,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.0.ensure(len.div_ceil(BITS), source)
    }

    pub(crate) fn get(&self, index: usize) -> bool {
        self.0.get(index / BITS) >> (index % BITS) & 1 != 0
    }

    pub(crate) fn set(&mut self, index: usize) {
        *self.0.get_mut(index / BITS) |= 1 << (index % BITS);
    }

    pub(crate) fn clear(&mut self, index: usize) {
        *self.0.get_mut(index / BITS) &= !(1 << (index % BITS));
    }

    /// The least set bit in `from..to`. O(to − from), a word at a time.
    pub(crate) fn next(&self, from: usize, to: usize) -> Option<usize> {
        let mut index = from;
        while index < to {
            let word = self.0.get(index / BITS) >> (index % BITS);
            if word != 0 {
                let found = index + word.trailing_zeros() as usize;
                return (found < to).then_some(found);
            }
            index = (index / BITS + 1) * BITS;
        }
        None
    }

    /// The greatest set bit in `from..to`. O(to − from), a word at a time.
    pub(crate) fn last(&self, from: usize, to: usize) -> Option<usize> {
        let mut end = to;
        while end > from {
            let last = end - 1;
            let word = self.0.get(last / BITS) << (BITS - 1 - last % BITS);
            if word != 0 {
                let found = last - word.leading_zeros() as usize;
                return (found >= from).then_some(found);
            }
            end = last / BITS * BITS;
        }
        None
    }
}

#[cfg(all(test, feature = "std", unix))]
mod tests {
    use super::*;
    use crate::source::Reserved;

    #[test]
    fn agrees_with_a_plain_search() {
        let mut source = Reserved::new(1 << 20);
        let mut bits = Bits::new();
        bits.ensure(300, &mut source).unwrap();
        let set = [0, 1, 63, 64, 130, 199, 255, 299];
        for index in set {
            bits.set(index);
        }
        for from in 0..300 {
            for to in from..300 {
                let inside = |index: &usize| (from..to).contains(index);
                assert_eq!(bits.next(from, to), set.into_iter().find(inside));
                assert_eq!(bits.last(from, to), set.into_iter().rev().find(inside));
            }
        }
        bits.clear(130);
        assert!(!bits.get(130) && bits.get(199));
        assert_eq!(bits.next(65, 300), Some(199));
    }
}
