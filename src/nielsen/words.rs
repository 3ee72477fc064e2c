//! A memory of words, tiled by blocks: the one place that reads and writes overhead fields.
//!
//! A word has 4 bytes, as on the paper's IBM 360, and holds a length or a pointer. A block of n
//! words is known by its first one, its *start*:
//!
//! ```text
//!           start
//!  in use  | S | B |  contents                      …  |
//!  free    | S | B | forward | back |               …  |
//!            n·2+f                                        next block
//! ```
//! S: length and whether the block is free; B: start of the block before, if the algorithm's
//! [`Fields`] have it; pointers on a free list follow, if they have those. `last` keeps the B of a
//! would-be block at the end of memory.

use super::fields::Fields;
use crate::error::Fault;
use crate::meter::Meter;

/// Bytes of a word.
pub(super) const WORD: usize = size_of::<u32>();

/// Bytes that contents are aligned to at no cost.
pub(super) const ALIGN: usize = 4 * WORD;

/// No block.
pub(super) const NIL: u32 = u32::MAX;

/// Words a memory may have: a length must fit 30 bits.
pub(super) const MAX_WORDS: u32 = (1 << 30) - 1;

/// Flag beside a block's length: it is free.
const FREE: u32 = 1;
/// Flag beside a block's length: the contents start behind a gap.
const GAP: u32 = 2;
/// Number of flags: a length is shifted left by as many bits.
const FLAGS: u32 = 2;

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of its first word.
    pub(super) start: u32,
    /// Its words, overhead fields included.
    pub(super) len: u32,
}

impl Block {
    /// Returns the words from `start` up to `end`.
    pub(super) fn between(start: u32, end: u32) -> Self {
        Self { start, len: end - start }
    }

    /// Returns the start of the block behind it.
    pub(super) fn end(self) -> u32 {
        self.start + self.len
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Words of the block that serves it, overhead fields included.
    pub(super) len: u32,
    /// Alignment of the contents, bytes.
    pub(super) align: usize,
}

impl Request {
    /// Returns where in a free block the request's block starts, if it fits. There are either no
    /// words before it, or enough for a block.
    #[inline]
    pub(super) fn place<F: Fields>(self, block: Block, words: &Words) -> Option<u32> {
        let contents = words.address(block.start + F::HEADER);
        let mut gap = contents.wrapping_neg() & (self.align - 1);
        while gap != 0 && gap < F::LEAST as usize * WORD {
            gap += self.align;
        }
        let start = block.start.checked_add(u32::try_from(gap / WORD).ok()?)?;
        (start.checked_add(self.len)? <= block.end()).then_some(start)
    }
}

/// Which pointer of a free block on a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// To the next block.
    Forward,
    /// To the block before.
    Back,
}

/// The memory.
///
/// Invariant: the words 0 to `end` − 1 start at `origin`, belong to the algorithm alone except for
/// the contents of blocks in use, and are tiled by blocks.
#[derive(Debug)]
pub struct Words {
    /// Where word 0 is; null until that is fixed.
    origin: *mut u32,
    /// Number of words.
    end: u32,
    /// The last block, if blocks have the field B; [`NIL`] if there is none, or no such field.
    last: u32,
}

// SAFETY: the words belong to the algorithm, wherever it goes; nothing is tied to a thread.
unsafe impl Send for Words {}

impl Words {
    /// Makes a memory without words.
    pub(super) const fn new() -> Self {
        Self { origin: core::ptr::null_mut(), end: 0, last: NIL }
    }

    /// Returns whether the origin is fixed.
    pub(super) fn is_open(&self) -> bool {
        !self.origin.is_null()
    }

    /// Fixes the address of word 0.
    pub(super) fn open(&mut self, origin: *mut u32) {
        debug_assert!(!self.is_open() && origin.is_aligned());
        self.origin = origin;
    }

    /// Takes over the words up to `end` as one block in use, and returns it.
    ///
    /// # Safety
    /// The memory from the origin on is valid for `end` words, and stays so.
    pub(super) unsafe fn extend<F: Fields>(&mut self, end: u32) -> Block {
        debug_assert!(end >= self.end + F::LEAST && end <= MAX_WORDS);
        let block = Block::between(self.end, end);
        let before = self.last;
        self.end = end;
        if F::BACK {
            self.write(block.start + 1, before);
        }
        self.put::<F, ()>(block, false, &());
        block
    }

    /// Returns the number of words.
    pub(super) fn end(&self) -> u32 {
        self.end
    }

    /// Returns the address of a word, or of the end.
    pub(super) fn address(&self, word: u32) -> usize {
        self.origin.addr() + word as usize * WORD
    }

    /// Returns a pointer to a word, for a meter, or to a block's contents.
    pub(super) fn pointer(&self, word: u32) -> *mut u32 {
        self.origin.wrapping_add(word as usize)
    }

    /// Returns the word at this address, if one is there.
    pub(super) fn word_at(&self, address: usize) -> Option<u32> {
        let offset = address.checked_sub(self.origin.addr())?;
        let word = u32::try_from(offset / WORD).ok()?;
        (offset.is_multiple_of(WORD) && word < self.end).then_some(word)
    }

