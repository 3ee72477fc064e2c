//! GOOD-FIT: free blocks on lists by size, the sizes of a list close together; constant time.
//!
//! ```text
//! list      1  2  3 …  63 | 64–65  66–67  …  126–127 | 128–131  132–135 …       cells
//! occupied  0  1  1     0 |   1      0          1    |    0        0            bits
//! ```
//! Below 64 cells (1 KiB) a list has blocks of one size, above there are 32 lists for each doubling,
//! so that any two sizes of a list differ by less than a thirty-second. A request takes the first
//! block of the first list all of whose blocks are large enough, which a word or two of bits tell:
//! TLSF (Masmano, Ripoll, Crespo & Real 2004). So a block on the list of the request's own size may
//! be passed over although it would do. Requests of 16 KiB and more, for which that costs most and
//! a look least, are therefore served from there if one of the first few blocks fits; and where
//! there is no other memory, the whole list is looked through.
//!
//! Compared with [`Best`](super::Best), it gives up the lowest address among equals for about half
//! the instructions.

use super::heap::Heap;
use super::policy::{Policy, certain, fit};
use super::sealed;
use crate::block::tag::{Block, CELL, Cells, Link, NONE};
use crate::meter::Meter;
use crate::strategy::Fault;

/// log₂ of the lists for each doubling.
const STEPS: u32 = 5;

/// Lists: 2·32 for the exact sizes, 32 for each further doubling up to 2³⁰ cells, and some that are
/// never used, so that any number modulo this is a list's.
const LISTS: usize = 1 << (STEPS + 5);

/// Cells from which on a request's own list is looked at first. (It costs smaller ones more time
/// than it saves room.)
const LOOKING: u32 = 1024;

/// Blocks looked at there.
const LOOKS: usize = 4;

/// Words of bits that say which lists have blocks, as far as lists are used.
const WORDS: usize = LISTS / u64::BITS as usize;

/// The links of a block on a list: to the next, or none, and to the one before; the first has the
/// number of the list there, and [`HEAD`].
const NEXT: Link = Link::First;
const PREVIOUS: Link = Link::Second;

/// The bit that no cell's number has.
const HEAD: u32 = 1 << 31;

/// Free blocks on lists. Invariants: a list's bit is set iff it has a block, a word's bit iff the
/// word is not 0; a list is linked both ways.
#[derive(Debug)]
pub struct Good {
    occupied: [u64; WORDS],
    first: [u32; LISTS],
}

/// The list of a size: the size itself up to 2⁶ − 1, then its leading six bits and how many
/// follow.
#[inline(always)]
fn list_of(len: u32) -> usize {
    let following = (len | 1 << STEPS).ilog2() - STEPS;
    ((following << STEPS) + (len >> following)) as usize % LISTS
}

/// The first list all of whose blocks have `len` cells, at least 1: the one behind that of the next
/// smaller size.
#[inline(always)]
fn list_for(len: u32) -> usize {
    list_of(len - 1) + 1
}

impl Good {
    /// The first list from `list` on that has blocks.
    #[inline(always)]
    fn first_from(&self, list: usize) -> Option<usize> {
        let mut word = list / 64 % WORDS;
        let lists = self.occupied[word] >> (list % 64);
        if lists != 0 {
            return Some(list + lists.trailing_zeros() as usize);
        }
        loop {
            word += 1;
            let lists = *self.occupied.get(word)?;
            if lists != 0 {
                return Some(word * 64 + lists.trailing_zeros() as usize);
            }
        }
    }

    /// The first block of the first list from `list` on that has one, and its list.
    #[inline(always)]
    fn choose<M: Meter>(&self, list: usize, cells: &Cells, meter: &M) -> Option<(usize, Block)> {
        let list = self.first_from(list)? % LISTS;
        let found = cells.block(self.first[list]);
        meter.visit(cells.header(found.start));
        Some((list, found))
    }

    /// As [`choose`](Self::choose), and where in the block cells at a multiple of `align` bytes
    /// start: in the block of the first choice, if that happens to hold them so, or in one that
    /// holds them wherever it starts.
    fn choose_aligned<M: Meter>(
        &self,
        len: u32,
        align: usize,
        cells: &Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        let (_, chosen) = self.choose(list_for(len), cells, meter)?;
        if let Some(start) = fit(chosen, len, align, cells) {
            return Some((chosen, start));
        }
        let (_, chosen) = self.choose(list_for(certain(len, align)?), cells, meter)?;
        Some((chosen, fit(chosen, len, align, cells)?))
    }

