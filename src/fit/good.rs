//! GOOD-FIT: free blocks on lists by size, the sizes of a list close together; constant time.
//!
//! ```text
//! list      1  2  3 …  31 | 32–33  34–35  …  62–63 | 64–67  68–71 …        cells
//! occupied  0  1  1     0 |   1      0         1   |   0      0            bits
//! words     1                                          0                   one bit for each 64
//! ```
//! Below 32 cells (512 B) a list has blocks of one size, above there are sixteen lists for each
//! doubling, so that any two sizes of a list differ by at most a sixteenth. A request takes a
//! block of the first list all of whose blocks are large enough, found in two words of bits, if
//! none of the few blocks looked at on the list of its own size fits. That is TLSF (Masmano,
//! Ripoll, Crespo & Real 2004) but for that look, without which a block of exactly the size asked
//! for would be passed over.
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
const STEPS: u32 = 4;

/// Lists: 2·16 for the exact sizes, 16 for each further doubling up to 2³⁰ cells, and some that are
/// never used, so that any number modulo this is a list's.
const LISTS: usize = 512;

const WORDS: usize = LISTS / u64::BITS as usize;

/// Blocks looked at on a request's own list.
const LOOKS: usize = 4;

/// Free blocks on lists. Invariants: a list's bit is set iff it has a block, a word's bit iff the
/// word is not 0; a list is linked both ways (the first link leads on) and ends in no block.
#[derive(Debug)]
pub struct Good {
    words: u64,
    occupied: [u64; WORDS],
    first: [u32; LISTS],
}

/// The list of a size: the size itself up to 2⁵ − 1, then its leading five bits and how many
/// follow.
#[inline(always)]
fn list_of(len: u32) -> usize {
    let following = (len | 1 << STEPS).ilog2() - STEPS;
    ((following << STEPS) + (len >> following)) as usize % LISTS
}

impl Good {
    /// The first block of the first list from `list` on that has one.
    #[inline(always)]
    fn first_from(&self, list: usize, cells: &Cells) -> Option<Block> {
        let word = list / 64 % WORDS;
        let lists = self.occupied[word] >> (list % 64);
        let list = if lists != 0 {
            list + lists.trailing_zeros() as usize
        } else {
            let words = self.words & (!1 << word);
            if words == 0 {
                return None;
            }
            let word = words.trailing_zeros() as usize % WORDS;
            word * 64 + self.occupied[word].trailing_zeros() as usize
        };
        Some(cells.block(self.first[list % LISTS]))
    }

    /// A block of at least `len` cells: of its own list, of which a few are looked at, or of the
    /// next list that has one.
    #[inline(always)]
    fn choose<M: Meter>(&self, len: u32, cells: &Cells, meter: &M) -> Option<Block> {
        let list = list_of(len);
        let start = self.first[list];
        if start != NONE {
            meter.visit(cells.header(start));
            let block = cells.block(start);
            if block.len == len {
                return Some(block);
            }
            if let Some(block) = self.look_on(block, len, cells, meter) {
                return Some(block);
            }
        }
        let found = self.first_from(list + 1, cells)?;
        meter.visit(cells.header(found.start));
        Some(found)
    }

    /// The smallest block of at least `len` cells among the first few of a list.
    #[inline(never)]
    fn look_on<M: Meter>(&self, first: Block, len: u32, cells: &Cells, meter: &M) -> Option<Block> {
        let mut found = (first.len >= len).then_some(first);
        let mut start = first.start;
        for _ in 1..LOOKS {
            start = cells.link(start, Link::First);
            if start == NONE {
                break;
            }
            meter.visit(cells.header(start));
            let block = cells.block(start);
            if block.len >= len && found.is_none_or(|found| block.len < found.len) {
                found = Some(block);
            }
        }
        found
    }

    /// As [`Policy::find`], where the first choice is not aligned: a block in which the request
    /// fits wherever it starts.
    #[cold]
    #[inline(never)]
    fn find_certain<M: Meter>(
        &self,
        len: u32,
        align: usize,
        cells: &Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        let chosen = self.choose(certain(len, align)?, cells, meter)?;
        Some((chosen, fit(chosen, len, align, cells)?))
    }

    /// Puts a block on a list, as the first.
    #[inline(always)]
    fn push(&mut self, list: usize, start: u32, cells: &mut Cells) {
        let first = core::mem::replace(&mut self.first[list], start);
        cells.set_link(start, Link::First, first);
        cells.set_link(start, Link::Second, NONE);
        if first != NONE {
            cells.set_link(first, Link::Second, start);
        } else {
            self.occupied[list / 64] |= 1 << (list % 64);
            self.words |= 1 << (list / 64);
        }
    }

    /// Takes a block off its list.
    #[inline(always)]
    fn unlink(&mut self, block: Block, cells: &mut Cells) {
        let next = cells.link(block.start, Link::First);
        let previous = cells.link(block.start, Link::Second);
        if next != NONE {
            cells.set_link(next, Link::Second, previous);
        }
        if previous != NONE {
            cells.set_link(previous, Link::First, next);
            return;
        }
        let list = list_of(block.len);
        self.first[list] = next;
        if next == NONE {
            let word = list / 64;
            self.occupied[word] &= !(1 << (list % 64));
            self.words &= !(u64::from(self.occupied[word] == 0) << word);
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
                start = self.cells.link(start, Link::First);
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
    const EMPTY: Self = Self { words: 0, occupied: [0; WORDS], first: [NONE; LISTS] };

    #[inline(always)]
    fn insert<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) {
        meter.link_double(cells.header(block.start));
        self.push(list_of(block.len), block.start, cells);
    }

    #[inline(always)]
    fn remove<M: Meter>(&mut self, block: Block, cells: &mut Cells, _: &M) {
        self.unlink(block, cells);
    }

    #[inline(always)]
    fn replace<M: Meter>(&mut self, old: Block, new: Block, cells: &mut Cells, meter: &M) {
        self.unlink(old, cells);
        self.insert(new, cells, meter);
    }

    #[inline(always)]
    fn find<M: Meter>(
        &mut self,
        len: u32,
        align: usize,
        cells: &Cells,
        meter: &M,
    ) -> Option<(Block, u32)> {
        let chosen = self.choose(len, cells, meter)?;
        if align <= CELL {
            return Some((chosen, chosen.start));
        }
        match fit(chosen, len, align, cells) {
            Some(start) => Some((chosen, start)),
            None => self.find_certain(len, align, cells, meter),
        }
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
            let (mut start, mut previous) = (first, NONE);
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
                let linked = cells.link(start, Link::Second) == previous;
                Fault::unless(linked, "a list is linked both ways", at)?;
                visit(block);
                previous = start;
                start = cells.link(start, Link::First);
            }
        }
        let known =
            (0..WORDS).all(|word| (self.words >> word & 1 == 1) == (self.occupied[word] != 0));
        Fault::unless(known, "a word's bit says whether it has lists", origin)
    }
}
