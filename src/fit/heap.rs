//! The engine of all fits: blocks with boundary tags, which are split, joined with their free
//! neighbours, and grown in place (Knuth 1973, §2.5; Hasan & Chang 2006, §3).
//!
//! ```text
//! origin                                                                     end
//!  | gap [H]| in use [H]| free [F][H]| in use  …  [H]| wilderness    [F][H'] |
//!            1                                                               extend ▶
//! ```
//! The module `tags` describes the tags. The first block starts at cell `first`: 1, as here, where
//! the cell below holds only its header, or behind the anchors of an index that keeps some there.
//! H' is the header of an empty block in use, so that neither end is a special case. A free block
//! that reaches the end is the *wilderness*: it is in no index, is used last (§3.9), and grows when
//! the source is asked for more memory. All other free blocks are in the policy's index.
//!
//! Three policies determine the fit: which free block serves a request (`index.rs`), when a freed
//! block becomes free memory (`reclaim.rs`, `collect.rs`), and whether requests are served from a
//! free-space area first (`area.rs`, `lazy.rs`). Growing in place is in `resize.rs`, the walk in
//! `audit.rs`.
//!
//! Invariants:
//! - blocks tile the cells from `first` to `end`; the last header is at `end`;
//! - no two neighbouring blocks are both free, unless joining them is deferred;
//! - PREV_IN_USE equals the IN_USE of the block below, but is set above a withheld one; a free
//!   block's footer is its size;
//! - the index has every free block but the wilderness and the withheld ones;
//! - the invariants of withheld blocks (`reclaim.rs`) and of the area (`area.rs`) hold.

use core::marker::PhantomData;

use super::area::{Area, Beside, NoArea};
use super::index::Index;
use super::reclaim::{Immediate, Reclaim};
use crate::error::AllocError;
use crate::meter::Meter;
use crate::source::Source;
use crate::tags::{Block, CELL, Cells, MAX_CELLS, Sizes, TAG};

/// The engine of [`BoundaryTagHeap`](super::BoundaryTagHeap).
#[derive(Debug)]
pub struct TagHeap<P, R = Immediate, A = NoArea> {
    pub(super) cells: Cells,
    /// Cells by which the heap grows.
    pub(super) growth: u32,
    pub(super) index: P,
    pub(super) reclaim: R,
    /// The free-space area, whose tags are those of a block in use; empty without one.
    pub(super) area: Block,
    kind: PhantomData<A>,
}

impl<P: Index, R: Reclaim, A: Area> TagHeap<P, R, A> {
    /// Makes an empty heap that grows by multiples of `growth` bytes.
    pub(crate) const fn growing_by(growth: usize) -> Self {
        assert!(growth > 0 && growth.is_multiple_of(CELL) && growth / CELL < MAX_CELLS as usize);
        Self {
            cells: Cells::starting_at(P::FIRST),
            growth: (growth / CELL) as u32,
            index: P::EMPTY,
            reclaim: R::EMPTY,
            area: Block::NONE,
            kind: PhantomData,
        }
    }

    /// Returns where the first block starts.
    pub(crate) fn first(&self) -> u32 {
        self.cells.first()
    }

    /// Returns the number of cells, which changes when memory is taken from the source.
    pub(crate) fn end(&self) -> u32 {
        self.cells.end()
    }

    /// The most bytes that a block can hold, limited to addressable sizes.
    pub(crate) const MOST: usize = Sizes::<TAG>::MOST;

    /// Returns the cells of the block that holds this many bytes, or `None` if none does.
    #[inline(always)]
    pub(crate) fn cells_for(bytes: usize) -> Option<u32> {
        Sizes::<TAG>::cells_for(bytes)
    }

    /// Like [`cells_for`](Self::cells_for), of bytes that a block is known to hold.
    #[inline(always)]
    pub(crate) fn cells_of(bytes: usize) -> u32 {
        Sizes::<TAG>::cells_of(bytes)
    }

    /// Returns the bytes that a block of this many cells holds.
    #[inline(always)]
    pub(crate) const fn bytes(len: u32) -> usize {
        Sizes::<TAG>::bytes(len)
    }

    /// Returns the address of the first cell.
    pub(crate) fn origin(&self) -> usize {
        self.cells.origin().addr()
    }

