//! GOOD-FIT: free blocks on lists by size, the sizes of a list close together; constant time.
//!
//! ```text
//! list      1  2  3 …  63 | 64–65  66–67  …  126–127 | 128–131  132–135 …       cells
//! occupied  0  1  1     0 |   1      0          1    |    0        0            bits
//! ```
//! Below 64 cells (1 KiB) a list has blocks of one size; above, there are 32 lists for each
//! doubling, so that any two sizes of a list differ by less than a thirty-second. A request takes
//! the first block of the first list whose blocks are all large enough, found by a word or two of
//! bits: TLSF (Masmano, Ripoll, Crespo & Real 2004). So a block on the list of the request's own
//! size may be passed over although it is large enough. That wastes the most memory, and a look at
//! the list costs the least, for requests of 16 KiB and more. These are served from their own list
//! if one of its first few blocks fits (an aligned request fits exactly where an aligned block was
//! before). If there is no other memory, the whole list is searched.
//!
//! Compared with [`Best`](super::Best), it takes about half the instructions, but does not choose
//! the lowest of equal blocks.

use super::heap::TagHeap;
use super::index::{Index, IndexPolicy, certain, fit};
use crate::error::Fault;
use crate::meter::Meter;
use crate::tags::{Block, CELL, Cells, MAX_CELLS, WORDS};

/// log₂ of the lists for each doubling.
const SUBDIVISION: u32 = 5;

/// Number of lists: 2·32 for the exact sizes, 32 for each doubling above up to 2³⁰ cells, rounded
/// up so that any number modulo this is a list's.
const LISTS: usize = 1 << (SUBDIVISION + 5);

/// The number of words of bits that tell which lists have blocks.
const BITS: usize = LISTS / u64::BITS as usize;

/// The words of a free block that hold its links.
const NEXT: usize = 0;
const BACK: usize = 1;

/// The dummy, a block on no list. Its links lead to the end and to itself, so that taking it out
/// changes nothing.
pub(super) const DUMMY: usize = 0;

/// The end, behind the last block of every list. Its `back` is written to, but not read.
const END: usize = 2;

/// The anchor of the first list.
const ANCHORS: usize = 4;

/// The first word of the first block. Only links to blocks are at or above it.
const FIRST: usize = LISTS;

/// The number of lists in use; the first header is behind their anchors.
const USED: usize = list_of((MAX_CELLS - 1) as usize * WORDS) + 1;
const _: () = assert!(ANCHORS + USED < FIRST);

/// The smallest request, in cells, for which its own list is looked at first. (For smaller ones
/// that costs more time than it saves memory.)
pub(super) const LOOKING: u32 = 1024;

/// Blocks looked at there.
const LOOKS: usize = 8;

/// Free blocks on lists.
///
/// ```text
/// word   0            2        4                          1024                  of the heap
///        [next][back] [ ][back] [list 0][list 1] …     [H] [next][back] … [H] [next][back] …
///        dummy        the end   anchors                   the first block     another
/// ```
/// The anchors of the lists are in the heap's first cells, so that a link may lead to an anchor as
/// well as to a block. `next` is the first word of the next block, or the end. `back` is the word
/// that leads here: the anchor, or the `next` of the block before. So a block is taken out without
/// a test for which of the two it is.
///
/// Invariants: a list's bit is set iff it has a block; for each block on a list, the word at its
/// `back` leads to the block; the dummy's links lead to the end and to the dummy.
#[derive(Debug)]
pub struct Good {
    occupied: [u64; BITS],
    /// Whether a block is [vetted](super::vet) before it is taken off its list.
    pub(super) vets: bool,
    /// The first free block that was found overwritten, if any. It stays where it is.
    pub(super) damaged: Option<Block>,
}

