//! The engine of all algorithms but the buddies. Blocks are carved from larger ones, joined with
//! their neighbours according to the algorithm's [`Compaction`], and found by its [`Index`].
//!
//! ```text
//!  take:   index.find ──▶ carve        nothing found: collect, find again …, then more memory
//!  release: mark │ index.insert │ join with neighbours, index.replace
//! ```
//! Invariants:
//! - blocks tile the memory; pointers to preceding blocks are right;
//! - the index has all free blocks, except those that wait in limbo;
//! - with compaction on deallocation no two free neighbours are both of a kind the index can join.

use core::alloc::Layout;
use core::marker::PhantomData;

use super::algorithm::Algorithm;
use super::compaction::{Collection, Compaction};
use super::fields::Fields;
use super::search::Found;
use super::words::{ALIGN, Block, MAX_WORDS, Request, WORD, Words};
use crate::error::Fault;
use crate::meter::Meter;

/// How an algorithm keeps its free blocks, and in which order it looks at them.
pub trait Index {
    /// The overhead fields of its blocks.
    type Fields: Fields;
    /// The index of no blocks.
    const EMPTY: Self;

    /// Returns the length of the block that serves a request for a block of this length.
    fn rounded(len: u32) -> Option<u32> {
        Some(len)
    }

    /// Returns the block behind which a freed block belongs. Called before anything is changed.
    fn seat<M: Meter>(&self, block: Block, words: &Words, meter: &M) -> u32;

    /// Returns the free block that ends where `block` starts, if its seat shows one.
    fn below(&self, seat: u32, block: Block, words: &Words) -> Option<Block>;

    /// Returns whether a free block can be removed, in order to be joined, without a long search.
    fn can_join(_: Block) -> bool {
        true
    }

    /// Inserts a free block, at its seat if that is known.
    fn insert<M: Meter>(&mut self, block: Block, seat: Option<u32>, words: &mut Words, meter: &M);

    /// Inserts a free block that is behind all others in memory, during a collection.
    fn insert_highest<M: Meter>(&mut self, block: Block, words: &mut Words, meter: &M) {
        self.insert(block, None, words, meter);
    }

    /// Removes a free block, if the index has it.
    fn remove<M: Meter>(&mut self, block: Block, words: &mut Words, meter: &M);

    /// Replaces a free block by a larger one that contains it.
    fn replace<M: Meter>(&mut self, old: Block, new: Block, words: &mut Words, meter: &M) {
        self.remove(old, words, meter);
        self.insert(new, None, words, meter);
    }

    /// Removes all blocks.
    fn clear(&mut self);

    /// Called when blocks have been joined into one: no block starts within it any more.
    fn joined(&mut self, _: Block) {}

    /// Searches for a block. If `joins`, joins every free block met with the free ones behind it.
    /// The `last` search must not pass over any block that is large enough.
    fn find<M: Meter>(
        &mut self,
        request: Request,
        joins: bool,
        last: bool,
        words: &mut Words,
        meter: &M,
    ) -> Option<Found>;

    /// Puts what remains of a found block, before and behind the part taken, in the block's place
    /// in the list.
    fn carved<M: Meter>(
        &mut self,
        found: Found,
        rests: [Option<Block>; 2],
        words: &mut Words,
        meter: &M,
    );

    /// Checks the index, and calls `visit` for every block in it.
    fn audit(
        &self,
        words: &Words,
        visit: &mut dyn FnMut(Block) -> Result<(), Fault>,
    ) -> Result<(), Fault>;
}

/// An algorithm that joins neighbours: an index and a way of compacting.
#[derive(Debug)]
pub struct Indexed<I, C> {
    index: I,
    /// How often all of memory was walked to make the index anew.
    collections: u64,
    compaction: PhantomData<C>,
}

