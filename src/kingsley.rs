//! Kingsley's allocator, as 4.2BSD had it: powers of two, one stack of free blocks for each, no
//! splitting, no joining (Wilson et al. 1995, §3.6; CK in Hasan & Chang 2006, §4.2).
//!
//! ```text
//! class   4     5     6     7    …        blocks of 2ᵏ bytes, header of 4 included
//! head    ●           ●
//!         ▼           ▼
//!         ●           ●  freed last
//! ```
//! A block of class k stays one for ever. When a class has no free block, a page's worth of them is
//! cut from fresh memory, or a single block if it is larger than a page. It is as fast as an
//! allocator can be that keeps a header, and on average a quarter of its blocks is unused, beside
//! what other sizes needed once.
//!
//! The tags and the stacks are those of the other heaps, and nothing else could be: nothing is split or
//! joined, so there are no free blocks for an index to know.
//!
//! The original returns blocks that are aligned to 4 or 8 bytes. Here they are aligned to 16; for a
//! greater alignment a larger block is taken, and a second header before the aligned place says
//! how far it is from the block's own.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::engine::{Backing, Engine, Heap, Resized, Served};
use crate::error::{AllocError, Fault};
use crate::fit::stacks::Stacks;
use crate::meter::{Meter, Part};
use crate::source::Source;
use crate::strategy::Span;
use crate::tags::{Block, CELL, Cells, Link, MAX_CELLS, TAG, header};

/// Classes there are: blocks of 2^k cells.
const CLASSES: usize = MAX_CELLS.ilog2() as usize;

/// A stack for each of them.
const STACKS: usize = CLASSES.next_power_of_two();

/// Kingsley's allocator over a source.
///
/// Allocating and freeing take O(1), but for cutting a page. Blocks never change their size, so
/// memory once held for blocks of one size serves no other. A heap has at most 16 GiB.
///
/// ```
/// use core::alloc::Layout;
/// use pagewise::Strategy;
/// use pagewise::kingsley::Kingsley;
/// use pagewise::source::Reserved;
///
/// let mut heap = Kingsley::new(4096, Reserved::new(1 << 30), ());
/// let block = heap.allocate(Layout::new::<[u64; 9]>())?;
/// assert_eq!(block.len(), 124, "72 bytes and a header are rounded up to 128");
/// # Ok::<(), pagewise::AllocError>(())
/// ```
pub type Kingsley<S, M = ()> = Heap<PowersOfTwo, S, M>;

/// The engine of [`Kingsley`]. Invariants:
/// - blocks tile the cells from 1 on, each of 2^k cells;
/// - the list of class k has the blocks of 2^k cells that are not in use, each once;
/// - PREV_IN_USE, which tells nothing here, is missing iff a block's contents do not start where
///   it does; then its first link, which is not in use either, is the cell where they start.
#[derive(Debug)]
pub struct PowersOfTwo {
    cells: Cells,
    /// Cells of a page.
    page: u32,
    stacks: Stacks<STACKS>,
}

/// The class of the blocks that hold this many bytes, if any do.
#[inline(always)]
fn class_of(bytes: usize) -> Option<usize> {
    let cells = bytes.checked_add(TAG)?.div_ceil(CELL);
    // A power of two that is no less: one bit more than the number before has.
    let class = (usize::BITS - (cells - 1).leading_zeros()) as usize;
    (class < CLASSES).then_some(class)
}

/// Bytes that a block of a class holds.
#[inline(always)]
fn bytes(class: usize) -> usize {
    (CELL << class) - TAG
}

/// What must be asked for so that a layout fits wherever the block starts.
#[inline(always)]
fn room(layout: Layout) -> Option<usize> {
    let gap = if layout.align() <= CELL { 0 } else { layout.align() - CELL };
    layout.size().checked_add(gap)
}

impl<S: Source, M: Meter> Heap<PowersOfTwo, S, M> {
    /// The allocator over `source`, which cuts pages of `page` bytes. Takes no memory before the
    /// first allocation.
    ///
    /// # Panics
    /// Unless `page` is a power of two from 16 bytes to 1 GiB; in a `const`, at compile time.
    #[must_use]
    pub const fn new(page: usize, source: S, meter: M) -> Self {
        assert!(page.is_power_of_two() && page >= CELL && page <= 1 << 30);
        let page = (page / CELL) as u32;
        let engine = PowersOfTwo { cells: Cells::new(), page, stacks: Stacks::new() };
        Self::over(engine, source, meter)
    }
}

