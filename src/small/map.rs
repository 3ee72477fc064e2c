//! The bitmap: one bit for each granule, which tells where blocks start and end and which are
//! free.

use core::ptr::NonNull;

/// One word of the bitmap.
type Word = usize;

/// Bits of a word.
const BITS: u32 = Word::BITS;

/// Bytes of a word.
const WORD: usize = size_of::<Word>();

/// The bits of a heap, in words that are stored downwards from `top`, in the order in which
/// dedicated memory is taken.
///
/// ```text
/// bit       0 1   2 3 4 5   6 7 8   9 10 11  12 …
///           0 1   0 0 0 1   1 1 1   0  1      0
///          bottom  in use    free  in use    the end
/// ```
/// Of a block in use, the last granule has a 1 and all others a 0; a free granule has a 1. A block
/// in use has at least two granules, so a 1 after a 1 is a free granule, and a 0 after a 1 starts a
/// block in use. Bits 0 and 1 stand for a block in use below the first granule, which therefore has
/// number 2. The bit at the end is 0, like the first bit of a block in use.
#[derive(Debug)]
pub(super) struct Map {
    /// The address just above word 0; null without memory.
    top: *mut Word,
    words: u32,
}

/// The lowest bits of word 0: the block in use below the first granule.
const BOTTOM: Word = 0b10;

impl Map {
    pub(super) const EMPTY: Self = Self { top: core::ptr::null_mut(), words: 0 };

    /// Returns the number of words for a heap that ends at granule `end`.
    pub(super) fn words_for(end: u32) -> u32 {
        end / BITS + 1
    }

    /// Returns the highest end of a heap with `words` words.
    pub(super) fn end_with(words: u32) -> u32 {
        words * BITS - 1
    }

    /// Returns the number of words.
    pub(super) fn words(&self) -> u32 {
        self.words
    }

    /// Adds `words` words to the map.
    ///
    /// # Safety
    /// The memory at `lowest` is valid for `words` words, zeroed, and from now on used only by the
    /// map. It is just below the words that the map has, if any.
    pub(super) unsafe fn extend(&mut self, lowest: NonNull<u8>, words: u32) {
        if self.words == 0 {
            self.top = lowest.as_ptr().cast::<Word>().wrapping_add(words as usize);
            self.words = words;
            *self.word(0) = BOTTOM;
        } else {
            debug_assert!(self.is_below(lowest, words), "words follow one another");
            self.words += words;
        }
    }

    /// Returns whether `words` words at `lowest` are just below those that the map has.
    pub(super) fn is_below(&self, lowest: NonNull<u8>, words: u32) -> bool {
        let bottom = self.top.addr() - self.words as usize * WORD;
        self.words == 0 || lowest.addr().get() + words as usize * WORD == bottom
    }

    /// Updates the address after all of the source's memory moved from `from` to `to`.
    pub(super) fn rebase(&mut self, from: usize, to: *mut u8) {
        if self.words > 0 {
            self.top = to.wrapping_add(self.top.addr().wrapping_sub(from)).cast();
        }
    }

    /// Returns the address of a word.
    #[inline(always)]
    fn place(&self, index: u32) -> *mut Word {
        debug_assert!(index < self.words, "the map has this word");
        self.top.wrapping_sub(index as usize + 1)
    }

    /// Returns a word, mutably.
    #[inline(always)]
    fn word(&mut self, index: u32) -> &mut Word {
        // SAFETY: the words below `words` are valid, initialised and used only by the map, which is
        // borrowed exclusively.
        unsafe { &mut *self.place(index) }
    }

    /// Returns whether a bit is set.
    #[inline(always)]
    pub(super) fn get(&self, bit: u32) -> bool {
        // SAFETY: as in `word`; `&self` excludes writes.
        let word = unsafe { *self.place(bit / BITS) };
        word >> (bit % BITS) & 1 != 0
    }

    /// Returns whether this granule is free. It must not be granule 0.
    #[inline(always)]
    pub(super) fn is_free(&self, granule: u32) -> bool {
        self.get(granule) && self.get(granule - 1)
    }

    /// Returns the bits from `bit` on, the first one lowest: at least two bits, or a single 0.
    #[inline(always)]
    pub(super) fn from(&self, bit: u32) -> Word {
        // SAFETY: as in `get`.
        let word = unsafe { *self.place(bit / BITS) } >> (bit % BITS);
        // The map ends with a 0, so it has another bit after a 1.
        if bit % BITS == BITS - 1 && word != 0 {
            1 | Word::from(self.get(bit + 1)) << 1
        } else {
            word
        }
    }

    /// Returns the number of free granules just below this one: 0, 1, or 2 for more than one.
    #[inline(always)]
    pub(super) fn free_below(&self, granule: u32) -> u32 {
        if granule % BITS >= 3 {
            // SAFETY: as in `get`.
            let word = unsafe { *self.place(granule / BITS) };
            // Shift the bit just below the granule to the top.
            let word = word << (BITS - granule % BITS);
            return (!word).leading_zeros().saturating_sub(1).min(2);
        }
        match () {
            () if !self.is_free(granule - 1) => 0,
            () if !self.is_free(granule - 2) => 1,
            () => 2,
        }
    }

    /// Returns whether a block in use starts at this granule.
    pub(super) fn starts_in_use(&self, granule: u32) -> bool {
        !self.get(granule) && self.get(granule - 1)
    }

    /// Sets or clears the bits from `from` up to, but not including, `end`; `from` < `end`.
    /// O(words).
    #[inline(always)]
    pub(super) fn fill<const SET: bool>(&mut self, from: u32, end: u32) {
        debug_assert!(from < end);
        let last = end - 1;
        let mut mask = Word::MAX << (from % BITS);
        for index in from / BITS..last / BITS {
            self.fill_word::<SET>(index, mask);
            mask = Word::MAX;
        }
        self.fill_word::<SET>(last / BITS, mask & Word::MAX >> (BITS - 1 - last % BITS));
    }

    /// Sets or clears the bits of a word that are set in `mask`.
    #[inline(always)]
    fn fill_word<const SET: bool>(&mut self, index: u32, mask: Word) {
        let word = self.word(index);
        *word = if SET { *word | mask } else { *word & !mask };
    }

    /// Returns the first granule from `from` up to `end` whose bit equals `set`, or else `end`.
    /// O(words).
    pub(super) fn find(&self, from: u32, end: u32, set: bool) -> u32 {
        let mut from = from;
        while from < end {
            // SAFETY: as in `get`.
            let word = unsafe { *self.place(from / BITS) };
            let rest = (if set { word } else { !word }) >> (from % BITS);
            if rest != 0 {
                return (from + rest.trailing_zeros()).min(end);
            }
            from = (from / BITS + 1) * BITS;
        }
        end
    }
}