/// Joins a free block with the free blocks behind it and returns the whole. Tells `index` of every
/// block that disappears.
pub(super) fn absorb<F: Fields, M: Meter>(
    block: Block,
    words: &mut Words,
    meter: &M,
    mut disappears: impl FnMut(Block, &mut Words),
) -> Block {
    let mut whole = block;
    while let Some(next) = words.free_block(whole.end()) {
        meter.visit(words.pointer(next.start));
        disappears(next, words);
        whole.len += next.len;
    }
    if whole != block {
        words.put::<F, M>(whole, true, meter);
    }
    whole
}

impl<I: Index, C: Compaction> Indexed<I, C> {
    /// Cuts the request's block out of the block that was found.
    fn carve<M: Meter>(
        &mut self,
        found: Found,
        request: Request,
        words: &mut Words,
        meter: &M,
    ) -> Block {
        let whole = found.block;
        let before = Block::between(whole.start, found.start);
        let mut used = Block { start: found.start, len: request.len };
        if whole.end() - used.end() < I::Fields::LEAST {
            used = Block::between(used.start, whole.end());
        }
        let behind = Block::between(used.end(), whole.end());
        if used == whole {
            words.mark(used, false);
        } else {
            for (block, free) in [(before, true), (used, false), (behind, true)] {
                if block.len > 0 {
                    words.put::<I::Fields, M>(block, free, meter);
                }
            }
        }
        let rest = |block: Block| (block.len > 0).then_some(block);
        self.index.carved(found, [rest(before), rest(behind)], words, meter);
        used
    }

    /// Makes the index anew from all of memory.
    #[cold]
    fn collect<M: Meter>(&mut self, collection: Collection, words: &mut Words, meter: &M) {
        self.collections += u64::from(words.end() > 0);
        self.index.clear();
        let mut start = 0;
        while start < words.end() {
            meter.visit(words.pointer(start));
            let mut block = words.block(start);
            if words.is_free(start) {
                if collection == Collection::Join {
                    block = absorb::<I::Fields, M>(block, words, meter, |_, _| {});
                    self.index.joined(block);
                }
                self.index.insert_highest(block, words, meter);
            }
            start = block.end();
        }
    }

    /// Puts a block in use in the index, joined with its free neighbours.
    fn join<M: Meter>(&mut self, block: Block, words: &mut Words, meter: &M) {
        let can_join = |neighbour: &Block| I::can_join(*neighbour);
        let (mut seat, mut below) = (None, None);
        if !I::Fields::BACK {
            let found = *seat.insert(self.index.seat(block, words, meter));
            below = self.index.below(found, block, words);
        } else if block.start > 0 {
            let start = words.preceding::<I::Fields>(block.start);
            meter.touch(words.pointer(start));
            below = words.free_block(start);
        }
        let below = below.filter(can_join);
        let above = words.free_block(block.end()).filter(can_join);
        if block.end() < words.end() {
            meter.touch(words.pointer(block.end()));
        }
        let joined = Block::between(
            below.map_or(block.start, |below| below.start),
            above.map_or(block.end(), Block::end),
        );
        if let (Some(above), Some(_)) = (above, below) {
            self.index.remove(above, words, meter);
        }
        match below.or(above) {
            None => {
                words.mark(block, true);
                self.index.insert(block, seat, words, meter);
            }
            Some(neighbour) => {
                words.put::<I::Fields, M>(joined, true, meter);
                self.index.replace(neighbour, joined, words, meter);
            }
        }
        self.index.joined(joined);
    }
}

impl<I: Index, C: Compaction> Algorithm for Indexed<I, C> {
    type Fields = I::Fields;
    const UNIT: u32 = 1;
    const EMPTY: Self = {
        // With pointers back, a list is only asked for blocks that are on it.
        assert!(!(C::LIMBO && I::Fields::LINKS == 2), "blocks in limbo take forward pointers");
        Self { index: I::EMPTY, collections: 0, compaction: PhantomData }
    };

