//! Tags by *words* of four bytes, for a heap's most frequent operations.
//!
//! An address is formed from a word's number without shifting, and a header is a size in words
//! apart from the flags in its two lowest bits. Whether a neighbour is free is unpredictable, so a
//! branch on it is avoided: here a neighbour in use counts as a free block of 0 words.

use super::cells::Cells;
use super::header::{Flags, write_word};
use super::layout::{TAG, WORDS};

/// Words from a header up to its block's first word; the neighbour's footer, if there is one, is
/// below the header.
const HEADER: usize = 1;
const FOOTER: usize = 2;

/// Returns the size that a header tells, in words.
#[inline(always)]
fn size_of(header: u32) -> usize {
    (header & !Flags::all().bits()) as usize
}

impl Cells {
    /// Returns a word by its number: a tag, a free block's link, or one of those below the first
    /// header.
    #[inline(always)]
    pub(crate) fn word(&self, word: usize) -> u32 {
        debug_assert!(word < self.end() as usize * WORDS, "the word is of the cells");
        // SAFETY: the word lies in the cells, aligned, and outside the contents of blocks in use.
        unsafe { self.origin().cast::<u32>().wrapping_add(word).read() }
    }

    /// Changes a word: as [`word`](Self::word).
    #[inline(always)]
    pub(crate) fn set_word(&mut self, word: usize, to: u32) {
        debug_assert!(word < self.end() as usize * WORDS, "the word is of the cells");
        // SAFETY: as `word`; `&mut self` is exclusive.
        unsafe { write_word(self.origin().cast::<u32>().wrapping_add(word), to) };
    }

    /// Returns the words of the free block that ends at the word `end`; 0 if none does.
    #[inline(always)]
    pub(crate) fn free_below_word(&self, end: usize) -> usize {
        let flag = self.word(end - HEADER) & Flags::PREV_IN_USE.bits();
        let in_use = (flag >> Flags::PREV_IN_USE.bits().trailing_zeros()) as usize;
        // The header, where there is no footer: contents are not the heap's to read.
        let len = self.word(end - FOOTER + in_use) as usize * WORDS;
        len & in_use.wrapping_sub(1)
    }

    /// Returns the words of the free block that starts at the word `start`; 0 if none does.
    #[inline(always)]
    pub(crate) fn free_above_word(&self, start: usize) -> usize {
        let header = self.word(start - HEADER);
        let in_use = (header & Flags::IN_USE.bits()) >> Flags::IN_USE.bits().trailing_zeros();
        size_of(header) & (in_use as usize).wrapping_sub(1)
    }

    /// Makes `len` words from `start` on a free block whose neighbours are in use: a block that was
    /// in use up to `end`, joined with its neighbours. The header of the block above already tells
    /// that the block below is free, unless that header is at `end`; so it is not read, as it may
    /// not be in the cache.
    #[inline(always)]
    pub(crate) fn put_joined_words(&mut self, start: usize, len: usize, end: usize) {
        let above = self.word(end - HEADER);
        self.set_word(end - HEADER, above & !Flags::PREV_IN_USE.bits());
        self.set_word(start - HEADER, len as u32 | Flags::PREV_IN_USE.bits());
        self.set_word(start + len - FOOTER, (len / WORDS) as u32);
    }

    /// Splits the lower `len` words off the free block that starts at `start`, whose neighbours are
    /// in use, as a block in use. Returns how many words behind them stay free.
    #[inline(always)]
    pub(crate) fn split_words(&mut self, start: usize, len: usize) -> usize {
        let whole = self.words_at(start);
        self.divide_words(start, whole, len, Flags::PREV_IN_USE.bits())
    }

    /// Returns the words of the block that starts at the word `start`.
    #[inline(always)]
    pub(crate) fn words_at(&self, start: usize) -> usize {
        size_of(self.word(start - HEADER))
    }

    /// Returns the words to skip from the word `start` on for contents that lie at a multiple of
    /// `align` bytes.
    #[inline(always)]
    pub(crate) fn words_to_aligned(&self, start: usize, align: usize) -> usize {
        let address = self.origin().addr().wrapping_add(start * TAG);
        (address.wrapping_neg() & (align - 1)) / TAG
    }

    /// Puts `len` words of a free block to use, `gap` words above its start; its neighbours are in
    /// use. The gap, unless it is empty, is a free block. Returns how many words behind the used
    /// ones are free.
    #[inline(always)]
    pub(crate) fn carve_words(&mut self, block: usize, gap: usize, len: usize) -> usize {
        let (whole, start) = (self.words_at(block), block + gap);
        let mut flag = Flags::PREV_IN_USE.bits();
        if gap > 0 {
            self.set_word(block - HEADER, gap as u32 | flag);
            self.set_word(start - FOOTER, (gap / WORDS) as u32);
            flag = 0;
        }
        self.divide_words(start, whole - gap, len, flag)
    }

    /// Takes a block in use and the free one above it, `whole` words from `start` on, and makes
    /// their lower `len` words the block in use. Returns how many words behind them are free.
    #[inline(always)]
    pub(crate) fn resize_words(&mut self, start: usize, whole: usize, len: usize) -> usize {
        let flag = self.word(start - HEADER) & Flags::PREV_IN_USE.bits();
        self.divide_words(start, whole, len, flag)
    }

    /// Makes the lower `len` of `whole` words a block in use, with its flag of the block below, and
    /// the rest, which may be empty, a free one. Returns the words of the rest.
    #[inline(always)]
    fn divide_words(&mut self, start: usize, whole: usize, len: usize, flag: u32) -> usize {
        let (end, rest) = (start + whole, whole - len);
        self.set_word(start - HEADER, len as u32 | Flags::IN_USE.bits() | flag);
        let above = self.word(end - HEADER);
        if rest > 0 {
            self.set_word(start + len - HEADER, rest as u32 | Flags::PREV_IN_USE.bits());
            self.set_word(end - FOOTER, (rest / WORDS) as u32);
            self.set_word(end - HEADER, above & !Flags::PREV_IN_USE.bits());
        } else {
            self.set_word(end - HEADER, above | Flags::PREV_IN_USE.bits());
        }
        rest
    }
}
