//! The heap's engine: takes and frees runs of granules.

use core::ptr::NonNull;

use super::bins::{Bins, EXACT, Half, NONE, bin_of, wide};
use super::map::Map;
use crate::meter::Meter;
use crate::source::Source;

/// Bytes of a granule.
pub(super) const GRANULE: usize = size_of::<usize>();

/// The number of the first granule.
pub(super) const FIRST: u32 = 2;

/// The smallest block, in granules.
const LEAST: u32 = 2;

/// The number of blocks of a list that a search looks at. It takes the smallest of them that fits.
const LOOKS: u32 = 4;

/// Bytes of a number stored in a free block.
const HALF: usize = size_of::<Half>();

/// The position of a number in a free block.
#[derive(Clone, Copy)]
enum Field {
    Next,
    Previous,
    Len,
}

/// A run of granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GranuleRun {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl GranuleRun {
    /// Returns the run from granule `start` up to, but not including, `end`.
    pub(super) fn between(start: u32, end: u32) -> Self {
        Self { start, len: end - start }
    }

    /// Returns the granule behind the run.
    pub(super) fn end(self) -> u32 {
        self.start + self.len
    }
}

/// The engine of [`SmallHeap`](super::SmallHeap). Invariants:
/// - The granules from `FIRST` up to `end` are valid memory that only the heap uses, except for the
///   contents of blocks in use.
/// - The map says which of them are free.
/// - Each free run of at least two granules is on the list for its length, exactly once. It
///   contains its length twice: behind the links at its start, and at its end.
#[derive(Debug)]
pub struct BitHeap {
    /// The address that granule 0 would have.
    pub(super) base: *mut u8,
    pub(super) end: u32,
    pub(super) map: Map,
    pub(super) bins: Bins,
}

// SAFETY: the heap's memory belongs to the source kept beside it, and neither is tied to a thread.
unsafe impl Send for BitHeap {}

impl BitHeap {
    /// The most granules of a heap.
    pub(super) const MOST: usize = (Half::MAX >> (HALF == 4) as u32) as usize;

    pub(super) const EMPTY: Self =
        Self { base: core::ptr::null_mut(), end: 0, map: Map::EMPTY, bins: Bins::EMPTY };

    /// Returns the number of granules of a block with room for `bytes`; `None` if there is no such
    /// block.
    #[inline(always)]
    pub(super) fn granules(bytes: usize) -> Option<u32> {
        (bytes <= Self::MOST * GRANULE).then(|| (bytes.div_ceil(GRANULE) as u32).max(LEAST))
    }

    /// Returns the address of a granule.
    #[inline(always)]
    pub(super) fn address(&self, granule: u32) -> *mut u8 {
        self.base.wrapping_add(granule as usize * GRANULE)
    }

    /// Returns the address of a block.
    #[inline(always)]
    pub(super) fn contents(&self, granule: u32) -> NonNull<u8> {
        // SAFETY: a block is in the heap's valid memory, so its address is not 0.
        unsafe { NonNull::new_unchecked(self.address(granule)) }
    }

    /// Returns the granule at which a block in use starts.
    #[inline(always)]
    pub(super) fn granule_of(&self, block: NonNull<u8>) -> u32 {
        (block.addr().get().wrapping_sub(self.base.addr()) / GRANULE) as u32
    }

    /// Returns the heap's granule that starts at this address, if one does.
    pub(super) fn granule_at(&self, address: usize) -> Option<u32> {
        // The base may be before address 0, if memory begins there.
        let offset = address.wrapping_sub(self.base.addr());
        let granule = u32::try_from(offset / GRANULE).ok()?;
        (offset.is_multiple_of(GRANULE) && (FIRST..self.end).contains(&granule)).then_some(granule)
    }

    /// Updates the addresses after all of the source's memory moved from `from` to `to`.
    pub(super) fn rebase(&mut self, from: usize, to: *mut u8) {
        self.map.rebase(from, to);
        if self.end > 0 {
            self.base = to.wrapping_add(self.base.addr().wrapping_sub(from));
        }
    }

    /// Returns where a free block keeps a number.
    #[inline(always)]
    fn field(&self, block: u32, field: Field) -> *mut Half {
        self.address(block).wrapping_add(field as usize * HALF).cast()
    }

