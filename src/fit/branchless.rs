//! The most frequent operations of a heap of [`Good`], without unpredictable branches: allocating
//! from the first block of a list, freeing, and resizing in place.
//!
//! Whether a neighbour is free, and whether a list becomes empty, is as good as random. A branch on
//! it is mispredicted every second time, which costs more than the work that the branch could skip.
//! So the code does the same work in all cases: a neighbour in use counts as a free block of 0
//! words, and taking the [dummy](DUMMY) off its list changes nothing. Compared with branches, a
//! free takes a third more instructions, but random actions on large blocks take a tenth less time
//! (benches/records).
//!
//! Blocks are counted in words here (`tags/by_word.rs`).

use core::ptr::NonNull;

use super::good::{DUMMY, Good, LOOKING, list_for};
use super::heap::TagHeap;
use crate::meter::Meter;
use crate::tags::{CELL, Cells, TAG, WORDS};
use crate::tally::Change;

/// Returns the words of the block that holds this many bytes.
#[inline(always)]
fn words_for(bytes: usize) -> usize {
    ((bytes + (TAG + CELL - 1)) / TAG) & !(WORDS - 1)
}

/// Returns the bytes that a block of this many words holds.
#[inline(always)]
fn bytes_of(words: usize) -> usize {
    words * TAG - TAG
}

/// Returns the address of the header of the block that starts at a word, for a meter.
#[inline(always)]
fn header(cells: &Cells, word: usize) -> *const u32 {
    cells.header((word / WORDS) as u32)
}

/// Whether a block has no block in use above it.
pub(crate) struct IsLast(pub(crate) bool);

impl TagHeap<Good> {
    /// The most bytes of a *plain* request: one without alignment that takes the first block of a
    /// list and looks at no other.
    pub(crate) const PLAIN: usize = Self::bytes(LOOKING - 1);

    /// Allocates a block for a plain request of `bytes` bytes, not 0, if the index has one. Returns
    /// it with the bytes that it holds. O(1).
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

    /// Like [`allocate_plain`](Self::allocate_plain), for a [larger](Self::PLAIN) request: first
    /// looks at the first few blocks of the request's own list. O(1).
    #[inline(never)]
    pub(crate) fn allocate_close<M: Meter>(
        &mut self,
        bytes: usize,
        meter: &M,
    ) -> Option<(NonNull<u8>, usize)> {
        let len = words_for(bytes);
        let start = match self.index.close(len, |_| 0, &self.cells, meter) {
            Some(start) => start,
            None => self.index.first(list_for(len), &self.cells)?.1,
        };
        meter.visit(header(&self.cells, start));
        self.index.unlink(start, &mut self.cells);
        Some(self.use_words(start, len, meter))
    }

    /// Like [`allocate_plain`](Self::allocate_plain), for a request aligned to `align` bytes. Takes
    /// one of the first few blocks of the request's own list, if it is [larger](Self::PLAIN); the
    /// first block that holds the unaligned request, if it happens to hold an aligned one; or one
    /// that holds it wherever it starts. Size and alignment together are at most
    /// [`MOST`](Self::MOST). O(1).
    #[inline(never)]
    pub(crate) fn allocate_aligned<M: Meter>(
        &mut self,
        bytes: usize,
        align: usize,
        meter: &M,
    ) -> Option<(NonNull<u8>, usize)> {
        let (index, cells) = (&mut self.index, &mut self.cells);
        let len = words_for(bytes);
        let gap_in = |block| cells.words_to_aligned(block, align);
        let close = if bytes > Self::PLAIN { index.close(len, gap_in, cells, meter) } else { None };
        let mut block = match close {
            Some(block) => block,
            None => index.first(list_for(len), cells)?.1,
        };
        meter.visit(header(cells, block));
        let mut gap = gap_in(block);
        if gap + len > cells.words_at(block) {
            block = index.first(list_for(len + align / TAG - WORDS), cells)?.1;
            meter.visit(header(cells, block));
            gap = gap_in(block);
        }
        index.unlink(block, cells);
        let rest = cells.carve_words(block, gap, len);
        let start = block + gap;
        if gap > 0 {
            index.insert_words(block, gap, cells, meter);
        }
        if rest > 0 {
            index.insert_words(start + len, rest, cells, meter);
        }
        let contents = cells.origin().wrapping_add(start * TAG);
        // SAFETY: as in `use_words`.
        Some((unsafe { NonNull::new_unchecked(contents) }, bytes_of(len)))
    }

    /// Marks as in use the lower `len` words of a free block that is on no list. Returns their
    /// address, and the bytes that they hold.
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

    /// Frees the block at this address, and returns the bytes that it held. The caller vouches that
    /// it is in use and was requested with `bytes` bytes. O(1).
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

    /// Resizes a block in use in place, as the requested bytes change by `sizes`, within the memory
    /// that the heap has. If that is impossible, returns whether no block in use lies above this
    /// one, so that more memory would help. O(1).
    #[inline(always)]
    pub(crate) fn resize_at<M: Meter>(
        &mut self,
        address: usize,
        sizes: Change,
        meter: &M,
    ) -> Result<(), IsLast> {
        let (old, new) = (words_for(sizes.old), words_for(sizes.new));
        if old == new {
            return Ok(());
        }
        let start = (address - self.cells.origin().addr()) / TAG;
        let end = start + old;
        meter.touch(header(&self.cells, end));
        let above = self.cells.free_above_word(end);
        if new > old + above {
            return Err(IsLast(end + above == self.cells.end() as usize * WORDS));
        }
        self.resize_words((start, end), above, new, meter);
        Ok(())
    }

