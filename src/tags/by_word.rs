//! Tags by *words* of four bytes, for what a heap does most often.
//!
//! An address is formed from a word's number without shifting, and a header is a size in words but for
//! the flags in its two lowest bits. And whether a neighbour is free, no branch could foretell: here
//! one that is in use is a free block of no words.

use super::cells::Cells;
use super::header::{Flags, write_word};
use super::layout::WORDS;

/// Where a block's header lies, in words below its first; its neighbour's footer, if there is one,
/// lies below.
const HEADER: usize = 1;
const FOOTER: usize = 2;

/// The size that a header tells, in words.
#[inline(always)]
fn size_of(header: u32) -> usize {
    (header & !Flags::all().bits()) as usize
}

impl Cells {
    /// A word by its number: a tag, a free block's link, or one of those below the first header.
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

    /// Words of the free block that ends at the word `end`; 0 if none does.
    #[inline(always)]
    pub(crate) fn free_below_word(&self, end: usize) -> usize {
        let is_free = usize::from(self.word(end - HEADER) & Flags::PREV_IN_USE.bits() == 0);
        // The header, where there is no footer: contents are not the heap's to read.
        let len = self.word(end - HEADER - is_free) as usize * WORDS;
        len & 0usize.wrapping_sub(is_free)
    }

    /// Words of the free block that starts at the word `start`; 0 if none does.
    #[inline(always)]
    pub(crate) fn free_above_word(&self, start: usize) -> usize {
        let header = self.word(start - HEADER);
        let is_free = usize::from(header & Flags::IN_USE.bits() == 0);
        size_of(header) & 0usize.wrapping_sub(is_free)
    }

    /// Makes `len` words from `start` on a free block whose neighbours are in use: a block that was
    /// in use up to `end`, and those it is joined with. The block above knows already of a free one
    /// below, but if it starts at `end`; else its header, perhaps long not touched, is not read.
    #[inline(always)]
    pub(crate) fn put_joined_words(&mut self, start: usize, len: usize, end: usize) {
        let above = self.word(end - HEADER);
        self.set_word(end - HEADER, above & !Flags::PREV_IN_USE.bits());
        self.set_word(start - HEADER, len as u32 | Flags::PREV_IN_USE.bits());
        self.set_word(start + len - FOOTER, (len / WORDS) as u32);
    }

    /// Splits the lower `len` words off the free block that starts at `start`, whose neighbours are
    /// in use, as a block in use; how many words behind them stay free.
    #[inline(always)]
    pub(crate) fn split_words(&mut self, start: usize, len: usize) -> usize {
        let whole = size_of(self.word(start - HEADER));
        self.divide_words(start, whole, len, Flags::PREV_IN_USE.bits())
    }

    /// Makes the lower `len` words of a block in use and the free one above it, `whole` words from
    /// `start` on together, the block in use; how many words behind them are free.
    #[inline(always)]
    pub(crate) fn resize_words(&mut self, start: usize, whole: usize, len: usize) -> usize {
        let flag = self.word(start - HEADER) & Flags::PREV_IN_USE.bits();
        self.divide_words(start, whole, len, flag)
    }

    /// Makes the lower `len` of `whole` words a block in use, with its flag of the block below, and
    /// the rest, perhaps nothing, a free one; how many words that has.
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