/// Returns the list of a size in words. Up to 2⁶ − 1 cells, that is the size in cells; above, it is
/// made of the size's leading six bits and the number of bits that follow.
#[inline(always)]
const fn list_of(len: usize) -> usize {
    const LEAST: u32 = WORDS.ilog2() + SUBDIVISION;
    let len = len as u32;
    let log = (len | 1 << LEAST).ilog2();
    let leading = (len as u64) << SUBDIVISION >> log;
    ((log as usize) << SUBDIVISION) + leading as usize - ((LEAST as usize) << SUBDIVISION)
}

/// Returns the first list whose blocks all have at least `len` words: the list behind that of the
/// next smaller size. `len` is a multiple of a cell's words, and not 0.
#[inline(always)]
pub(super) const fn list_for(len: usize) -> usize {
    list_of(len - 1) + 1
}

/// Returns the anchor of a list.
#[inline(always)]
const fn anchor(list: usize) -> usize {
    ANCHORS + list
}

/// Returns the number of words in `cells` cells, which is also the first word of the block that
/// starts at cell `cells`.
#[inline(always)]
const fn words(cells: u32) -> usize {
    cells as usize * WORDS
}

/// Returns whether a link leads to a possible block. Any number may be passed.
#[inline(always)]
fn leads_to_block(word: usize, cells: &Cells) -> bool {
    FIRST <= word && word < words(cells.end()) && word.is_multiple_of(WORDS)
}

impl Good {
    /// Returns whether the words that lead to a free block on a list agree with the block's own
    /// links.
    pub(super) fn is_linked(&self, block: Block, cells: &Cells) -> bool {
        let word = words(block.start);
        let next = cells.word(word + NEXT) as usize;
        let back = cells.word(word + BACK) as usize;
        let next_knows = next == END
            || leads_to_block(next, cells) && cells.word(next + BACK) as usize == word + NEXT;
        let is_link = leads_to_block(back, cells) || (ANCHORS..FIRST).contains(&back);
        next_knows && is_link && cells.word(back) as usize == word
    }

    /// Returns the first list from `list` on that has blocks.
    #[inline(always)]
    fn first_from(&self, list: usize) -> Option<usize> {
        let mut word = list / 64 % BITS;
        let lists = self.occupied[word] >> (list % 64);
        if lists != 0 {
            return Some(list + lists.trailing_zeros() as usize);
        }
        loop {
            word += 1;
            let lists = *self.occupied.get(word)?;
            if lists != 0 {
                return Some(word * 64 + lists.trailing_zeros() as usize);
            }
        }
    }

    /// Returns the first list from `list` on that has blocks, and the first word of its first
    /// block.
    #[inline(always)]
    pub(super) fn first(&self, list: usize, cells: &Cells) -> Option<(usize, usize)> {
        let list = self.first_from(list)?;
        Some((list, cells.word(anchor(list)) as usize))
    }

    /// Returns the first block of the first list all of whose blocks have `len` cells.
    #[inline(always)]
    fn choose<M: Meter>(&self, len: u32, cells: &Cells, meter: &M) -> Option<Block> {
        let (_, start) = self.first(list_for(words(len)), cells)?;
        let found = cells.block((start / WORDS) as u32);
        meter.visit(cells.header(found.start));
        Some(found)
    }

    /// Like [`choose`](Self::choose), but also returns where in the block cells at a multiple of
    /// `align` bytes start: in the block of the first choice, if it happens to hold them so, or in
    /// one that holds them wherever it starts.
    fn choose_aligned<M: Meter>(
        &self,
        len: u32,
        align: usize,
        cells: &Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        let chosen = self.choose(len, cells, meter)?;
        if let Some(start) = fit(chosen, len, align, cells) {
            return Some((chosen, start));
        }
        let chosen = self.choose(certain(len, align)?, cells, meter)?;
        Some((chosen, fit(chosen, len, align, cells)?))
    }

