//! Checks whether a free block's words are still as the heap wrote them, before the heap follows
//! them.
//!
//! A free block of [`Good`] lies among blocks in use, whose owners may write beyond them, and its
//! former owner may still write to it. Its words are redundant:
//!
//! ```text
//! [H] [next][back] …            … [F] [H']    H: size, free; F: the size again; H': below is free
//!       │     └── what leads here ── leads here
//!       └──────── its back leads here
//! ```
//! A heap that vets compares all of them first, in some thirty instructions. A block that fails
//! stays where it is, and the heap [remembers](TagHeap::damaged) it. The caller checks for that
//! before it goes on, since walks and audits from then on may read overwritten tags.

use super::good::Good;
use super::heap::TagHeap;
use crate::tags::{Block, Cells};

impl Good {
    /// Returns whether a block of the index is as the heap left it. If not, remembers it.
    #[inline]
    pub(super) fn vet(&mut self, block: Block, cells: &Cells) -> bool {
        let sound = cells.is_whole_free(block) && self.is_linked(block, cells);
        if !sound {
            self.note(block);
        }
        sound
    }

    /// Remembers damage, unless some is remembered already.
    #[cold]
    fn note(&mut self, block: Block) {
        self.damaged.get_or_insert(block);
    }
}

impl TagHeap<Good> {
    /// Makes the heap vet every free block before it uses the block.
    pub(crate) fn vet_all(&mut self) {
        self.index.vets = true;
    }

    /// Returns whether free blocks are vetted.
    #[inline]
    pub(crate) fn vets(&self) -> bool {
        self.index.vets
    }

    /// Remembers damage to the tags of the block at this address, which is in the heap.
    #[cold]
    pub(crate) fn damage_at(&mut self, address: usize) {
        if let Some(start) = self.cells.cell_at(address) {
            self.index.note(Block { start, len: 0 });
        }
    }

    /// Returns the first free block found overwritten, if one was.
    pub(crate) fn damaged(&self) -> Option<Block> {
        self.index.damaged
    }

    /// Returns whether the free blocks beside a block in use, with which it may soon be joined, are
    /// as the heap left them. If not, the heap [remembers](Self::damaged) that.
    pub(crate) fn vet_neighbours(&mut self, block: Block) -> bool {
        let end = self.cells.end();
        if !self.cells.prev_is_in_use(block.start) {
            let sound = self.cells.whole_below(block.start).is_some_and(|below| self.vet(below));
            if !sound {
                self.index.note(block);
                return false;
            }
        }
        block.end() >= end || self.cells.is_in_use(block.end()) || {
            let above = self.cells.block(block.end());
            self.vet(above)
        }
    }

    /// Returns whether a free block is sound and on its list; the wilderness is on no list.
    fn vet(&mut self, block: Block) -> bool {
        if self.indexed(block).is_some() {
            return self.index.vet(block, &self.cells);
        }
        let sound = self.cells.is_whole_free(block);
        if !sound {
            self.index.note(block);
        }
        sound
    }
}

#[cfg(test)]
mod tests {
    use core::mem::MaybeUninit;

    use super::*;
    use crate::source::Region;
    use crate::tags::CELL;

    /// Makes a heap that vets, with five blocks of 6 cells, the second and the fourth free.
    fn heap(region: &mut Region) -> (TagHeap<Good>, [u32; 5]) {
        let mut heap = TagHeap::<Good>::growing_by(1 << 14);
        heap.vet_all();
        let mut take = || heap.allocate_block(6, CELL, region, &()).expect("there is room");
        let starts = [take(), take(), take(), take(), take()];
        for free in [1, 3] {
            heap.release(Block { start: starts[free], len: 6 }, &());
        }
        (heap, starts)
    }

    fn memory() -> Vec<MaybeUninit<u8>> {
        Box::<[u8]>::new_uninit_slice(1 << 16).into_vec()
    }

    fn region(memory: &mut [MaybeUninit<u8>]) -> Region {
        // SAFETY: only the region uses the memory, which outlives it.
        unsafe { Region::new(memory.as_mut_ptr().cast(), memory.len()) }
    }