    /// Returns where the free block that ends at granule `end` keeps its length.
    #[inline(always)]
    fn footer(&self, end: u32) -> *mut Half {
        self.address(end).wrapping_sub(HALF).cast()
    }

    /// Reads a number of a free block.
    #[inline(always)]
    fn read(&self, at: *mut Half) -> u32 {
        // SAFETY: only the numbers in free runs of at least two granules are read. They are
        // aligned, only the heap uses them, and they were written when the run was linked.
        wide(unsafe { at.read() })
    }

    /// Writes a number of a free block.
    #[inline(always)]
    fn write(&mut self, at: *mut Half, number: u32) {
        // SAFETY: as in `read`, and `&mut self` is exclusive.
        unsafe { at.write(number as Half) };
    }

    /// Returns the next block on a free block's list, or `NONE`.
    pub(super) fn next(&self, block: u32) -> u32 {
        self.read(self.field(block, Field::Next))
    }

    /// Returns the block before a free block on its list, or `NONE`.
    pub(super) fn previous(&self, block: u32) -> u32 {
        self.read(self.field(block, Field::Previous))
    }

    /// Returns the granules of a free block.
    #[inline(always)]
    pub(super) fn len(&self, block: u32) -> u32 {
        self.read(self.field(block, Field::Len))
    }

    /// Returns the granules of the free block that ends at granule `end`.
    pub(super) fn len_below(&self, end: u32) -> u32 {
        self.read(self.footer(end))
    }

    /// Returns the free run that ends at granule `end`; empty if a block in use ends there. O(1).
    #[inline]
    pub(super) fn free_below(&self, end: u32) -> GranuleRun {
        let len = match self.map.free_below(end) {
            len @ (0 | 1) => len,
            _ => self.len_below(end),
        };
        GranuleRun { start: end - len, len }
    }

    /// Returns the free run that starts at granule `start`, the end of a block; empty if there is
    /// none. O(1).
    #[inline]
    fn free_from(&self, start: u32) -> GranuleRun {
        let len = match self.map.from(start) & 0b11 {
            0b11 => self.len(start),
            bits => bits as u32 & 1,
        };
        GranuleRun { start, len }
    }

    /// Puts a free run on its list, if it is long enough for a block.
    fn link<M: Meter>(&mut self, run: GranuleRun, meter: &M) {
        if run.len < LEAST {
            return;
        }
        let bin = bin_of(run.len);
        let head = self.bins.head(bin);
        self.write(self.field(run.start, Field::Next), head);
        self.write(self.field(run.start, Field::Previous), NONE);
        self.write(self.field(run.start, Field::Len), run.len);
        self.write(self.footer(run.end()), run.len);
        if head != NONE {
            meter.visit(self.address(head));
            self.write(self.field(head, Field::Previous), run.start);
        }
        self.bins.put(bin, run.start);
    }

    /// Takes a free run off its list, if it is on one.
    fn unlink<M: Meter>(&mut self, run: GranuleRun, meter: &M) {
        if run.len < LEAST {
            return;
        }
        let (next, previous) = (self.next(run.start), self.previous(run.start));
        if next != NONE {
            meter.visit(self.address(next));
            self.write(self.field(next, Field::Previous), previous);
        }
        if previous == NONE {
            self.bins.drop_first(bin_of(run.len), next);
        } else {
            meter.visit(self.address(previous));
            self.write(self.field(previous, Field::Next), next);
        }
    }

    /// Returns the first granule from `start` on whose address is a multiple of `align`.
    #[inline(always)]
    pub(super) fn aligned(&self, start: u32, align: usize) -> u32 {
        let gap = self.address(start).addr().wrapping_neg() & (align - 1);
        start.saturating_add(u32::try_from(gap / GRANULE).unwrap_or(u32::MAX))
    }