    /// Returns the first word of the smallest block that holds `len` words behind its gap, among
    /// the first few blocks on the list for `len`. `gap` computes the gap from a block's first
    /// word.
    #[inline(always)]
    pub(super) fn close<M: Meter>(
        &self,
        len: usize,
        gap: impl Fn(usize) -> usize,
        cells: &Cells,
        meter: &M,
    ) -> Option<usize> {
        let list = list_of(len);
        if self.occupied[list / 64] >> (list % 64) & 1 == 0 {
            // The anchors may not exist yet.
            return None;
        }
        let (mut found, mut least) = (None, usize::MAX);
        let mut word = cells.word(anchor(list)) as usize;
        // A link may have been overwritten: one that leads to no block ends the list, as the end
        // does.
        for _ in 0..LOOKS {
            if !leads_to_block(word, cells) {
                break;
            }
            let block = cells.block((word / WORDS) as u32);
            meter.visit(cells.header(block.start));
            let has = words(block.len);
            if len + gap(word) <= has && has < least {
                (found, least) = (Some(word), has);
                if has == len {
                    // No smaller one fits.
                    break;
                }
            }
            word = cells.word(word + NEXT) as usize;
        }
        found
    }

    /// Returns the blocks on a list.
    #[inline]
    fn on(&self, list: usize, cells: &Cells) -> impl Iterator<Item = Block> {
        let occupied = self.occupied[list / 64] >> (list % 64) & 1 == 1;
        let mut word = if occupied { cells.word(anchor(list)) as usize } else { END };
        core::iter::from_fn(move || {
            // A link may have been overwritten: one that leads to no block ends the list, as the
            // end does.
            let start = leads_to_block(word, cells).then_some((word / WORDS) as u32)?;
            word = cells.word(word + NEXT) as usize;
            Some(cells.block(start))
        })
    }

    /// Puts the block that starts at this word on a list, as the first.
    #[inline(always)]
    fn push(&mut self, list: usize, block: usize, cells: &mut Cells) {
        let anchor = anchor(list);
        let next = cells.word(anchor);
        cells.set_word(anchor, block as u32);
        cells.set_word(block + NEXT, next);
        cells.set_word(block + BACK, anchor as u32);
        cells.set_word(next as usize + BACK, block as u32);
        self.occupied[list / 64 % BITS] |= 1 << (list % 64);
    }

    /// Puts the free block of `len` words at `start` on the list of its size.
    #[inline(always)]
    pub(super) fn insert_words<M: Meter>(
        &mut self,
        start: usize,
        len: usize,
        cells: &mut Cells,
        meter: &M,
    ) {
        meter.link_double(cells.header((start / WORDS) as u32));
        self.push(list_of(len), start, cells);
    }

    /// Takes the first block off its list.
    #[inline(always)]
    pub(super) fn pop(&mut self, list: usize, block: usize, cells: &mut Cells) {
        let next = cells.word(block + NEXT) as usize;
        cells.set_word(anchor(list), next as u32);
        cells.set_word(next + BACK, anchor(list) as u32);
        self.vacate(list, next == END);
    }

    /// Takes the block that starts at this word off its list, wherever it is on it.
    #[inline(always)]
    pub(super) fn unlink(&mut self, block: usize, cells: &mut Cells) {
        let next = cells.word(block + NEXT) as usize;
        let back = cells.word(block + BACK) as usize;
        cells.set_word(back, next as u32);
        cells.set_word(next + BACK, back as u32);
        // If neither is a block, `back` is the anchor and `next` the end. (Or the block is the
        // dummy, and `back` is no list's.)
        self.vacate(back.wrapping_sub(ANCHORS), (back | next) < FIRST);
    }

    /// Clears the bit of a list if it `is_empty`. That is as good as random, so there is no branch.
    /// Any number may be passed for a list that is not empty.
    #[inline(always)]
    fn vacate(&mut self, list: usize, is_empty: bool) {
        self.occupied[list / 64 % BITS] &= !(u64::from(is_empty) << (list % 64));
    }
}