    /// Turns the block in use of these words and the `above` free words above it into a block of
    /// `len` words and a free one. (A separate function, so that resizes that find no room need not
    /// save registers.)
    #[inline(never)]
    fn resize_words<M: Meter>(
        &mut self,
        (start, end): (usize, usize),
        above: usize,
        len: usize,
        meter: &M,
    ) {
        let (index, cells) = (&mut self.index, &mut self.cells);
        let is_last = end + above == cells.end() as usize * WORDS;
        index.unlink(if (above > 0) & !is_last { end } else { DUMMY }, cells);
        let rest = cells.resize_words(start, end - start + above, len);
        if rest > 0 && !is_last {
            index.insert_words(start + len, rest, cells, meter);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::mem::MaybeUninit;

    use super::*;
    use crate::source::Region;

    const ALIGNED: usize = 1 << 16;
    const MEMORY: usize = 1 << 23;

    /// Makes a heap, and a region in `memory` for it. Every region is aligned alike, so that two
    /// heaps place blocks alike.
    fn heap(memory: &mut [MaybeUninit<u8>]) -> (TagHeap<Good>, Region) {
        let skipped = memory.as_ptr().addr().wrapping_neg() % ALIGNED;
        let region = &mut memory[skipped..][..MEMORY];
        // SAFETY: only the region uses the memory, which outlives it.
        let region = unsafe { Region::new(region.as_mut_ptr().cast(), MEMORY) };
        (TagHeap::growing_by(1 << 14), region)
    }

    /// Allocates a block in the quick way, if it is aligned to more than a cell.
    fn allocate(heap: &mut TagHeap<Good>, size: usize, align: usize) -> Option<u32> {
        let len = TagHeap::<Good>::cells_of(size);
        if align <= CELL {
            return heap.allocate_known(len, align, &());
        }
        let (block, bytes) = heap.allocate_aligned(size, align, &())?;
        assert_eq!(bytes, TagHeap::<Good>::bytes(len));
        assert!(block.addr().get().is_multiple_of(align));
        Some(heap.block_at(block.addr().get()).start)
    }

    /// Allocates a block in new memory.
    fn grow(heap: &mut TagHeap<Good>, source: &mut Region, len: u32, align: usize) -> Option<u32> {
        heap.allocate_growing(len, align, source, &()).ok()
    }

    /// Random requests, aligned and not, are placed where [`TagHeap::allocate_known`] places them,
    /// and fail where it fails; resizing in place answers like [`TagHeap::resize_known`].
    #[test]
    fn the_quick_way_does_what_the_general_way_does() {
        let mut memory = [(); 2].map(|()| Box::new_uninit_slice(MEMORY + ALIGNED).into_vec());
        let [quick_memory, general_memory] = &mut memory;
        let (mut quick, mut source) = heap(quick_memory);
        let (mut general, mut general_source) = heap(general_memory);
        let mut state = 1984_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) as usize % below
        };
        let mut blocks: Vec<(u32, usize)> = Vec::new();
        let (mut aligned, mut failed, mut grown) = (0, 0, 0);
        for step in 0..if cfg!(miri) { 500 } else { 20_000 } {
            match random(16) {
                0..=8 => {
                    let shift = 4 + random(12);
                    let size = 1 + random(1 << shift);
                    let align = CELL << random(13);
                    let len = TagHeap::<Good>::cells_of(size);
                    let start = allocate(&mut quick, size, align);
                    aligned += usize::from(align > CELL && start.is_some());
                    let known = general.allocate_known(len, align, &());
                    assert_eq!(start, known, "{size} aligned to {align}");
                    let start = start.or_else(|| {
                        let start = grow(&mut quick, &mut source, len, align);
                        assert_eq!(start, grow(&mut general, &mut general_source, len, align));
                        start
                    });
                    match start {
                        Some(start) => blocks.push((start, size)),
                        None => failed += 1,
                    }
                }
                9..=13 if !blocks.is_empty() => {
                    let (start, size) = blocks.swap_remove(random(blocks.len()));
                    for heap in [&mut quick, &mut general] {
                        heap.free(heap.contents(start).addr(), size, &());
                    }
                }
                14 if !blocks.is_empty() => {
                    let index = random(blocks.len());
                    let (start, size) = blocks[index];
                    let new_size = 1 + random(2 * size);
                    let at = quick.contents(start).addr();
                    let resized =
                        quick.resize_at(at, Change { old: size, new: new_size }, &()).is_ok();
                    let (block, len) = (general.block(start), TagHeap::<Good>::cells_of(new_size));
                    assert_eq!(resized, general.resize_known(block, len, &()));
                    if resized {
                        grown += usize::from(len > block.len);
                        blocks[index].1 = new_size;
                    }
                }
                _ => {}
            }
            if step % 64 == 0 {
                quick.audit_blocks().expect("every invariant holds");
            }
        }
        let met = cfg!(miri) || aligned > 100 && failed > 0 && grown > 10;
        assert!(met, "{aligned} aligned, {failed} failed, {grown} grown");
    }
}
