//! The program's memory: blocks with known contents, and memory that no allocator may hand out.

use std::collections::BTreeMap;

use crate::c;
use crate::random::Random;
use crate::stage;

/// Blocks beyond a mebibyte are written only at either end, this many bytes.
const END: usize = 4096;

/// The memory in use, as ranges that must not overlap. If `malloc` returns a block that overlaps
/// one, the program exits: the damage is proved.
pub(crate) struct Live {
    /// Lengths by start address.
    pieces: BTreeMap<usize, usize>,
    /// The ranges that are blocks, in no order.
    blocks: Vec<*mut u8>,
    pub(crate) random: Random,
    /// Whether a block was found with contents that the program did not write.
    pub(crate) overwritten: bool,
    /// The result that a misuse itself observed.
    pub(crate) seen: Option<&'static str>,
}

// SAFETY: blocks of `malloc` may be used by any thread.
unsafe impl Send for Live {}

impl Live {
    pub(crate) fn new() -> Self {
        let (pieces, blocks) = (BTreeMap::new(), Vec::new());
        Self { pieces, blocks, random: Random(0x5EED_0123_4567), overwritten: false, seen: None }
    }

    /// Adds memory that the allocator does not own.
    pub(crate) fn foreign(&mut self, start: *mut u8, size: usize) {
        self.pieces.insert(start.addr(), size);
    }

    /// Adds a block of `malloc`, which must overlap nothing.
    pub(crate) fn enter(&mut self, block: *mut u8, size: usize) {
        let address = block.addr();
        let below = self.pieces.range(..=address).next_back();
        let above = self.pieces.range(address..).next();
        if below.is_some_and(|(start, size)| start + size > address)
            || above.is_some_and(|(start, _)| address + size > *start)
        {
            stage::end("overlap");
        }
        self.pieces.insert(address, size);
        self.blocks.push(block);
        write(block, size);
    }

    pub(crate) fn allocate(&mut self, size: usize) -> *mut u8 {
        let block = c::malloc(size);
        self.enter(block, size);
        block
    }

    /// Allocates `count` blocks of this size.
    pub(crate) fn fill(&mut self, count: usize, size: usize) -> Vec<*mut u8> {
        (0..count).map(|_| self.allocate(size)).collect()
    }

    /// Drops a block from the model, because a misuse uses it: its fate is not held against the
    /// allocator.
    pub(crate) fn forget(&mut self, block: *mut u8) {
        self.blocks.retain(|&other| other != block);
        self.take(block);
    }

    fn take(&mut self, block: *mut u8) {
        let size = self.pieces.remove(&block.addr()).expect("the block is live");
        self.overwritten |= !is_as_written(block, size);
    }

    pub(crate) fn free(&mut self, block: *mut u8) {
        self.forget(block);
        // SAFETY: the block is allocated and no longer used.
        unsafe { c::free(block) };
    }

    pub(crate) fn free_any(&mut self) {
        let number = self.random.below(self.blocks.len());
        let block = self.blocks.swap_remove(number);
        self.take(block);
        // SAFETY: as above.
        unsafe { c::free(block) };
    }

    pub(crate) fn free_all(&mut self) {
        while !self.is_empty() {
            self.free_any();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

/// Returns the words of a block that are written, as offsets.
fn words(size: usize) -> impl Iterator<Item = usize> {
    let end = if size > 1 << 20 { END } else { size };
    (0..end).step_by(8).chain((size - (end % size)..size).step_by(8))
}

/// Returns the contents of a word of a block.
fn word(block: *mut u8, offset: usize) -> u64 {
    (block.addr() + offset) as u64 ^ 0xA5A5_0000_0000_A5A5
}

fn write(block: *mut u8, size: usize) {
    for offset in words(size) {
        // SAFETY: the word lies in the block.
        unsafe { block.add(offset).cast::<u64>().write_volatile(word(block, offset)) };
    }
}

fn is_as_written(block: *mut u8, size: usize) -> bool {
    // SAFETY: the words lie in the block.
    words(size).all(|offset| unsafe {
        block.add(offset).cast::<u64>().read_volatile() == word(block, offset)
    })
}

/// Fills the written part of a block with this word.
pub(crate) fn write_all(block: *mut u8, size: usize, value: u64) {
    for offset in words(size) {
        // SAFETY: the word lies in the block, which is live.
        unsafe { block.add(offset).cast::<u64>().write_volatile(value) };
    }
}

/// Returns whether the written part of a block contains the word.
///
/// # Safety
/// A block of this size once started here. It may have been freed and reused.
pub(crate) unsafe fn contains(block: *mut u8, size: usize, value: u64) -> bool {
    // SAFETY: the caller guarantees it.
    words(size).any(|offset| unsafe { block.add(offset).cast::<u64>().read_volatile() == value })
}