impl TagHeap<Good> {
    /// Returns every free block of `len` cells or more, and perhaps some that are a little smaller:
    /// list by list, and last the wilderness. O(blocks), and O(lists).
    pub(crate) fn free_blocks(&self, len: u32) -> impl Iterator<Item = Block> {
        let listed = (list_of(words(len))..USED).flat_map(|list| self.index.on(list, &self.cells));
        let wilderness = if self.end() > 0 { self.wilderness() } else { None };
        listed.chain(wilderness.filter(|wilderness| wilderness.len >= len))
    }
}

impl Index for Good {}

impl IndexPolicy for Good {
    const EMPTY: Self = Self { occupied: [0; BITS], vets: false, damaged: None };
    const BY_SIZE: bool = true;
    const FIRST: u32 = (FIRST / WORDS) as u32;

    fn open(&mut self, cells: &mut Cells) {
        cells.set_word(DUMMY + NEXT, END as u32);
        cells.set_word(DUMMY + BACK, DUMMY as u32);
        (0..USED).for_each(|list| cells.set_word(anchor(list), END as u32));
    }

    #[inline(always)]
    fn insert<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) {
        self.insert_words(words(block.start), words(block.len), cells, meter);
    }

    #[inline(always)]
    fn remove<M: Meter>(&mut self, block: Block, cells: &mut Cells, _: &M) {
        self.unlink(words(block.start), cells);
    }

    #[inline(always)]
    fn take<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &mut Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        let found = self.find(len, align, cells, meter)?;
        if self.vets && !self.vet(found.0, cells) {
            return None;
        }
        self.unlink(words(found.0.start), cells);
        Some(found)
    }

    fn find<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        let gap = |word| cells.words_to_aligned(word, align);
        if len >= LOOKING
            && let Some(word) = self.close(words(len), gap, cells, meter)
        {
            let close = cells.block((word / WORDS) as u32);
            return Some((close, fit(close, len, align, cells)?));
        }
        self.choose_aligned(len, align, cells, meter)
    }

    #[cold]
    fn take_last<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &mut Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        // Only a large alignment makes the search pass over more than one list.
        let most = certain(len, align.max(CELL)).filter(|&most| most < MAX_CELLS);
        let last = most.map_or(USED - 1, |most| list_of(words(most)));
        for list in list_of(words(len))..=last {
            let fits = |block: Block| {
                meter.visit(cells.header(block.start));
                Some((block, fit(block, len, align, cells)?))
            };
            let found = self.on(list, cells).find_map(fits);
            if let Some(found) = found {
                if self.vets && !self.vet(found.0, cells) {
                    return None;
                }
                self.unlink(words(found.0.start), cells);
                return Some(found);
            }
        }
        None
    }

    fn audit(&self, cells: &Cells, visit: &mut dyn FnMut(Block)) -> Result<(), Fault> {
        let origin = cells.origin().addr();
        let dummy = (cells.word(DUMMY + NEXT) as usize, cells.word(DUMMY + BACK) as usize);
        Fault::unless(dummy == (END, DUMMY), "the dummy is on no list", origin)?;
        for list in 0..USED {
            let occupied = self.occupied[list / 64] >> (list % 64) & 1 == 1;
            let (mut back, mut word) = (anchor(list), cells.word(anchor(list)) as usize);
            let known = occupied == (word != END);
            Fault::unless(known, "a list's bit says whether it has blocks", origin)?;
            while word != END {
                Fault::unless(leads_to_block(word, cells), "a link leads to a block", origin)?;
                let block = cells.block((word / WORDS) as u32);
                let at = cells.contents(block.start).addr();
                Fault::unless(!cells.is_in_use(block.start), "a block on a list is free", at)?;
                let right = list_of(words(block.len)) == list;
                Fault::unless(right, "a block is on the list of its size", at)?;
                let linked = cells.word(word + BACK) as usize == back;
                Fault::unless(linked, "a list is linked both ways", at)?;
                visit(block);
                back = word + NEXT;
                word = cells.word(word + NEXT) as usize;
            }
        }
        Ok(())
    }
}