    /// As [`choose_aligned`](Self::choose_aligned), and takes the block off its list.
    #[inline(never)]
    fn take_aligned<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &mut Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        let found = self.choose_aligned(len, align, cells, meter)?;
        self.unlink(found.0.start, cells);
        Some(found)
    }

    /// Takes the smallest block that fits among the first few of a request's own list.
    #[inline(never)]
    fn take_close<M: Meter>(&mut self, len: u32, cells: &mut Cells, meter: &M) -> Option<Block> {
        let mut found: Option<Block> = None;
        let mut start = self.first[list_of(len)];
        for _ in 0..LOOKS {
            if start == NONE {
                break;
            }
            meter.visit(cells.header(start));
            let block = cells.block(start);
            if block.len >= len && found.is_none_or(|found| block.len < found.len) {
                found = Some(block);
            }
            start = cells.link(start, NEXT);
        }
        self.unlink(found?.start, cells);
        found
    }

    /// Puts a block on a list, as the first.
    #[inline(always)]
    fn push(&mut self, list: usize, start: u32, cells: &mut Cells) {
        let first = core::mem::replace(&mut self.first[list], start);
        cells.set_link(start, NEXT, first);
        cells.set_link(start, PREVIOUS, HEAD | list as u32);
        cells.set_link_if_any(first, PREVIOUS, start);
        self.occupied[list / 64] |= 1 << (list % 64);
    }

    /// Takes the first block off its list.
    #[inline(always)]
    fn pop(&mut self, list: usize, start: u32, cells: &mut Cells) {
        let next = cells.link(start, NEXT);
        self.first[list] = next;
        cells.set_link_if_any(next, PREVIOUS, HEAD | list as u32);
        if next == NONE {
            self.occupied[list / 64] &= !(1 << (list % 64));
        }
    }

    /// Takes a block off its list, wherever it is on it. Whether it is the first, or the last, no
    /// branch could foretell, so there is none: what does not apply is written to where it was, or
    /// to nowhere.
    #[inline(always)]
    fn unlink(&mut self, start: u32, cells: &mut Cells) {
        let next = cells.link(start, NEXT);
        let previous = cells.link(start, PREVIOUS);
        cells.set_link_if_any(next, PREVIOUS, previous);
        let list = previous as usize % LISTS;
        let is_first = previous & HEAD != 0;
        let before = cells.link_slot(if is_first { NONE } else { previous }, NEXT);
        let slot = if is_first { &raw mut self.first[list] } else { before };
        // SAFETY: either is a word of ours: the anchor of the list, or the link of the block before.
        unsafe { slot.write(next) };
        if is_first & (next == NONE) {
            self.occupied[list / 64] &= !(1 << (list % 64));
        }
    }
}

impl Heap<Good> {
    /// Calls `visit` for every free block of so many cells or more, and perhaps for some that are
    /// a little smaller. O(blocks visited).
    pub(crate) fn for_each_free(&self, len: u32, mut visit: impl FnMut(Block)) {
        for &first in &self.index.first[list_of(len)..] {
            let mut start = first;
            while start != NONE {
                visit(self.cells.block(start));
                start = self.cells.link(start, NEXT);
            }
        }
        if self.end() > 0 {
            self.wilderness()
                .filter(|wilderness| wilderness.len >= len)
                .into_iter()
                .for_each(visit);
        }
    }
}

impl sealed::Sealed for Good {}

#[allow(private_interfaces, reason = "the trait is sealed; its methods are for this crate")]
impl Policy for Good {
    const EMPTY: Self = Self { occupied: [0; WORDS], first: [NONE; LISTS] };
    const BY_SIZE: bool = true;

    #[inline(always)]
    fn insert<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) {
        meter.link_double(cells.header(block.start));
        self.push(list_of(block.len), block.start, cells);
    }

    #[inline(always)]
    fn remove<M: Meter>(&mut self, block: Block, cells: &mut Cells, _: &M) {
        self.unlink(block.start, cells);
    }

    #[inline(always)]
    fn find<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        self.choose_aligned(len, align, cells, meter)
    }

    #[inline(always)]
    fn take<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &mut Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        if align > CELL {
            return self.take_aligned(len, align, cells, meter);
        }
        if len >= LOOKING
            && let Some(close) = self.take_close(len, cells, meter)
        {
            return Some((close, close.start));
        }
        let (list, chosen) = self.choose(list_for(len), cells, meter)?;
        self.pop(list, chosen.start, cells);
        Some((chosen, chosen.start))
    }

    #[cold]
    fn take_last<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &mut Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        // Of the lists passed over so far there are more than one only for the alignment's sake.
        for list in list_of(len)..=list_of(certain(len, align.max(CELL))?) {
            let mut start = self.first[list];
            while start != NONE {
                meter.visit(cells.header(start));
                let block = cells.block(start);
                if let Some(at) = fit(block, len, align, cells) {
                    self.unlink(block.start, cells);
                    return Some((block, at));
                }
                start = cells.link(start, NEXT);
            }
        }
        None
    }

    fn audit(&self, cells: &Cells, visit: &mut dyn FnMut(Block)) -> Result<(), Fault> {
        let origin = cells.origin().addr();
        for (list, &first) in self.first.iter().enumerate() {
            let occupied = self.occupied[list / 64] >> (list % 64) & 1 == 1;
            Fault::unless(
                occupied == (first != NONE),
                "a list's bit says whether it has blocks",
                origin,
            )?;
            let (mut start, mut previous) = (first, HEAD | list as u32);
            while start != NONE {
                let at = cells.contents(start).addr();
                Fault::unless(start < cells.end(), "a link leads to a block", at)?;
                Fault::unless(!cells.is_in_use(start), "a block on a list is free", at)?;
                let block = cells.block(start);
                Fault::unless(
                    list_of(block.len) == list,
                    "a block is on the list of its size",
                    at,
                )?;
                let linked = cells.link(start, PREVIOUS) == previous;
                Fault::unless(linked, "a list is linked both ways", at)?;
                visit(block);
                previous = start;
                start = cells.link(start, NEXT);
            }
        }
        Ok(())
    }
}
