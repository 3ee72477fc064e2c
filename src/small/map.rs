//! The bitmap: one bit for each granule, from which blocks can be told apart.

use core::ptr::NonNull;

/// One word of the bitmap.
type Word = usize;

const BITS: u32 = Word::BITS;

/// Bytes of a word.
const WORD: usize = size_of::<Word>();

/// The bits of a heap. They lie in words that follow one another downwards from `top`, as dedicated memory
/// is taken.
///
/// ```text
/// bit       0 1   2 3 4 5   6 7 8   9 10 11  12 …
///           0 1   0 0 0 1   1 1 1   0  1      0
///          bottom  in use    free  in use    the end
/// ```
/// The last granule of a block in use has a 1, all others of it 0, and a free granule has a 1. A block in use has
/// two granules or more, so a 1 that follows a 1 is a free granule, and a 0 that follows a 1 starts a block in use.
/// Bits 0 and 1 stand for a block in use below the first granule, which therefore has number 2; the bit at
/// the end is 0, as that of a block in use.
#[derive(Debug)]
pub(super) struct Map {
    /// Just above word 0. Null without memory.
    top: *mut Word,
    words: u32,
}

/// What the lowest word starts with: the block below the first granule.
const BOTTOM: Word = 0b10;

impl Map {
    pub(super) const EMPTY: Self = Self { top: core::ptr::null_mut(), words: 0 };

    /// Words that are needed for a heap that ends at `end`.
    pub(super) fn words_for(end: u32) -> u32 {
        end / BITS + 1
    }

    /// Where a heap may end with so many words.
    pub(super) fn end_with(words: u32) -> u32 {
        words * BITS - 1
    }

    pub(super) fn words(&self) -> u32 {
        self.words
    }

    /// Takes over `words` more words.
    ///
    /// # Safety
    /// The memory at `lowest` is valid for so many words, zeroed, the map's alone, and stays so. It lies right
    /// below the words that the map has, if any.
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

    /// Whether `words` words at this address lie right below those the map has.
    pub(super) fn is_below(&self, lowest: NonNull<u8>, words: u32) -> bool {
        let bottom = self.top.addr() - self.words as usize * WORD;
        self.words == 0 || lowest.addr().get() + words as usize * WORD == bottom
    }

    /// All of the source's memory, which began at `from`, lies at `to` now.
    pub(super) fn rebase(&mut self, from: usize, to: *mut u8) {
        if self.words > 0 {
            self.top = to.wrapping_add(self.top.addr().wrapping_sub(from)).cast();
        }
    }

    #[inline(always)]
    fn place(&self, index: u32) -> *mut Word {
        debug_assert!(index < self.words, "the map has this word");
        self.top.wrapping_sub(index as usize + 1)
    }

    #[inline(always)]
    fn word(&mut self, index: u32) -> &mut Word {
        // SAFETY: the words below `words` are valid, initialised and the map's alone; `&mut self` is exclusive.
        unsafe { &mut *self.place(index) }
    }

    #[inline(always)]
    pub(super) fn get(&self, bit: u32) -> bool {
        // SAFETY: as `word`; `&self` excludes writers.
        let word = unsafe { *self.place(bit / BITS) };
        word >> (bit % BITS) & 1 != 0
    }

    /// Whether this granule is free; it is not the lowest of the bottom.
    #[inline(always)]
    pub(super) fn is_free(&self, granule: u32) -> bool {
        self.get(granule) && self.get(granule - 1)
    }

    /// The bits from `bit` on, the first one lowest: at least two of them, or one that is 0.
    #[inline(always)]
    pub(super) fn from(&self, bit: u32) -> Word {
        // SAFETY: as `get`.
        let word = unsafe { *self.place(bit / BITS) } >> (bit % BITS);
        // The end has a 0: above a 1 the map goes on.
        if bit % BITS == BITS - 1 && word != 0 {
            1 | Word::from(self.get(bit + 1)) << 1
        } else {
            word
        }
    }

    /// Granules that are free below this one: 0, 1, or more than 1, all of which 2 stands for.
    #[inline(always)]
    pub(super) fn free_below(&self, granule: u32) -> u32 {
        if granule % BITS >= 3 {
            // SAFETY: as `get`.
            let word = unsafe { *self.place(granule / BITS) };
            // The bit right below comes to lie highest.
            let word = word << (BITS - granule % BITS);
            return (!word).leading_zeros().saturating_sub(1).min(2);
        }
        match () {
            () if !self.is_free(granule - 1) => 0,
            () if !self.is_free(granule - 2) => 1,
            () => 2,
        }
    }

    /// Whether a block in use starts at this granule.
    pub(super) fn starts_in_use(&self, granule: u32) -> bool {
        !self.get(granule) && self.get(granule - 1)
    }

    /// Sets or clears the bits from `from` to below `end`, which is above. O(words).
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

    #[inline(always)]
    fn fill_word<const SET: bool>(&mut self, index: u32, mask: Word) {
        let word = self.word(index);
        *word = if SET { *word | mask } else { *word & !mask };
    }

    /// The first granule from `from` on whose bit is `set`, below `end`; else `end`. O(words).
    pub(super) fn find(&self, from: u32, end: u32, set: bool) -> u32 {
        let mut from = from;
        while from < end {
            // SAFETY: as `get`.
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