impl PowersOfTwo {
    /// Cuts a page into blocks of a class, or a single block, puts them on their stack, and takes the
    /// lowest.
    #[cold]
    #[inline(never)]
    fn cut<S: Source, M: Meter>(
        &mut self,
        class: usize,
        backing: &mut Backing<S, M>,
    ) -> Result<u32, AllocError> {
        let len = 1 << class;
        // As many as fit a page, or as the source still has.
        let mut blocks = (self.page / len).max(1);
        let memory = loop {
            match self.append(blocks * len, &mut backing.source) {
                Ok(start) => break start,
                Err(exhausted) if blocks == 1 => return Err(exhausted),
                Err(_) => blocks /= 2,
            }
        };
        // The lowest comes last, and so is taken first.
        for place in (0..blocks).rev() {
            let block = Block { start: memory + place * len, len };
            self.cells.put_withheld(block);
            self.stacks.link(block.start, class, &mut self.cells, &backing.meter);
        }
        self.stacks.pop(class, &mut self.cells, &backing.meter).ok_or(AllocError::Exhausted)
    }

    /// Takes `len` cells from the source; returns where they start.
    fn append<S: Source>(&mut self, len: u32, source: &mut S) -> Result<u32, AllocError> {
        let start = self.cells.end().max(1);
        let end = start.checked_add(len).ok_or(AllocError::Exhausted)?;
        // SAFETY: the source's extent is the heap's alone.
        unsafe { self.cells.append(end, source)? };
        self.cells.put_end(true);
        Ok(start)
    }

    /// Where in its block, which holds that much, a layout lies.
    #[inline(always)]
    fn place(&self, start: u32, layout: Layout) -> u32 {
        self.cells.aligned(start, layout.align()).unwrap_or(start)
    }

    #[inline(always)]
    fn contents(&self, start: u32) -> NonNull<u8> {
        // SAFETY: a block lies in the heap, which is valid memory, hence not at address 0.
        unsafe { NonNull::new_unchecked(self.cells.contents(start)) }
    }

    /// The block in use whose contents lie at this address, and its class.
    #[inline(always)]
    fn block_of(&self, block: NonNull<u8>) -> (u32, usize) {
        let offset = block.addr().get() - self.cells.origin().addr();
        let mut start = (offset / CELL) as u32;
        if !self.cells.prev_is_in_use(start) {
            start -= self.cells.block(start).len;
        }
        // SAFETY: a block in use starts there.
        let len = unsafe { header::len_at(self.contents(start)) };
        (start, len.trailing_zeros() as usize)
    }
}

// SAFETY: blocks tile the source's extent; tags and links lie between them and in free ones. They
// stay in place when the engine moves.
unsafe impl<S: Source, M: Meter> Engine<S, M> for PowersOfTwo {
    #[inline]
    fn take(&mut self, layout: Layout, backing: &mut Backing<S, M>) -> Result<Served, AllocError> {
        let class = room(layout).and_then(class_of).ok_or(AllocError::Exhausted)?;
        let start = match self.stacks.pop(class, &mut self.cells, &backing.meter) {
            Some(start) => start,
            None => self.cut(class, backing)?,
        };
        let place = self.place(start, layout);
        if place != start {
            self.cells.put_offset(place, place - start);
            self.cells.set_prev(start, false);
            self.cells.set_link(start, Link::First, place);
        }
        let len = bytes(class) - (place - start) as usize * CELL;
        let contents = NonNull::slice_from_raw_parts(self.contents(place), len);
        Ok(Served { contents, bytes: bytes(class), part: Part::Fit })
    }