    /// Returns a free run that contains `len` granules and leaves either none over or more than
    /// one. O(1).
    #[inline(always)]
    pub(super) fn find_plain<M: Meter>(&self, len: u32, meter: &M) -> Option<GranuleRun> {
        let mut bin = bin_of(len);
        if len < EXACT {
            let start = self.bins.head(bin);
            if start != NONE {
                return Some(GranuleRun { start, len });
            }
            // A run of `len + 1` would leave a single granule over.
            bin = bin_of(len + 2);
        }
        let filled = self.bins.filled_from(bin)?;
        if filled < EXACT {
            return Some(GranuleRun { start: self.bins.head(filled), len: filled });
        }
        self.search::<true, M>(len, 1, filled, true, meter).map(|found| found.0)
    }

    /// Returns a free run that contains `len` granules at a multiple of `align` bytes, and where in
    /// it they start. It is the smallest fitting run among the first `LOOKS` of the first list that
    /// has one among these. O(1): at most `LOOKS` blocks of each list, and of only two lists if
    /// `align` is at most a granule.
    ///
    /// With `sparing`, the search skips runs that would leave over a single granule, which is
    /// unusable.
    #[inline(never)]
    pub(super) fn find<M: Meter>(
        &self,
        len: u32,
        align: usize,
        sparing: bool,
        meter: &M,
    ) -> Option<(GranuleRun, u32)> {
        self.search::<false, M>(len, align, bin_of(len), sparing, meter)
    }

    /// Does the same as [`find`](Self::find), from list `bin` on. With `PLAIN`, takes every block
    /// to be aligned.
    #[inline(always)]
    fn search<const PLAIN: bool, M: Meter>(
        &self,
        len: u32,
        align: usize,
        bin: u32,
        sparing: bool,
        meter: &M,
    ) -> Option<(GranuleRun, u32)> {
        let mut bin = bin;
        loop {
            bin = self.bins.filled_from(bin)?;
            let mut best: Option<(GranuleRun, u32)> = None;
            let mut block = self.bins.head(bin);
            let mut looks = LOOKS;
            while block != NONE && looks > 0 {
                meter.visit(self.address(block));
                let run = GranuleRun { start: block, len: self.len(block) };
                let start = if PLAIN { block } else { self.aligned(block, align) };
                let left = run.end().checked_sub(start).and_then(|room| room.checked_sub(len));
                let fits = left.is_some_and(|left| left != 1 || !sparing);
                if fits && best.is_none_or(|(best, _)| run.len < best.len) {
                    best = Some((run, start));
                    if left == Some(0) {
                        break;
                    }
                }
                block = self.next(block);
                looks -= 1;
            }
            if best.is_some() {
                return best;
            }
            bin += 1;
        }
    }

    /// Takes `len` granules from `start` on out of a free run.
    pub(super) fn take<M: Meter>(&mut self, run: GranuleRun, start: u32, len: u32, meter: &M) {
        self.unlink(run, meter);
        let end = start + len;
        self.map.fill::<false>(start, end - 1);
        self.link(GranuleRun::between(run.start, start), meter);
        self.link(GranuleRun::between(end, run.end()), meter);
    }

    /// Frees granules that are in use, and joins them with free neighbours.
    pub(super) fn release<M: Meter>(&mut self, run: GranuleRun, meter: &M) {
        let below = self.free_below(run.start);
        self.unlink(below, meter);
        self.map.fill::<true>(run.start, run.end());
        let above = self.free_from(run.end());
        self.unlink(above, meter);
        self.link(GranuleRun::between(below.start, above.end()), meter);
    }

    /// Changes the length of a block in use from `old` to `new` granules in place; the last block
    /// grows with the heap. Returns whether that was possible.
    pub(super) fn resize<S: Source, M: Meter>(
        &mut self,
        start: u32,
        old: u32,
        new: u32,
        source: &mut S,
        meter: &M,
    ) -> bool {
        let (old_end, new_end) = (start + old, start + new);
        if new > old {
            let mut above = self.free_from(old_end);
            if above.len < new - old {
                let grown = self.grow_above(above, new - old, source, meter);
                let Some(grown) = grown else { return false };
                above = grown;
            }
            self.unlink(above, meter);
            self.map.fill::<false>(old_end - 1, new_end - 1);
            self.link(GranuleRun::between(new_end, above.end()), meter);
        } else if new < old {
            self.map.fill::<true>(new_end - 1, new_end);
            self.release(GranuleRun::between(new_end, old_end), meter);
        }
        true
    }
}
