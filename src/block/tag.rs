//! Boundary tags: what a heap of adjoining blocks knows of each block, kept beside the block itself
//! (Knuth 1973, §2.5; Hasan & Chang 2006, §3.1).
//!
//! Memory is counted in *cells* of 16 bytes. A block of n cells is known by the cell its contents
//! start at, its *start*. Its header lies in the last word of the cell before, so contents are
//! aligned to a cell and a block costs 4 bytes; only a free block has a footer and links:
//!
//! ```text
//!            start − 1         start                        start + n − 1
//!  in use   | …     …    [H] |  contents            …        …       …  [H'] |
//!  free     | …     …    [H] | [link 0][link 1]     …        …   [ F ]  [H'] |
//!  byte                 −4      0       4                   16n−8 16n−4
//! ```
//! H: size in cells and the flags IN_USE, PREV_IN_USE; F: size in cells; H' is the header of the
//! next block. A link is the start of another block, or [`NONE`]. Nothing but the four words is
//! ever written, so tags may be rewritten while links are still to be read. A heap whose blocks have
//! an owner keeps it where F would be, and hands out 4 bytes less. A free block of two cells or more
//! has room for two further links.
//!
//! The 30 bits of a size bound a heap to 16 GiB. In return the least block takes 16 bytes, free or
//! not, where pointers and words of 64 bits would take 32.

use core::ptr::NonNull;

use bitflags::bitflags;

/// Bytes of a cell: what blocks are aligned to, and what their sizes are multiples of.
pub(crate) const CELL: usize = 16;

/// Bytes of a header.
pub(crate) const TAG: usize = size_of::<u32>();

/// Words of a cell.
pub(crate) const WORDS: usize = CELL / TAG;

/// No block: contents never start at the first cell, which holds a header.
pub(crate) const NONE: u32 = 0;

/// Cells a heap may have, and one more than a block may have.
pub(crate) const MAX_CELLS: u32 = 1 << (u32::BITS - SIZE_SHIFT);

/// Where the words lie, in bytes from a block's start.
const HEADER: isize = -(TAG as isize);
const LINK: isize = TAG as isize;
/// In bytes from the start of the block above.
const FOOTER: isize = 2 * HEADER;

/// Bits of a header below the size.
const SIZE_SHIFT: u32 = 2;

bitflags! {
    /// What a header says beside the size.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Flags: u32 {
        /// The block is in use.
        const IN_USE = 1 << 0;
        /// The block below is in use, or there is none; else its footer can be read.
        const PREV_IN_USE = 1 << 1;
    }
}

/// A header: size and flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag(u32);

impl Tag {
    fn new(len: u32, flags: Flags) -> Self {
        debug_assert!(len < MAX_CELLS, "a size fits its bits");
        Self(len << SIZE_SHIFT | flags.bits())
    }

    fn len(self) -> u32 {
        self.0 >> SIZE_SHIFT
    }

    fn flags(self) -> Flags {
        Flags::from_bits_truncate(self.0)
    }
}

/// A block: its start and its length, in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Block {
    /// No block.
    pub(crate) const NONE: Self = Self { start: NONE, len: 0 };

    /// The start of the block above.
    pub(crate) fn end(self) -> u32 {
        self.start + self.len
    }
}

/// The length in cells of a block in use, whichever cells it is of; 0 if it has no cells but a
/// header as [`mark_foreign`] writes it.
///
/// # Safety
/// The contents of such a block start there.
#[inline(always)]
pub(crate) unsafe fn len_at(contents: NonNull<u8>) -> u32 {
    // SAFETY: the word before a block's contents is its header.
    Tag(unsafe { contents.byte_offset(HEADER).cast::<u32>().read() }).len()
}

/// Writes a header before contents that lie in no cells.
///
/// # Safety
/// The word before is the block's, aligned.
pub(crate) unsafe fn mark_foreign(contents: NonNull<u8>) {
    // SAFETY: the caller's promise.
    unsafe { contents.byte_offset(HEADER).cast::<u32>().write(Tag::new(0, Flags::IN_USE).0) };
}

/// Which link of a free block; a block of one cell has two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    First,
    Second,
    Third,
    Fourth,
}

/// The cells of a heap: the one place that reads and writes tags.
///
/// Invariant: the memory of the cells 0 to `end` − 1 starts at `origin`, is the heap's alone but
/// for the contents of blocks in use, and is aligned to a cell. Blocks start at `first` and above; the
/// header at `end` is the last. What lies below the first header is the index's own.
#[derive(Debug)]
pub(crate) struct Cells {
    origin: *mut u8,
    first: u32,
    end: u32,
}

// SAFETY: the cells belong to the heap, wherever it goes; nothing is tied to a thread.
unsafe impl Send for Cells {}

impl Cells {
    /// No cells.
    pub(crate) const fn new() -> Self {
        Self::starting_at(NONE + 1)
    }

    /// No cells; the first block will start at `first`, not 0.
    pub(crate) const fn starting_at(first: u32) -> Self {
        assert!(NONE < first && first < MAX_CELLS);
        Self { origin: core::ptr::null_mut(), first, end: 0 }
    }