    /// Words of a block, from its start: header, links, footer, and the header of the block above.
    const HEADER: isize = -1;
    const NEXT: isize = 0;
    const BACK: isize = 1;
    const FOOTER: isize = 22;
    const ABOVE: isize = 23;

    /// Each word of the free blocks beside one in use is overwritten in turn, with several values.
    #[test]
    fn every_word_of_a_free_block_counts() {
        let words = [(1, HEADER), (1, NEXT), (1, BACK), (1, FOOTER)];
        let words = words.into_iter().chain([HEADER, NEXT, BACK, FOOTER, ABOVE].map(|w| (3, w)));
        for (free, word) in words {
            for value in [0_u32, 2, 3, 7, 41, 0x4141_4141, 0x4141_4142, u32::MAX] {
                let mut memory = memory();
                let mut region = region(&mut memory);
                let (mut heap, starts) = heap(&mut region);
                let between = Block { start: starts[2], len: 6 };
                assert!(heap.vet_neighbours(between), "nothing was overwritten yet");
                let place = heap.contents(starts[free]).cast::<u32>().wrapping_offset(word);
                // SAFETY: the word lies in the heap's memory.
                let same = unsafe { place.replace(value) } == value;
                // A header above marks both blocks as it must, whatever size it tells.
                let agrees = word == ABOVE && value & 3 == 1;
                // A header that marks its block as in use: none of its words is followed.
                let unused = (free, word) == (3, HEADER) && value & 1 == 1;
                let sound = same || agrees || unused;
                assert_eq!(heap.vet_neighbours(between), sound, "{free} {word} {value:#x}");
                assert_eq!(heap.damaged().is_none(), sound);
            }
        }
    }

    /// A size that ends beyond the heap is not followed.
    #[test]
    fn a_size_beyond_the_end_is_noticed() {
        let mut memory = memory();
        let mut region = region(&mut memory);
        let (mut heap, starts) = heap(&mut region);
        let header = heap.contents(starts[3]).cast::<u32>().wrapping_offset(HEADER);
        let len = heap.end() - starts[3] + 1;
        // SAFETY: the word lies in the heap's memory.
        unsafe { header.write(len << 2 | 2) };
        assert!(!heap.vet_neighbours(Block { start: starts[2], len: 6 }));
        assert!(heap.damaged().is_some());
    }

    /// A link that was overwritten is not followed: the block is not handed out.
    #[test]
    fn a_damaged_block_is_not_taken() {
        for (word, value) in [(0, 0x4141_4141_u32), (1, 0x4141_4141), (0, 2 << 2), (22, 7)] {
            let mut memory = memory();
            let mut region = region(&mut memory);
            let (mut heap, starts) = heap(&mut region);
            // The last freed is the first taken.
            let place = heap.contents(starts[3]).cast::<u32>().wrapping_add(word);
            // SAFETY: the word lies in the heap's memory.
            unsafe { place.write(value) };
            let taken = heap.allocate_known(6, CELL, &());
            assert_eq!(taken, None, "{word}");
            assert_eq!(heap.damaged(), Some(Block { start: starts[3], len: 6 }));
        }
    }

    /// A damaged block is not taken when there is no other memory, either.
    #[test]
    fn a_damaged_block_is_not_taken_at_last() {
        let mut memory = memory();
        let mut region = region(&mut memory);
        let mut heap = TagHeap::<Good>::growing_by(1 << 14);
        heap.vet_all();
        let mut starts = Vec::new();
        while let Ok(start) = heap.allocate_block(6, CELL, &mut region, &()) {
            starts.push(start);
        }
        heap.release(Block { start: starts[3], len: 6 }, &());
        let victim = heap.contents(starts[0]).cast::<u32>();
        let back = heap.contents(starts[3]).cast::<u32>().wrapping_offset(BACK);
        // SAFETY: the words lie in the heap's memory.
        unsafe {
            victim.write(0x1234_5678);
            back.write(starts[0] * 4);
        }
        let taken = heap.allocate_block(6, CELL, &mut region, &());
        // SAFETY: as above.
        assert_eq!(unsafe { victim.read() }, 0x1234_5678, "a block in use is unchanged: {taken:?}");
        assert!(taken.is_err() && heap.damaged().is_some());
    }
}
