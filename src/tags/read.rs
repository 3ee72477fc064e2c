//! Reads the tags of blocks.

use super::cells::Cells;
use super::header::{Flags, Tag};
use super::layout::{Block, CELL, FOOTER, HEADER, LINK, Link};

impl Cells {
    #[inline(always)]
    pub(super) fn tag(&self, start: u32) -> Tag {
        Tag(self.read(start, HEADER))
    }

    /// Returns the address of a block's header, for a meter.
    #[inline(always)]
    pub(crate) fn header(&self, start: u32) -> *const u32 {
        self.word_at(start, HEADER)
    }

    /// Returns the block that starts at `start`; the one at `end` is empty.
    #[inline(always)]
    pub(crate) fn block(&self, start: u32) -> Block {
        Block { start, len: self.tag(start).len() }
    }

    /// Returns every block below `end` in address order, as far as the tags make sense.
    pub(crate) fn blocks(&self, end: u32) -> impl Iterator<Item = Block> {
        let mut start = self.first();
        core::iter::from_fn(move || {
            let block = (start < end).then(|| self.block(start))?;
            let sound = block.len > 0 && block.len <= end - start;
            start = block.end();
            sound.then_some(block)
        })
    }

    /// Returns the block in use whose contents start at this address. The caller vouches that there
    /// is one; debug builds check.
    #[inline(always)]
    pub(crate) fn block_at(&self, address: usize) -> Block {
        let offset = address.wrapping_sub(self.origin().addr());
        debug_assert!(self.cell_at(address).is_some(), "a block lies in the heap");
        let block = self.block((offset / CELL) as u32);
        debug_assert!(self.is_in_use(block.start), "the block is in use");
        debug_assert!(self.prev_is_in_use(block.end()), "its neighbour knows that");
        block
    }

    /// Like [`block_at`](Self::block_at), for a block of known length: no tag has to be read first.
    #[inline(always)]
    pub(crate) fn block_of(&self, address: usize, len: u32) -> Block {
        let offset = address.wrapping_sub(self.origin().addr());
        let block = Block { start: (offset / CELL) as u32, len };
        debug_assert_eq!(self.block_at(address), block, "the block has this length");
        block
    }

    /// Returns whether a block is in use. The empty block at `end` is.
    #[inline(always)]
    pub(crate) fn is_in_use(&self, start: u32) -> bool {
        self.tag(start).flags().contains(Flags::IN_USE)
    }

    /// Returns whether the block below is in use, or there is none.
    #[inline(always)]
    pub(crate) fn prev_is_in_use(&self, start: u32) -> bool {
        self.tag(start).flags().contains(Flags::PREV_IN_USE)
    }

    /// Returns the free block that ends at `end`, if one does.
    #[inline(always)]
    pub(crate) fn free_below(&self, end: u32) -> Option<Block> {
        (!self.prev_is_in_use(end)).then(|| {
            let len = self.read(end, FOOTER);
            Block { start: end - len, len }
        })
    }

    /// Returns the block that the footer below `end` describes, or `None` if no block can have this
    /// length: the footer may have been overwritten. Whether the block is free is not checked.
    pub(crate) fn whole_below(&self, end: u32) -> Option<Block> {
        let len = self.read(end, FOOTER);
        let below = Block { start: end.checked_sub(len)?, len };
        (len > 0 && below.start >= self.first()).then_some(below)
    }

    /// Returns whether all tags of a free block agree: its header, its footer, and the header
    /// above. The block may be any whose start is in the cells.
    #[inline]
    pub(crate) fn is_whole_free(&self, block: Block) -> bool {
        let fits = block.len > 0 && block.len <= self.end() - block.start;
        fits && self.tag(block.start).len() == block.len
            && !self.is_in_use(block.start)
            && self.footer(block) == block.len
            && !self.prev_is_in_use(block.end())
            && self.is_in_use(block.end())
    }

    /// Returns the free block that starts at `start`, if one does.
    #[inline(always)]
    pub(crate) fn free_above(&self, start: u32) -> Option<Block> {
        (!self.is_in_use(start)).then(|| self.block(start))
    }

    /// Like [`free_above`](Self::free_above), but returns `None` for a
    /// [withheld](Self::is_withheld) block.
    #[inline(always)]
    pub(crate) fn joinable_above(&self, start: u32) -> Option<Block> {
        self.free_above(start).filter(|above| !self.prev_is_in_use(above.end()))
    }

    /// Returns a free block's footer.
    pub(crate) fn footer(&self, block: Block) -> u32 {
        self.read(block.end(), FOOTER)
    }

    /// Returns the owner of a block in use, in a heap whose blocks have one.
    pub(crate) fn owner(&self, block: Block) -> u32 {
        self.read(block.end(), FOOTER)
    }

    /// Returns a free block's link.
    #[inline(always)]
    pub(crate) fn link(&self, start: u32, link: Link) -> u32 {
        self.read(start, link as isize * LINK)
    }

    /// Returns whether a block is withheld: freed, but not yet free memory (`fit/reclaim.rs`).
    #[inline(always)]
    pub(crate) fn is_withheld(&self, block: Block) -> bool {
        !self.is_in_use(block.start) && self.prev_is_in_use(block.end())
    }
}
