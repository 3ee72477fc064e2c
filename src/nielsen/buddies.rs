//! Category 5: buddy blocks. Block lengths are powers of two, overhead included. There is a list of
//! free blocks for each length.
//!
//! ```text
//!  word  0               8       12  14  16
//!        [S|→|…          [S|→|…  [S|…[S|→|        a block's buddy is at start ⊻ length
//! ```
//! At first, memory consists of the largest such blocks that it can hold. A block that is too long
//! is halved; only halves of the same block are joined again. With forward pointers only, a buddy
//! is searched for on its list. As in the paper, the length takes a word of each block;
//! [`Buddy`](crate::buddy::Buddy) instead stores its tags apart from the blocks.
//!
//! Invariants:
//! - blocks tile the memory, each 2^k words long and starting at a multiple of that;
//! - each free block is on the list of its length;
//! - with compaction on deallocation no two buddies are both free.

use core::alloc::Layout;
use core::marker::PhantomData;

use super::algorithm::Algorithm;
use super::compaction::{Collection, Compaction};
use super::fields::Fields;
use super::list::{List, Order};
use super::words::{ALIGN, Block, MAX_WORDS, NIL, Request, WORD, Words};
use crate::error::Fault;
use crate::meter::Meter;

/// Number of lengths: no memory has 2³¹ words.
const ORDERS: usize = 31;

/// Binary buddies.
#[derive(Debug)]
pub struct Buddies<O, F, C> {
    /// List k has the free blocks of 2^k words.
    lists: [List<O, F>; ORDERS],
    /// How often all of memory was walked to make the lists anew.
    collections: u64,
    compaction: PhantomData<C>,
}

/// Returns the buddy of a block, if it is free: the block of the same length at `start ⊻ len`.
fn buddy_of(block: Block, words: &Words) -> Option<Block> {
    // If that word is not in a block of twice the length, a block starts there.
    words.free_block(block.start ^ block.len).filter(|buddy| buddy.len == block.len)
}

/// Returns the block that a block and its buddy form.
fn parent_of(block: Block) -> Block {
    Block { start: block.start & !block.len, len: 2 * block.len }
}

impl<O: Order, F: Fields, C: Compaction> Buddies<O, F, C> {
    /// Returns the list of free blocks of this block's length.
    fn list_of(&mut self, block: Block) -> &mut List<O, F> {
        &mut self.lists[block.len.trailing_zeros() as usize]
    }

    /// Marks a block as free, and puts it on its list.
    fn insert<M: Meter>(&mut self, block: Block, words: &mut Words, meter: &M) {
        words.mark(block, true);
        self.list_of(block).insert(block, words, meter);
    }

    /// Takes a block off its list, if it is there.
    fn remove<M: Meter>(&mut self, block: Block, words: &mut Words, meter: &M) {
        let list = self.list_of(block);
        if let Some(before) = list.before(block.start, words, meter) {
            list.take_behind(before, words);
        }
    }

    /// Takes the first block of the shortest length that is enough.
    fn find<M: Meter>(&mut self, len: u32, words: &mut Words, meter: &M) -> Option<Block> {
        let list = self.lists[len.trailing_zeros() as usize..]
            .iter_mut()
            .find(|list| list.after(NIL, words) != NIL)?;
        let start = list.after(NIL, words);
        meter.visit(words.pointer(start));
        list.take_behind(NIL, words);
        Some(words.block(start))
    }

    /// Halves a block until it is `len` words long, and frees the upper halves.
    fn halve<M: Meter>(&mut self, block: Block, len: u32, words: &mut Words, meter: &M) -> Block {
        let mut block = block;
        while block.len > len {
            block.len /= 2;
            self.insert(Block { start: block.end(), ..block }, words, meter);
        }
        words.mark(block, false);
        block
    }

    /// Makes the lists anew from all of memory. Joins blocks first, upwards, so that those below a
    /// block are already joined.
    #[cold]
    fn collect<M: Meter>(&mut self, collection: Collection, words: &mut Words, meter: &M) {
        self.collections += u64::from(words.end() > 0);
        let mut start = 0;
        while start < words.end() {
            meter.visit(words.pointer(start));
            let mut block = words.block(start);
            start = block.end();
            let joins = collection == Collection::Join && words.is_free(block.start);
            while joins && block.start & block.len != 0 && buddy_of(block, words).is_some() {
                block = parent_of(block);
                words.mark(block, true);
            }
        }
        self.lists.iter_mut().for_each(List::clear);
        let mut start = 0;
        while start < words.end() {
            let block = words.block(start);
            if words.is_free(start) {
                self.list_of(block).insert(block, words, meter);
            }
            start = block.end();
        }
    }
}

