//! The program's memory: blocks with known contents, and memory that no allocator may hand out.

use std::collections::BTreeMap;

use crate::c;
use crate::random::Random;
use crate::stage;

/// Of a block beyond a mebibyte only this many bytes at either end are written.
const END: usize = 4096;

/// The memory in use, as pieces that must not overlap. If `malloc` hands out a block that overlaps
/// one, the program ends there: that is the proof.
pub(crate) struct Live {
    /// Bytes from each address.
    pieces: BTreeMap<usize, usize>,
    /// The pieces that are blocks, in no order.
    blocks: Vec<*mut u8>,
    pub(crate) random: Random,
    /// Whether a block was seen whose contents the program had not written.
    pub(crate) overwritten: bool,
    /// The result that a misuse saw by itself.
    pub(crate) seen: Option<&'static str>,
}

// SAFETY: blocks of `malloc` may be used by any thread.
unsafe impl Send for Live {}

impl Live {
    pub(crate) fn new() -> Self {
        let (pieces, blocks) = (BTreeMap::new(), Vec::new());
        Self { pieces, blocks, random: Random(0x5EED_0123_4567), overwritten: false, seen: None }
    }

    /// Memory that the allocator does not own.
    pub(crate) fn foreign(&mut self, start: *mut u8, size: usize) {
        self.pieces.insert(start.addr(), size);
    }

    /// A block of `malloc`, which overlaps nothing.
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

    /// Allocates as many blocks of this size.
    pub(crate) fn fill(&mut self, count: usize, size: usize) -> Vec<*mut u8> {
        (0..count).map(|_| self.allocate(size)).collect()
    }

    /// Leaves a block to a misuse: whatever becomes of it is not held against the allocator.
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

/// Writes this word all over the written part of a block.
pub(crate) fn write_all(block: *mut u8, size: usize, value: u64) {
    for offset in words(size) {
        // SAFETY: the word lies in the block, which is live.
        unsafe { block.add(offset).cast::<u64>().write_volatile(value) };
    }
}

/// Returns whether the word is anywhere in the written part of a block.
///
/// # Safety
/// A block of this size once started here. Its present contents are read, whatever they are.
pub(crate) unsafe fn contains(block: *mut u8, size: usize, value: u64) -> bool {
    // SAFETY: the caller guarantees it.
    words(size).any(|offset| unsafe { block.add(offset).cast::<u64>().read_volatile() == value })
}