    /// Up to [`ALIGN`], lengths are rounded up to the alignment, so that the next block of that
    /// alignment can follow without a gap.
    fn request(layout: Layout) -> Option<Request> {
        let contents = u32::try_from(layout.size().div_ceil(WORD)).ok()?;
        let len = contents.checked_add(Self::Fields::HEADER)?.max(Self::Fields::LEAST);
        let unit = layout.align().clamp(WORD, ALIGN) / WORD;
        let len = I::rounded(len.checked_next_multiple_of(unit as u32)?)?;
        (len < MAX_WORDS).then_some(Request { len, align: layout.align().max(WORD) })
    }

    fn serves(block: Block, request: Request) -> bool {
        block.len >= request.len && block.len - request.len < Self::Fields::LEAST
    }

    fn start_of(contents: u32, _: Request) -> Option<u32> {
        contents.checked_sub(Self::Fields::HEADER)
    }

    fn reach(request: Request, from: u32, words: &Words) -> Option<u32> {
        let unbounded = Block::between(from, u32::MAX);
        request.place::<Self::Fields>(unbounded, words)?.checked_add(request.len)
    }

    fn take<M: Meter>(&mut self, request: Request, words: &mut Words, meter: &M) -> Option<Block> {
        for step in 0..=C::COLLECTIONS.len() {
            if let Some(&collection) = step.checked_sub(1).and_then(|step| C::COLLECTIONS.get(step))
            {
                self.collect(collection, words, meter);
            }
            let last = step == C::COLLECTIONS.len();
            let found = self.index.find(request, C::ON_ALLOCATION, last, words, meter);
            if let Some(found) = found {
                return Some(self.carve(found, request, words, meter));
            }
        }
        None
    }

    fn add<M: Meter>(&mut self, block: Block, words: &mut Words, meter: &M) {
        if C::LIMBO {
            words.mark(block, true);
            self.index.insert_highest(block, words, meter);
        } else {
            self.release(block, words, meter);
        }
    }

    fn release<M: Meter>(&mut self, block: Block, words: &mut Words, meter: &M) {
        meter.touch(words.pointer(block.start));
        if C::ON_DEALLOCATION {
            self.join(block, words, meter);
            return;
        }
        words.mark(block, true);
        if !C::LIMBO {
            self.index.insert(block, None, words, meter);
        }
    }

    fn resize<M: Meter>(
        &mut self,
        block: Block,
        request: Request,
        words: &mut Words,
        meter: &M,
    ) -> Option<Block> {
        let mut whole = block;
        if block.len < request.len {
            meter.touch(words.pointer(block.end()));
            let above = words.free_block(block.end())?;
            whole.len += above.len;
            if whole.len < request.len {
                return None;
            }
            self.index.remove(above, words, meter);
        }
        let mut used = Block { len: request.len, ..whole };
        if whole.len - used.len < Self::Fields::LEAST {
            used = whole;
        }
        if used == block {
            return Some(used);
        }
        words.put::<Self::Fields, M>(used, false, meter);
        self.index.joined(used);
        let rest = Block::between(used.end(), whole.end());
        if rest.len > 0 {
            words.put::<Self::Fields, M>(rest, false, meter);
            self.release(rest, words, meter);
        }
        Some(used)
    }

    fn collections(&self) -> u64 {
        self.collections
    }

    fn audit(&self, words: &Words) -> Result<(), Fault> {
        let all = |(blocks, len): (u32, u32), block: Block| (blocks + 1, len + block.len);
        let mut known = (0, 0);
        self.index.audit(words, &mut |block| {
            known = all(known, block);
            Ok(())
        })?;
        let mut free = (0, 0);
        let mut below: Option<Block> = None;
        for (block, is_free) in words.blocks() {
            let at = words.address(block.start);
            let neighbours = below.replace(block).filter(|below| words.is_free(below.start));
            if is_free {
                free = all(free, block);
                let joinable = neighbours.is_some_and(I::can_join) && I::can_join(block);
                Fault::unless(!(C::ON_DEALLOCATION && joinable), "free neighbours are joined", at)?;
            }
        }
        let at = words.address(0);
        let complete = if C::LIMBO { known.1 <= free.1 } else { known == free };
        Fault::unless(complete, "the index has every free block", at)
    }
}