    /// Takes over more memory.
    ///
    /// # Safety
    /// The memory from `origin` on is valid for `end` cells, aligned to a cell, and stays so; it
    /// continues what the cells were, if there were any.
    pub(crate) unsafe fn extend(&mut self, origin: *mut u8, end: u32) {
        debug_assert!(self.end == 0 || self.origin == origin);
        debug_assert!(origin.addr().is_multiple_of(CELL) && end > self.end && end <= MAX_CELLS);
        self.origin = origin;
        self.end = end;
    }

    /// Address of the first cell; null if there is none.
    pub(crate) fn origin(&self) -> *mut u8 {
        self.origin
    }

    /// Where the first block starts.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// Number of cells, and the start of the last header's block, which is empty.
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// Address of a block's contents. An audit asks this of a link that may be anything: on 32 bits
    /// its cell may lie beyond all addresses.
    pub(crate) fn contents(&self, start: u32) -> *mut u8 {
        self.origin.wrapping_add((start as usize).wrapping_mul(CELL))
    }

    /// The cell that starts at this address, if one does that a block could start at.
    pub(crate) fn cell_at(&self, address: usize) -> Option<u32> {
        let offset = address.checked_sub(self.origin.addr())?;
        let cell = u32::try_from(offset / CELL).ok()?;
        (offset.is_multiple_of(CELL) && cell >= self.first && cell < self.end).then_some(cell)
    }

    /// The first cell from `cell` on at a multiple of `align` bytes.
    #[inline]
    pub(crate) fn aligned(&self, cell: u32, align: usize) -> Option<u32> {
        if align <= CELL {
            return Some(cell);
        }
        let address = self.origin.addr() + cell as usize * CELL;
        let gap = address.wrapping_neg() & (align - 1);
        cell.checked_add(u32::try_from(gap / CELL).ok()?)
    }

    /// The last cell up to `cell` at a multiple of `align` bytes.
    #[inline]
    pub(crate) fn aligned_down(&self, cell: u32, align: usize) -> Option<u32> {
        if align <= CELL {
            return Some(cell);
        }
        let gap = self.contents(cell).addr() & (align - 1);
        cell.checked_sub(u32::try_from(gap / CELL).ok()?)
    }

    #[inline(always)]
    fn place(&self, start: u32, offset: isize) -> *mut u32 {
        debug_assert!(start != NONE && start <= self.end, "no block starts there");
        self.contents(start).wrapping_byte_offset(offset).cast()
    }

    #[inline(always)]
    fn read(&self, start: u32, offset: isize) -> u32 {
        // SAFETY: the four words of a block, and the header at `end`, lie in the cells, aligned,
        // and outside the contents of blocks in use.
        unsafe { self.place(start, offset).read() }
    }

    #[inline(always)]
    fn write(&mut self, start: u32, offset: isize, word: u32) {
        // SAFETY: as `read`; `&mut self` is exclusive.
        unsafe { self.place(start, offset).write(word) };
    }

    #[inline(always)]
    fn tag(&self, start: u32) -> Tag {
        Tag(self.read(start, HEADER))
    }

    /// Address of a block's header, for a meter.
    #[inline(always)]
    pub(crate) fn header(&self, start: u32) -> *const u32 {
        self.place(start, HEADER)
    }

    /// The block that starts at `start`; the one at `end` is empty.
    #[inline(always)]
    pub(crate) fn block(&self, start: u32) -> Block {
        Block { start, len: self.tag(start).len() }
    }

    /// Every block below `end` in address order, as far as the tags make sense.
    pub(crate) fn blocks(&self, end: u32) -> impl Iterator<Item = Block> {
        let mut start = self.first;
        core::iter::from_fn(move || {
            let block = (start < end).then(|| self.block(start))?;
            let sound = block.len > 0 && block.len <= end - start;
            start = block.end();
            sound.then_some(block)
        })
    }

    /// The block in use whose contents lie at this address, of which its owner says so.
    #[inline(always)]
    pub(crate) fn block_at(&self, address: usize) -> Block {
        let offset = address.wrapping_sub(self.origin().addr());
        debug_assert!(self.cell_at(address).is_some(), "a block lies in the heap");
        let block = self.block((offset / CELL) as u32);
        debug_assert!(self.is_in_use(block.start), "the block is in use");
        debug_assert!(self.prev_is_in_use(block.end()), "its neighbour knows that");
        block
    }

    /// As [`block_at`](Self::block_at), of a block whose length is known: no tag has to be waited for.
    #[inline(always)]
    pub(crate) fn block_of(&self, address: usize, len: u32) -> Block {
        let offset = address.wrapping_sub(self.origin().addr());
        let block = Block { start: (offset / CELL) as u32, len };
        debug_assert_eq!(self.block_at(address), block, "the block has this length");
        block
    }

    /// Whether a block is in use. The one at `end` is.
    #[inline(always)]
    pub(crate) fn is_in_use(&self, start: u32) -> bool {
        self.tag(start).flags().contains(Flags::IN_USE)
    }