    #[inline]
    unsafe fn free(heap: &mut Heap<Self, S, M>, block: NonNull<u8>, layout: Layout) {
        let Heap { engine, backing } = heap;
        let (start, class) = engine.block_of(block);
        debug_assert!(engine.cells.is_in_use(start), "a freed block is in use");
        engine.cells.set_prev(start, true);
        engine.stacks.push(start, class, &mut engine.cells, &backing.meter);
        backing.freed(layout.size(), bytes(class), Part::Fit);
    }

    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        if class_of(room(new_layout)?)? != self.block_of(block).1 {
            return None;
        }
        // SAFETY: the caller guarantees it.
        unsafe { self.keep(block, layout, new_layout, backing) }
    }

    unsafe fn keep(
        &mut self,
        block: NonNull<u8>,
        _: Layout,
        new_layout: Layout,
        _: &mut Backing<S, M>,
    ) -> Option<Resized> {
        let (start, class) = self.block_of(block);
        // A kept block may lie behind a gap that its alignment does not ask for.
        let len = bytes(class) - (block.addr().get() - self.contents(start).addr().get());
        (new_layout.size() <= len).then(|| Resized {
            contents: NonNull::slice_from_raw_parts(block, len),
            bytes: (bytes(class), bytes(class)),
        })
    }

    /// A block may be known by any layout that it can hold: it may have been [kept](Engine::keep) when
    /// it shrank.
    fn has_block(&self, block: NonNull<u8>, layout: Layout, _: &Backing<S, M>) -> bool {
        let Some(wanted) = self.cells.cell_at(block.addr().get()) else { return false };
        let found = self.cells.block_around(wanted, self.cells.end(), &());
        let Some(found) = found else { return false };
        let contents = match self.cells.prev_is_in_use(found.start) {
            true => found.start,
            false => self.cells.link(found.start, Link::First),
        };
        let bytes = (found.end() - wanted) as usize * CELL - TAG;
        self.cells.is_in_use(found.start) && contents == wanted && layout.size() <= bytes
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        let in_use = |block: Block| self.cells.is_in_use(block.start);
        self.cells.walk(self.cells.end(), TAG, in_use, visit);
    }

    fn audit(&self) -> Result<(), Fault> {
        let cells = &self.cells;
        let mut free = [0_u32; STACKS];
        let mut end = cells.end().min(1);
        for block in cells.blocks(cells.end()) {
            let at = cells.contents(block.start).addr();
            Fault::unless(block.len.is_power_of_two(), "a block has a power of two cells", at)?;
            if !cells.is_in_use(block.start) {
                free[block.len.trailing_zeros() as usize] += 1;
            }
            end = block.end();
        }
        let origin = cells.origin().addr();
        Fault::unless(end == cells.end(), "blocks tile the heap", origin)?;
        self.stacks.audit(&free, cells, |class, block| {
            block.len == 1 << class && !cells.is_in_use(block.start)
        })
    }
}

#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::source::Reserved;
    use crate::tags::attack::try_free;
    use crate::{Freed, Strategy};

    #[test]
    fn sizes_are_rounded_up_to_powers_of_two() {
        assert_eq!([1, 12, 13, 28, 29, 60, 61].map(class_of), [0, 0, 1, 1, 2, 2, 3].map(Some));
        assert_eq!(bytes(3), 124);
        assert_eq!(class_of(usize::MAX), None);
    }

    #[test]
    fn a_page_is_cut_at_once_and_blocks_come_back_last_in_first_out() {
        let mut heap = Kingsley::new(4096, Reserved::new(1 << 24), ());
        let layout = Layout::from_size_align(100, 1).unwrap();
        let blocks: Vec<_> = (0..32).map(|_| heap.allocate(layout).unwrap().cast()).collect();
        assert_eq!(heap.usage().held, 4096 + 16);
        for &block in &blocks {
            assert_eq!(try_free(&mut heap, block, layout), Freed::Freed);
        }
        assert_eq!(heap.allocate(layout).unwrap().cast(), blocks[31]);
        heap.allocate(Layout::from_size_align(5000, 1).unwrap()).unwrap();
        assert_eq!(heap.usage().held, 4096 + 8192 + 16, "a block above a page is cut alone");
        heap.audit().unwrap();
    }

    #[test]
    fn an_aligned_block_is_found_again() {
        let mut heap = Kingsley::new(4096, Reserved::new(1 << 24), ());
        for align in [16, 32, 512, 1 << 14] {
            let layout = Layout::from_size_align(100, align).unwrap();
            let block = heap.allocate(layout).unwrap();
            assert!(block.cast::<u8>().addr().get().is_multiple_of(align) && block.len() >= 100);
            // SAFETY: the block is in use; all of its length is the caller's.
            unsafe { block.cast::<u8>().write_bytes(0xff, block.len()) };
            heap.audit().unwrap();
            assert_eq!(try_free(&mut heap, block.cast(), layout), Freed::Freed);
            assert_eq!(try_free(&mut heap, block.cast(), layout), Freed::Unallocated);
        }
        heap.audit().unwrap();
    }
}
