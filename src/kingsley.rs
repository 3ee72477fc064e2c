//! Kingsley's allocator, as in 4.2BSD: powers of two, one stack of free blocks for each, no
//! splitting, no coalescing (Wilson et al. 1995, §3.6; CK in Hasan & Chang 2006, §4.2).
//!
//! ```text
//! class   0     1     2     3    …        blocks of 16·2ᵏ bytes, with a header of 4
//! head    ●           ●
//!         ▼           ▼
//!         ●           ●  freed last
//! ```
//! A block stays in its class for ever. When a class has no free block, a page of new memory is cut
//! into blocks of the class; if a block is larger than a page, a single block is cut. No allocator
//! with headers can be much faster. But on average a quarter of each block is unused, and memory
//! that one class no longer needs serves no other class.
//!
//! The tags and the stacks are those of the other heaps. There is no index of free blocks, because
//! blocks are neither split nor coalesced.
//!
//! The original returns blocks that are aligned to 4 or 8 bytes. Here they are aligned to 16. For a
//! greater alignment, a larger block is taken and its contents start at an aligned address; a
//! second header in front of them contains the distance from the block's start.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::engine::{Backing, Engine, Heap, Resized, Served};
use crate::error::{AllocError, Fault};
use crate::fit::stacks::Stacks;
use crate::meter::{Meter, Part};
use crate::source::Source;
use crate::strategy::Span;
use crate::tags::{Block, CELL, Cells, Link, MAX_CELLS, TAG, header};
use crate::tally::Change;

/// The number of classes. Class k has blocks of 2^k cells.
const CLASSES: usize = MAX_CELLS.ilog2() as usize;

/// The number of stacks: one for each class, rounded up to a power of two.
const STACKS: usize = CLASSES.next_power_of_two();

/// Kingsley's allocator over a source.
///
/// Allocating and freeing take O(1), except when a page is cut. A block never changes its class, so
/// its memory never serves a request of another class. A heap has at most 16 GiB.
/// [`try_free`](crate::Strategy::try_free) walks the blocks below the address that it is given:
/// O(n).
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
/// - The blocks tile the cells from 1 on. Each has 2^k cells.
/// - The stack of class k contains every block of 2^k cells that is not in use, exactly once.
/// - A block's PREV_IN_USE, which says nothing about the block below here, is clear exactly if the
///   contents do not start at the block's start. The block's first link, otherwise unused in a
///   block in use, is then the cell where they start.
#[derive(Debug)]
pub struct PowersOfTwo {
    cells: Cells,
    /// Cells of a page.
    page: u32,
    stacks: Stacks<STACKS>,
}

/// Returns the class of the blocks that hold this many bytes; `None` if there is none.
#[inline(always)]
fn class_of(bytes: usize) -> Option<usize> {
    let cells = bytes.checked_add(TAG)?.div_ceil(CELL);
    // The exponent of the next power of two is the number of bits of `cells - 1`.
    let class = (usize::BITS - (cells - 1).leading_zeros()) as usize;
    (class < CLASSES).then_some(class)
}

/// Returns the number of bytes that a block of a class holds.
#[inline(always)]
fn bytes(class: usize) -> usize {
    (CELL << class) - TAG
}

/// Returns the number of bytes in which a layout fits at any start of the block; `None` if it
/// overflows.
#[inline(always)]
fn room(layout: Layout) -> Option<usize> {
    let gap = if layout.align() <= CELL { 0 } else { layout.align() - CELL };
    layout.size().checked_add(gap)
}

impl<S: Source, M: Meter> Heap<PowersOfTwo, S, M> {
    /// Returns an allocator over `source` that cuts pages of `page` bytes. It takes no memory
    /// before the first allocation.
    ///
    /// # Panics
    /// If `page` is not a power of two from 16 bytes to 1 GiB; in a `const`, at compile time.
    #[must_use]
    pub const fn new(page: usize, source: S, meter: M) -> Self {
        assert!(page.is_power_of_two() && page >= CELL && page <= 1 << 30);
        let page = (page / CELL) as u32;
        let engine = PowersOfTwo { cells: Cells::new(), page, stacks: Stacks::new() };
        Self::over(engine, source, meter)
    }
}

impl PowersOfTwo {
    /// Cuts a page into blocks of a class, or cuts a single block; pushes them onto their stack,
    /// and pops the lowest one.
    #[cold]
    #[inline(never)]
    fn cut<S: Source, M: Meter>(
        &mut self,
        class: usize,
        backing: &mut Backing<S, M>,
    ) -> Result<u32, AllocError> {
        let len = 1 << class;
        // As many blocks as fit into a page, halved until the source has the memory.
        let mut blocks = (self.page / len).max(1);
        let memory = loop {
            match self.append(blocks * len, &mut backing.source) {
                Ok(start) => break start,
                Err(exhausted) if blocks == 1 => return Err(exhausted),
                Err(_) => blocks /= 2,
            }
        };
        // The lowest block is pushed last, so it is popped first.
        for place in (0..blocks).rev() {
            let block = Block { start: memory + place * len, len };
            self.cells.put_withheld(block);
            self.stacks.link(block.start, class, &mut self.cells, &backing.meter);
        }
        self.stacks.pop(class, &mut self.cells, &backing.meter).ok_or(AllocError::Exhausted)
    }

    /// Takes `len` cells from the source. Returns the first one.
    fn append<S: Source>(&mut self, len: u32, source: &mut S) -> Result<u32, AllocError> {
        let start = self.cells.end().max(1);
        let end = start.checked_add(len).ok_or(AllocError::Exhausted)?;
        // SAFETY: only this heap uses the source's extent.
        unsafe { self.cells.append(end, source)? };
        self.cells.put_end(true);
        Ok(start)
    }

    /// Returns the cell where a layout's contents start in the block at `start`, which has room for
    /// it.
    #[inline(always)]
    fn place(&self, start: u32, layout: Layout) -> u32 {
        self.cells.aligned(start, layout.align()).unwrap_or(start)
    }

    #[inline(always)]
    fn contents(&self, start: u32) -> NonNull<u8> {
        // SAFETY: a block is in the heap's valid memory, so its address is not 0.
        unsafe { NonNull::new_unchecked(self.cells.contents(start)) }
    }

    /// Returns the start and the class of the block in use whose contents are at this address.
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

// SAFETY: blocks tile the source's extent; tags and links are outside the contents of blocks in
// use. All of them stay in place when the engine moves.
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
        // SAFETY: the caller gives the same guarantees.
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
        // A block that was kept may start behind a gap that its alignment does not need.
        let len = bytes(class) - (block.addr().get() - self.contents(start).addr().get());
        (new_layout.size() <= len).then(|| Resized {
            contents: NonNull::slice_from_raw_parts(block, len),
            bytes: Change::none(bytes(class)),
        })
    }

    /// A block fits every layout that it has room for, because it may have been
    /// [kept](Engine::keep) when it shrank.
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
    use crate::{FreeResult, Strategy};

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
            assert_eq!(try_free(&mut heap, block, layout), FreeResult::Freed);
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
            assert_eq!(try_free(&mut heap, block.cast(), layout), FreeResult::Freed);
            assert_eq!(try_free(&mut heap, block.cast(), layout), FreeResult::Unallocated);
        }
        heap.audit().unwrap();
    }
}