    /// Whether the block below is in use, or there is none.
    #[inline(always)]
    pub(crate) fn prev_is_in_use(&self, start: u32) -> bool {
        self.tag(start).flags().contains(Flags::PREV_IN_USE)
    }

    /// The free block that ends at `end`, if one does.
    #[inline(always)]
    pub(crate) fn free_below(&self, end: u32) -> Option<Block> {
        (!self.prev_is_in_use(end)).then(|| {
            let len = self.read(end, FOOTER);
            Block { start: end - len, len }
        })
    }

    /// The free block that starts at `start`, if one does.
    #[inline(always)]
    pub(crate) fn free_above(&self, start: u32) -> Option<Block> {
        (!self.is_in_use(start)).then(|| self.block(start))
    }

    /// A free block's footer.
    pub(crate) fn footer(&self, block: Block) -> u32 {
        self.read(block.end(), FOOTER)
    }

    /// The owner of a block in use, in a heap whose blocks have one.
    pub(crate) fn owner(&self, block: Block) -> u32 {
        self.read(block.end(), FOOTER)
    }

    /// Changes the owner of a block in use, in a heap whose blocks have one.
    #[inline(always)]
    pub(crate) fn set_owner(&mut self, block: Block, owner: u32) {
        self.write(block.end(), FOOTER, owner);
    }

    /// A free block's link.
    #[inline(always)]
    pub(crate) fn link(&self, start: u32, link: Link) -> u32 {
        self.read(start, link as isize * LINK)
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

    /// Makes cells a free block, whatever its neighbours are. The block below is in use exactly if
    /// `prev_in_use`; the block above has its header already.
    #[inline(always)]
    pub(crate) fn put_free(&mut self, block: Block, prev_in_use: bool) {
        debug_assert!(block.len > 0, "a free block has cells");
        let mut flags = Flags::empty();
        flags.set(Flags::PREV_IN_USE, prev_in_use);
        self.write(block.start, HEADER, Tag::new(block.len, flags).0);
        self.write(block.end(), FOOTER, block.len);
        self.set_prev(block.end(), false);
    }

    /// Makes cells a *withheld* block: not in use, but the block above takes it to be, so that
    /// neither joins the other. The block below is in use or withheld; the one above has its header
    /// already.
    #[inline(always)]
    pub(crate) fn put_withheld(&mut self, block: Block) {
        self.write(block.start, HEADER, Tag::new(block.len, Flags::PREV_IN_USE).0);
        self.set_prev(block.end(), true);
    }

    /// Marks a withheld block as in use, or the other way round; the block above is not told.
    #[inline(always)]
    pub(crate) fn set_in_use(&mut self, start: u32, in_use: bool) {
        let tag = self.tag(start);
        let mut flags = tag.flags();
        flags.set(Flags::IN_USE, in_use);
        self.write(start, HEADER, Tag::new(tag.len(), flags).0);
    }

    /// Divides a block in use behind its first `len` cells, but not all. Both parts are in use.
    #[inline(always)]
    pub(crate) fn divide(&mut self, block: Block, len: u32) {
        debug_assert!(self.is_in_use(block.start) && 0 < len && len < block.len);
        let flags = self.tag(block.start).flags();
        self.write(block.start, HEADER, Tag::new(len, flags).0);
        let both = Flags::IN_USE | Flags::PREV_IN_USE;
        self.write(block.start + len, HEADER, Tag::new(block.len - len, both).0);
    }

    /// Whether a block is withheld.
    #[inline(always)]
    pub(crate) fn is_withheld(&self, block: Block) -> bool {
        !self.is_in_use(block.start) && self.prev_is_in_use(block.end())
    }

    /// Writes the last header: an empty block in use, so that nothing is looked for above.
    pub(crate) fn put_end(&mut self, prev_in_use: bool) {
        self.put_border(self.end, prev_in_use);
    }

    /// Writes a header that stands for the end of the blocks, though there are cells above: as
    /// [`put_end`](Self::put_end).
    #[inline(always)]
    pub(crate) fn put_border(&mut self, start: u32, prev_in_use: bool) {
        let mut flags = Flags::IN_USE;
        flags.set(Flags::PREV_IN_USE, prev_in_use);
        self.write(start, HEADER, Tag::new(0, flags).0);
    }

    /// Writes a header within a block in use, before contents that do not start where the block
    /// does but `offset` cells above: PREV_IN_USE, which every real header has where it is looked
    /// for, is missing.
    pub(crate) fn put_offset(&mut self, start: u32, offset: u32) {
        self.write(start, HEADER, Tag::new(offset, Flags::IN_USE).0);
    }

    /// Splits the lower `len` cells off a free block, whose neighbours are in use, as a block in
    /// use; what is behind them, perhaps nothing, stays free.
    #[inline(always)]
    pub(crate) fn split(&mut self, block: Block, len: u32) -> Block {
        let behind = Block { start: block.start + len, len: block.len - len };
        self.write(block.start, HEADER, Tag::new(len, Flags::IN_USE | Flags::PREV_IN_USE).0);
        if behind.len > 0 {
            // The block above knows already that its neighbour is free.
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
