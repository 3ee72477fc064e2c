//! Writes tags: one function for each state of a block in [the table](super::header).

use super::cells::Cells;
use super::header::{Flags, Tag};
use super::layout::{Block, FOOTER, HEADER, LINK, Link};

impl Cells {
    /// Changes the owner of a block in use, in a heap whose blocks have one.
    #[inline(always)]
    pub(crate) fn set_owner(&mut self, block: Block, owner: u32) {
        self.write(block.end(), FOOTER, owner);
    }

    /// Changes a free block's link.
    #[inline(always)]
    pub(crate) fn set_link(&mut self, start: u32, link: Link, to: u32) {
        self.write(start, link as isize * LINK, to);
    }

    /// Makes cells a block in use. The block below is in use exactly if `prev_in_use`; the block
    /// above has its header already.
    #[inline(always)]
    pub(crate) fn put_in_use(&mut self, block: Block, prev_in_use: bool) {
        let mut flags = Flags::IN_USE;
        flags.set(Flags::PREV_IN_USE, prev_in_use);
        self.write(block.start, HEADER, Tag::new(block.len, flags).0);
        self.set_prev(block.end(), true);
    }

    /// Makes cells a free block, regardless of its neighbours' states. The block below is in use
    /// exactly if `prev_in_use`; the block above has its header already.
    #[inline(always)]
    pub(crate) fn put_free(&mut self, block: Block, prev_in_use: bool) {
        debug_assert!(block.len > 0, "a free block has cells");
        let mut flags = Flags::empty();
        flags.set(Flags::PREV_IN_USE, prev_in_use);
        self.write(block.start, HEADER, Tag::new(block.len, flags).0);
        self.write(block.end(), FOOTER, block.len);
        self.set_prev(block.end(), false);
    }

    /// Makes `used`, a part of `whole`, a block in use, and the cells below and above it free
    /// blocks, which it returns; either may be empty. The block below `whole` is in use exactly if
    /// `prev_in_use`; the block above has its header already.
    #[inline(always)]
    pub(crate) fn carve(&mut self, whole: Block, used: Block, prev_in_use: bool) -> (Block, Block) {
        let below = Block::between(whole.start, used.start);
        let above = Block::between(used.end(), whole.end());
        if above.len > 0 {
            self.put_free(above, true);
        }
        self.put_in_use(used, prev_in_use);
        if below.len > 0 {
            self.put_free(below, prev_in_use);
        }
        (below, above)
    }

    /// Makes cells a *withheld* block: not in use, but marked as in use in the block above, so that
    /// neither joins the other. The block below is in use or withheld; the one above has its header
    /// already.
    #[inline(always)]
    pub(crate) fn put_withheld(&mut self, block: Block) {
        self.write(block.start, HEADER, Tag::new(block.len, Flags::PREV_IN_USE).0);
        self.set_prev(block.end(), true);
    }

    /// Marks a withheld block as in use, or an in-use block as withheld; leaves the header above
    /// unchanged.
    #[inline(always)]
    pub(crate) fn set_in_use(&mut self, start: u32, in_use: bool) {
        let tag = self.tag(start);
        let mut flags = tag.flags();
        flags.set(Flags::IN_USE, in_use);
        self.write(start, HEADER, Tag::new(tag.len(), flags).0);
    }

    /// Divides a block in use behind its first `len` cells, fewer than all. Both parts are in use.
    #[inline(always)]
    pub(crate) fn divide(&mut self, block: Block, len: u32) {
        debug_assert!(self.is_in_use(block.start) && 0 < len && len < block.len);
        let flags = self.tag(block.start).flags();
        self.write(block.start, HEADER, Tag::new(len, flags).0);
        let both = Flags::IN_USE | Flags::PREV_IN_USE;
        self.write(block.start + len, HEADER, Tag::new(block.len - len, both).0);
    }

    /// Writes the last header: an empty block in use, so that no code looks for a block above.
    pub(crate) fn put_end(&mut self, prev_in_use: bool) {
        self.put_border(self.end(), prev_in_use);
    }

    /// Writes a header that stands for the end of the blocks, like [`put_end`](Self::put_end),
    /// though there are cells above.
    #[inline(always)]
    pub(crate) fn put_border(&mut self, start: u32, prev_in_use: bool) {
        let mut flags = Flags::IN_USE;
        flags.set(Flags::PREV_IN_USE, prev_in_use);
        self.write(start, HEADER, Tag::new(0, flags).0);
    }

    /// Writes a header within a block in use, before contents that start `offset` cells above the
    /// block's start. It lacks PREV_IN_USE, which every real header has where this is checked.
    pub(crate) fn put_offset(&mut self, start: u32, offset: u32) {
        self.write(start, HEADER, Tag::new(offset, Flags::IN_USE).0);
    }

    /// Splits the lower `len` cells off a free block, whose neighbours are in use, as a block in
    /// use. The rest, which may be empty, stays free.
    #[inline(always)]
    pub(crate) fn split(&mut self, block: Block, len: u32) -> Block {
        let behind = Block { start: block.start + len, len: block.len - len };
        self.write(block.start, HEADER, Tag::new(len, Flags::IN_USE | Flags::PREV_IN_USE).0);
        if behind.len > 0 {
            // The header of the block above already marks this block as free.
            self.write(behind.start, HEADER, Tag::new(behind.len, Flags::PREV_IN_USE).0);
            self.write(behind.end(), FOOTER, behind.len);
        } else {
            self.set_prev(block.end(), true);
        }
        behind
    }

    #[inline(always)]
    pub(crate) fn set_prev(&mut self, start: u32, in_use: bool) {
        let flag = Flags::PREV_IN_USE.bits();
        let tag = self.read(start, HEADER);
        self.write(start, HEADER, if in_use { tag | flag } else { tag & !flag });
    }
}
