//! What a heap of [`Good`] does most often, without branches that chance decides: allocating where the
//! first block of a list will do, freeing, and resizing in place.
//!
//! Whether a neighbour is free, and whether a list becomes empty, is as good as random, and a branch on
//! it is mispredicted every second time, which costs more than all it could skip. So the code does
//! the same in all cases: a neighbour that is in use counts as a free block of no words, and taking
//! the [dummy](DUMMY) off its list changes nothing. A free takes a third more instructions so, and random
//! actions on large blocks take a tenth less time (benches/records).
//!
//! Blocks are counted in words here (`tags/by_word.rs`).

use core::ptr::NonNull;

use super::good::{DUMMY, Good, LOOKING, list_for};
use super::heap::TagHeap;
use crate::meter::Meter;
use crate::tags::{CELL, Cells, TAG, WORDS};

/// Words of the block that holds this many bytes.
#[inline(always)]
fn words_for(bytes: usize) -> usize {
    ((bytes + (TAG + CELL - 1)) / TAG) & !(WORDS - 1)
}

/// Bytes that a block of this many words holds.
#[inline(always)]
fn bytes_of(words: usize) -> usize {
    words * TAG - TAG
}

/// Address of the header of the block that starts at a word, for a meter.
#[inline(always)]
fn header(cells: &Cells, word: usize) -> *const u32 {
    cells.header((word / WORDS) as u32)
}

impl TagHeap<Good> {
    /// Bytes up to which a request that asks for no alignment is *plain*: it takes the first block of
    /// a list, without a look at any other.
    pub(crate) const PLAIN: usize = Self::bytes(LOOKING - 1);

    /// A block for a plain request of `bytes` bytes, not 0, and the bytes it holds, if the index has
    /// one. O(1).
    #[inline(always)]
    pub(crate) fn allocate_plain<M: Meter>(
        &mut self,
        bytes: usize,
        meter: &M,
    ) -> Option<(NonNull<u8>, usize)> {
        let (index, cells) = (&mut self.index, &mut self.cells);
        let len = words_for(bytes);
        let (list, start) = index.first(list_for(len), cells)?;
        meter.visit(header(cells, start));
        index.pop(list, start, cells);
        Some(self.use_words(start, len, meter))
    }

    /// As [`allocate_plain`](Self::allocate_plain), for a request that is [larger](Self::PLAIN): the first
    /// few blocks of its own list are looked at before. O(1).
    #[inline(never)]
    pub(crate) fn allocate_close<M: Meter>(
        &mut self,
        bytes: usize,
        meter: &M,
    ) -> Option<(NonNull<u8>, usize)> {
        let len = words_for(bytes);
        let start = match self.index.close(len, &self.cells, meter) {
            Some(start) => start,
            None => self.index.first(list_for(len), &self.cells)?.1,
        };
        meter.visit(header(&self.cells, start));
        self.index.unlink(start, &mut self.cells);
        Some(self.use_words(start, len, meter))
    }

    /// Puts the lower `len` words of a free block on no list to use: where they lie, and the bytes they hold.
    #[inline(always)]
    fn use_words<M: Meter>(&mut self, start: usize, len: usize, meter: &M) -> (NonNull<u8>, usize) {
        let (index, cells) = (&mut self.index, &mut self.cells);
        let rest = cells.split_words(start, len);
        if rest > 0 {
            index.insert_words(start + len, rest, cells, meter);
        }
        let contents = cells.origin().wrapping_add(start * TAG);
        // SAFETY: the block lies in the heap, which is valid memory, hence not at address 0.
        (unsafe { NonNull::new_unchecked(contents) }, bytes_of(len))
    }

    /// Frees the block at this address, which the caller vouches is in use and was requested with
    /// `bytes` bytes; returns the bytes it held. O(1).
    #[inline(always)]
    pub(crate) fn free<M: Meter>(&mut self, address: usize, bytes: usize, meter: &M) -> usize {
        let (index, cells) = (&mut self.index, &mut self.cells);
        let len = words_for(bytes);
        let start = (address - cells.origin().addr()) / TAG;
        let end = start + len;
        meter.touch(header(cells, start));
        meter.touch(header(cells, end));
        let (below, above) = (cells.free_below_word(start), cells.free_above_word(end));
        let is_last = end + above == cells.end() as usize * WORDS;
        let joined = (start - below, below + len + above);
        index.unlink(if below > 0 { joined.0 } else { DUMMY }, cells);
        index.unlink(if (above > 0) & !is_last { end } else { DUMMY }, cells);
        cells.put_joined_words(joined.0, joined.1, end);
        if !is_last {
            index.insert_words(joined.0, joined.1, cells, meter);
        }
        bytes_of(len)
    }

    /// Makes a block in use that was requested with `old` bytes hold `new` bytes where it lies, with
    /// the free memory the heap has; returns the bytes it held and holds. Whether it shrinks or grows is known
    /// before any tag is, and few that grow find room. O(1).
    #[inline(always)]
    pub(crate) fn resize_at<M: Meter>(
        &mut self,
        address: usize,
        (old, new): (usize, usize),
        meter: &M,
    ) -> Option<(usize, usize)> {
        let (index, cells) = (&mut self.index, &mut self.cells);
        let (old, new) = (words_for(old), words_for(new));
        let lens = (bytes_of(old), bytes_of(new));
        if old == new {
            return Some(lens);
        }
        let start = (address - cells.origin().addr()) / TAG;
        let end = start + old;
        meter.touch(header(cells, end));
        let above = cells.free_above_word(end);
        if new > old && new > old + above {
            return None;
        }
        let is_last = end + above == cells.end() as usize * WORDS;
        index.unlink(if (above > 0) & !is_last { end } else { DUMMY }, cells);
        let rest = cells.resize_words(start, old + above, new);
        if rest > 0 && !is_last {
            index.insert_words(start + new, rest, cells, meter);
        }
        Some(lens)
    }
}