impl<O: Order, F: Fields, C: Compaction> Algorithm for Buddies<O, F, C> {
    type Fields = F;
    const UNIT: u32 = F::LEAST.next_power_of_two();
    const EMPTY: Self = {
        assert!(!F::BACK, "a buddy is found without a pointer");
        assert!(!C::LIMBO && !C::ON_ALLOCATION, "buddies join when freed, or are collected");
        Self { lists: [List::new(0); ORDERS], collections: 0, compaction: PhantomData }
    };

    /// Contents are aligned to the block's length, up to [`ALIGN`]. For a greater alignment the
    /// block is long enough to hold the request wherever it must start.
    fn request(layout: Layout) -> Option<Request> {
        let header = F::HEADER as usize * WORD;
        let bytes = layout.size().checked_add(header)?;
        let bytes = match layout.align() {
            align if align <= ALIGN => bytes.max(align),
            align => bytes.checked_add(align)?,
        };
        let len = bytes.div_ceil(WORD).max(F::LEAST as usize).checked_next_power_of_two()?;
        let len = u32::try_from(len).ok().filter(|&len| len < MAX_WORDS)?;
        Some(Request { len, align: layout.align().max(WORD) })
    }

    fn serves(block: Block, request: Request) -> bool {
        block.len == request.len
    }

    fn start_of(contents: u32, request: Request) -> Option<u32> {
        Some(contents & !(request.len - 1))
    }

    fn reach(request: Request, from: u32, _: &Words) -> Option<u32> {
        from.checked_next_multiple_of(request.len)?.checked_add(request.len)
    }

    fn take<M: Meter>(&mut self, request: Request, words: &mut Words, meter: &M) -> Option<Block> {
        let mut found = self.find(request.len, words, meter);
        for &collection in C::COLLECTIONS {
            if found.is_none() {
                self.collect(collection, words, meter);
                found = self.find(request.len, words, meter);
            }
        }
        Some(self.halve(found?, request.len, words, meter))
    }

    fn add<M: Meter>(&mut self, block: Block, words: &mut Words, meter: &M) {
        let mut start = block.start;
        while start < block.end() {
            // The longest block that may start here and does not leave the memory.
            let order = start.trailing_zeros().min((block.end() - start).ilog2());
            let part = Block { start, len: 1 << order };
            words.mark(part, false);
            start = part.end();
        }
        let mut start = block.start;
        while start < block.end() {
            let part = words.block(start);
            start = part.end();
            self.release(part, words, meter);
        }
    }

    fn release<M: Meter>(&mut self, block: Block, words: &mut Words, meter: &M) {
        let mut block = block;
        meter.touch(words.pointer(block.start));
        if C::ON_DEALLOCATION {
            meter.touch(words.pointer(block.start ^ block.len));
            while let Some(buddy) = buddy_of(block, words) {
                self.remove(buddy, words, meter);
                block = parent_of(block);
                meter.touch(words.pointer(block.start ^ block.len));
            }
        }
        self.insert(block, words, meter);
    }

    fn resize<M: Meter>(
        &mut self,
        block: Block,
        request: Request,
        words: &mut Words,
        meter: &M,
    ) -> Option<Block> {
        // To grow in place, each buddy on the way must follow the block and be free.
        let mut grown = block;
        while grown.len < request.len {
            if grown.start & grown.len != 0 {
                return None;
            }
            buddy_of(grown, words)?;
            grown.len *= 2;
        }
        grown.len = block.len;
        while grown.len < request.len {
            self.remove(Block { start: grown.end(), ..grown }, words, meter);
            grown.len *= 2;
        }
        while grown.len > request.len {
            grown.len /= 2;
            let upper = Block { start: grown.end(), ..grown };
            words.mark(grown, false);
            words.mark(upper, false);
            self.release(upper, words, meter);
        }
        words.mark(grown, false);
        Some(grown)
    }

    fn collections(&self) -> u64 {
        self.collections
    }

    fn audit(&self, words: &Words) -> Result<(), Fault> {
        let mut listed = 0;
        for (list, order) in self.lists.iter().zip(0..) {
            list.audit(words, &mut |block| {
                listed += 1;
                let at = words.address(block.start);
                Fault::unless(block.len == 1 << order, "a block is on the list of its length", at)
            })?;
        }
        let mut free = 0;
        for (block, is_free) in words.blocks() {
            let at = words.address(block.start);
            let aligned = block.len.is_power_of_two() && block.start.is_multiple_of(block.len);
            Fault::unless(aligned, "a block starts at a multiple of its length", at)?;
            if is_free {
                free += 1;
                let joined = !C::ON_DEALLOCATION || buddy_of(block, words).is_none();
                Fault::unless(joined, "free buddies are joined", at)?;
            }
        }
        Fault::unless(listed == free, "each free block is on a list", words.address(0))
    }
}