    /// Returns where a block's contents start.
    #[inline(always)]
    pub(crate) fn contents(&self, start: u32) -> *mut u8 {
        self.cells.contents(start)
    }

    /// Returns the block whose contents start at this address; the caller vouches that it is in
    /// use.
    #[inline(always)]
    pub(crate) fn block_at(&self, address: usize) -> Block {
        self.cells.block_at(address)
    }

    /// Returns the block whose contents start at this address; the caller vouches that it is in use
    /// and was requested with `bytes` bytes.
    #[inline(always)]
    pub(crate) fn block_of(&self, address: usize, bytes: usize) -> Block {
        self.cells.block_of(address, Self::cells_of(bytes))
    }

    /// Returns the block in use whose contents start at this address, if there is one; any address
    /// may be passed. O(n).
    pub(crate) fn find_in_use(&self, address: usize) -> Option<Block> {
        let found = self.cells.find_in_use(address, self.cells.end(), &());
        found.filter(|&found| !self.is_area(found))
    }

    /// Allocates `len` cells at a multiple of `align` bytes, in the time of a search of the index.
    /// If the heap is lazy, [`bump`](Self::bump) has failed before, and the heap gets a new
    /// free-space area.
    #[inline(always)]
    pub(crate) fn allocate_block<S: Source, M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        source: &mut S,
        meter: &M,
    ) -> Result<u32, AllocError> {
        match self.allocate_known(len, align, meter) {
            Some(start) => Ok(start),
            None => self.allocate_growing(len, align, source, meter),
        }
    }

    /// Like [`allocate_block`](Self::allocate_block), but takes only free blocks of the index.
    #[inline(always)]
    pub(crate) fn allocate_known<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        meter: &M,
    ) -> Option<u32> {
        if A::LAZY {
            self.give_back(meter);
        }
        let (block, start) = self.look_up(len, align, meter)?;
        if !A::LAZY && R::JOINS && start == block.start {
            let behind = self.cells.split(block, len);
            let old = (!P::BY_SIZE).then_some(block);
            self.exchange(old, (behind.len > 0).then_some(behind), meter);
        } else {
            self.put_to_use(block, Block { start, len }, meter);
        }
        Some(start)
    }

    /// Like [`allocate_known`](Self::allocate_known), but also takes the wilderness. The heap does
    /// not grow.
    pub(crate) fn allocate_held<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        meter: &M,
    ) -> Option<u32> {
        let (block, start) = self.search(len, align, meter)?;
        self.put_to_use(block, Block { start, len }, meter);
        Some(start)
    }

    /// Like [`allocate_block`](Self::allocate_block), for a request that the index cannot serve.
    #[inline(never)]
    pub(crate) fn allocate_growing<S: Source, M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        source: &mut S,
        meter: &M,
    ) -> Result<u32, AllocError> {
        let (block, start) = self.find_or_grow(len, align, source, meter)?;
        self.put_to_use(block, Block { start, len }, meter);
        Ok(start)
    }

    /// Returns a block of the index for a request, and where in the block the request starts. An
    /// index by size has already removed the block.
    #[inline(always)]
    pub(super) fn look_up<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        meter: &M,
    ) -> Option<(Block, u32)> {
        if P::BY_SIZE {
            self.index.take(len, align, &mut self.cells, meter)
        } else {
            self.index.find(len, align, &self.cells, meter)
        }
    }

    /// Marks `used` as in use: cells of `block`, the free block that was found for them. The block
    /// becomes the free-space area if it may; otherwise the cells below and above `used` stay free.
    #[inline(never)]
    fn put_to_use<M: Meter>(&mut self, block: Block, used: Block, meter: &M) {
        // A block that ends at the end of the heap is the wilderness, which no index has.
        let mut old = if P::BY_SIZE { None } else { self.indexed(block) };
        let prev_in_use = self.prev_is_in_use(block);
        if self.serves_as_area(block) {
            self.renew_area(block, used.end(), old, meter);
            return self.use_area(used.start, used.len, meter);
        }
        let (below, above) = self.cells.carve(block, used, prev_in_use);
        if below.len > 0 {
            self.exchange(old.take(), Some(below), meter);
        }
        self.exchange(old, self.indexed(above), meter);
    }

    /// Returns the block whose contents start at this address, if the tags beside it mark it as in
    /// use. They mark a freed block as not in use until its memory is reused. O(1).
    #[inline]
    pub(crate) fn known_at(&self, address: usize) -> Option<Block> {
        let block = self.cells.block(self.cells.cell_at(address)?);
        let sound = block.len > 0 && block.len <= self.cells.end() - block.start;
        let in_use = |block: Block| {
            self.cells.is_in_use(block.start) && self.cells.prev_is_in_use(block.end())
        };
        (sound && in_use(block)).then_some(block)
    }

    /// Returns the block that starts at `start`; there must be one.
    pub(crate) fn block(&self, start: u32) -> Block {
        self.cells.block(start)
    }

    /// Divides a block in use into blocks of `len` cells each, all in use; the last one may be
    /// shorter. O(blocks).
    pub(crate) fn divide(&mut self, mut block: Block, len: u32) {
        while block.len > len {
            self.cells.divide(block, len);
            block = Block { start: block.start + len, len: block.len - len };
        }
    }

    /// Returns whether a block is free.
    pub(crate) fn is_free(&self, block: Block) -> bool {
        !self.cells.is_in_use(block.start)
    }

    /// Returns a block together with the free ones beside it.
    pub(crate) fn with_free_neighbours(&self, block: Block) -> Block {
        block.joined_with(self.cells.free_below(block.start), self.free_above(block.end()))
    }

    /// Makes a block in use free memory: joins it with its free neighbours, and possibly with the
    /// free-space area. Takes the time of a change of the index.
    #[inline(always)]
    pub(super) fn make_free<M: Meter>(&mut self, block: Block, meter: &M) {
        meter.touch(self.cells.header(block.start));
        meter.touch(self.cells.header(block.end()));
        if A::LAZY && self.adjoins_area(block) {
            match A::BESIDE {
                Beside::Apart => {}
                Beside::Joins => return self.extend_area(block, meter),
                Beside::Releases => self.give_back(meter),
            }
        }
        if !R::JOINS {
            let prev_in_use = self.prev_is_in_use(block);
            self.cells.put_free(block, prev_in_use);
            return self.exchange(None, self.indexed(block), meter);
        }
        let below = self.cells.free_below(block.start);
        let above = self.free_above(block.end());
        let joined = block.joined_with(below, above);
        // Blocks must leave the index while their tags are still right.
        let known = (below, above.and_then(|above| self.indexed(above)));
        let old = self.index.remove_but_one(known, &mut self.cells, meter);
        self.cells.put_free(joined, true);
        self.exchange(old, self.indexed(joined), meter);
    }

    /// Takes a block's free neighbours out of the index, and returns the three joined; their tags
    /// are unchanged.
    pub(super) fn take_neighbours<M: Meter>(&mut self, block: Block, meter: &M) -> Block {
        let below = self.cells.free_below(block.start);
        let above = self.free_above(block.end());
        self.exchange(below, None, meter);
        self.exchange(above.and_then(|above| self.indexed(above)), None, meter);
        block.joined_with(below, above)
    }

    /// Returns whether the block below this one is in use. If neighbours are joined at once, the
    /// block below a free one always is.
    #[inline(always)]
    fn prev_is_in_use(&self, block: Block) -> bool {
        R::JOINS || self.cells.prev_is_in_use(block.start)
    }

    /// Returns the free block that starts at `start`, if one does. A withheld block does not count
    /// as free.
    #[inline(always)]
    pub(super) fn free_above(&self, start: u32) -> Option<Block> {
        if R::WITHHOLDS { self.cells.joinable_above(start) } else { self.cells.free_above(start) }
    }

    /// Returns the free block that reaches the end, if there is one.
    pub(super) fn wilderness(&self) -> Option<Block> {
        self.cells.free_below(self.cells.end())
    }

    /// Returns the block if it belongs in the index, that is, if it has cells and is not the
    /// wilderness.
    #[inline(always)]
    pub(super) fn indexed(&self, block: Block) -> Option<Block> {
        (block.len > 0 && block.end() != self.cells.end()).then_some(block)
    }

    /// Replaces `old` by `new` in the index.
    #[inline(always)]
    pub(super) fn exchange<M: Meter>(&mut self, old: Option<Block>, new: Option<Block>, meter: &M) {
        self.index.exchange(old, new, &mut self.cells, meter);
    }
}