    /// Returns what a word holds: a word below `end`, and not contents in use.
    #[inline(always)]
    fn read(&self, word: u32) -> u32 {
        debug_assert!(word < self.end, "the word is there");
        // SAFETY: the word is one of the memory's; it is a field of a block, not contents in use.
        unsafe { self.pointer(word).read() }
    }

    /// Overwrites a word, under the same conditions as [`read`](Self::read).
    #[inline(always)]
    fn write(&mut self, word: u32, value: u32) {
        debug_assert!(word < self.end, "the word is there");
        // SAFETY: as `read`; `&mut self` is exclusive.
        unsafe { self.pointer(word).write(value) };
    }

    /// Returns the block that starts at `start`.
    #[inline(always)]
    pub(super) fn block(&self, start: u32) -> Block {
        Block { start, len: self.read(start) >> FLAGS }
    }

    /// Returns whether the block that starts at `start` is free.
    #[inline(always)]
    pub(super) fn is_free(&self, start: u32) -> bool {
        self.read(start) & FREE != 0
    }

    /// Returns the free block that starts at `start`, if one does.
    #[inline(always)]
    pub(super) fn free_block(&self, start: u32) -> Option<Block> {
        (start < self.end && self.is_free(start)).then(|| self.block(start))
    }

    /// Makes these words a block, and writes its start into the block behind it.
    #[inline(always)]
    pub(super) fn put<F: Fields, M: Meter>(&mut self, block: Block, free: bool, meter: &M) {
        self.mark(block, free);
        if F::BACK {
            let behind = block.end();
            meter.link(self.pointer(behind));
            if behind == self.end {
                self.last = block.start;
            } else {
                self.write(behind + 1, block.start);
            }
        }
    }

    /// Changes whether a block is free, and nothing else; its contents start without a gap.
    #[inline(always)]
    pub(super) fn mark(&mut self, block: Block, free: bool) {
        debug_assert!(block.len > 0 && block.len <= MAX_WORDS);
        self.write(block.start, block.len << FLAGS | if free { FREE } else { 0 });
    }

    /// Returns the words between the fields of a block in use and its contents; the first of these
    /// words holds their number.
    pub(super) fn gap<F: Fields>(&self, start: u32) -> u32 {
        if self.read(start) & GAP == 0 { 0 } else { self.read(start + F::HEADER) }
    }

    /// Records the gap of a block that was just [put](Self::put) to use.
    pub(super) fn set_gap<F: Fields>(&mut self, start: u32, gap: u32) {
        if gap > 0 {
            self.write(start, self.read(start) | GAP);
            self.write(start + F::HEADER, gap);
        }
    }

    /// Returns the start of the block before the one that starts at `start`; [`NIL`] for the first.
    #[inline(always)]
    pub(super) fn preceding<F: Fields>(&self, start: u32) -> u32 {
        debug_assert!(F::BACK);
        if start == self.end { self.last } else { self.read(start + 1) }
    }

    /// Returns a free block's pointer.
    #[inline(always)]
    pub(super) fn link<F: Fields>(&self, start: u32, link: Link) -> u32 {
        debug_assert!((link as u32) < F::LINKS);
        self.read(start + F::HEADER + link as u32)
    }

    /// Changes a free block's pointer, if its kind has it.
    #[inline(always)]
    pub(super) fn set_link<F: Fields>(&mut self, start: u32, link: Link, to: u32) {
        if (link as u32) < F::LINKS {
            self.write(start + F::HEADER + link as u32, to);
        }
    }

    /// Returns every block in memory order and whether it is free, as far as the lengths make
    /// sense.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (Block, bool)> {
        let mut start = 0;
        core::iter::from_fn(move || {
            let block = (start < self.end).then(|| self.block(start))?;
            let sound = block.len > 0 && block.len <= self.end - start;
            start = start.saturating_add(block.len);
            sound.then(|| (block, self.is_free(block.start)))
        })
    }

    /// Returns where the free blocks at the end of memory start. O(n).
    pub(super) fn free_tail(&self) -> u32 {
        self.blocks()
            .filter(|&(_, is_free)| !is_free)
            .map(|(block, _)| block.end())
            .last()
            .unwrap_or(0)
    }

    /// Checks that blocks tile the memory, that none is shorter than the least block, and that
    /// every pointer to a preceding block is right.
    pub(super) fn audit<F: Fields>(&self) -> Result<(), Fault> {
        let (mut expected, mut before) = (0, NIL);
        for (block, _) in self.blocks() {
            let at = self.address(block.start);
            Fault::unless(block.len >= F::LEAST, "a block holds its fields", at)?;
            let known = !F::BACK || self.preceding::<F>(block.start) == before;
            Fault::unless(known, "a block points to the one before", at)?;
            expected = block.end();
            before = block.start;
        }
        let at = self.address(self.end);
        Fault::unless(expected == self.end, "blocks tile the memory", at)?;
        Fault::unless(!F::BACK || self.last == before, "the last block is known", at)
    }
}
