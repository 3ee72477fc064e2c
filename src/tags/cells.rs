//! The cells of a heap: their addresses, and the words of their tags.

use super::header::{MAX_CELLS, write_word};
use super::layout::{CELL, NONE};

/// The cells of a heap. All tags are read and written through this type.
///
/// Invariant: the memory of the cells 0 to `end` − 1 starts at `origin` and is aligned to a cell.
/// Only the heap uses it, except for the contents of blocks in use. Blocks start at `first` and
/// above; the header at `end` is the last. The cells below the first header belong to the index.
#[derive(Debug)]
pub struct Cells {
    /// Where cell 0 is; null if there are no cells.
    origin: *mut u8,
    /// The cell where the first block starts.
    first: u32,
    /// Number of cells.
    end: u32,
}

// SAFETY: the cells belong to the heap, wherever it goes; nothing is tied to a thread.
unsafe impl Send for Cells {}

impl Cells {
    /// Returns an empty set of cells.
    pub(crate) const fn new() -> Self {
        Self::starting_at(NONE + 1)
    }

    /// Returns an empty set of cells. The first block will start at `first`, which is not 0.
    pub(crate) const fn starting_at(first: u32) -> Self {
        assert!(NONE < first && first < MAX_CELLS);
        Self { origin: core::ptr::null_mut(), first, end: 0 }
    }

    /// Takes over more memory.
    ///
    /// # Safety
    /// The memory from `origin` on is valid for `end` cells, aligned to a cell, and stays so; it
    /// begins with the present cells, if there are any.
    pub(crate) unsafe fn extend(&mut self, origin: *mut u8, end: u32) {
        debug_assert!(self.end == 0 || self.origin == origin);
        debug_assert!(origin.addr().is_multiple_of(CELL) && end > self.end && end <= MAX_CELLS);
        self.origin = origin;
        self.end = end;
    }

    /// Returns the address of the first cell; null if there is none.
    pub(crate) fn origin(&self) -> *mut u8 {
        self.origin
    }

    /// Returns the cell where the first block starts.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    /// Returns the number of cells, and the start of the last header's block, which is empty.
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// Returns the address of a block's contents. An audit passes links that may be overwritten: on
    /// 32 bits such a cell may be beyond all addresses.
    pub(crate) fn contents(&self, start: u32) -> *mut u8 {
        self.origin.wrapping_add((start as usize).wrapping_mul(CELL))
    }

    /// Returns the cell that starts at this address, if one does and a block may start there.
    pub(crate) fn cell_at(&self, address: usize) -> Option<u32> {
        let offset = address.checked_sub(self.origin.addr())?;
        let cell = u32::try_from(offset / CELL).ok()?;
        (offset.is_multiple_of(CELL) && cell >= self.first && cell < self.end).then_some(cell)
    }

    /// Returns the first cell from `cell` on at a multiple of `align` bytes.
    #[inline]
    pub(crate) fn aligned(&self, cell: u32, align: usize) -> Option<u32> {
        if align <= CELL {
            return Some(cell);
        }
        let address = self.origin.addr() + cell as usize * CELL;
        let gap = address.wrapping_neg() & (align - 1);
        cell.checked_add(u32::try_from(gap / CELL).ok()?)
    }

    /// Returns the last cell up to `cell` at a multiple of `align` bytes.
    #[inline]
    pub(crate) fn aligned_down(&self, cell: u32, align: usize) -> Option<u32> {
        if align <= CELL {
            return Some(cell);
        }
        let gap = self.contents(cell).addr() & (align - 1);
        cell.checked_sub(u32::try_from(gap / CELL).ok()?)
    }

    /// Returns where the word is that lies `offset` bytes from a block's contents. The block starts
    /// at `start`, a cell that is not [`NONE`], or the end.
    #[inline(always)]
    pub(super) fn word_at(&self, start: u32, offset: isize) -> *mut u32 {
        debug_assert!(start != NONE && start <= self.end, "no block starts there");
        self.contents(start).wrapping_byte_offset(offset).cast()
    }

    /// Returns the word of a block that lies `offset` bytes from its contents: see
    /// [`word_at`](Self::word_at).
    #[inline(always)]
    pub(super) fn read(&self, start: u32, offset: isize) -> u32 {
        // SAFETY: the four words of a block, and the header at `end`, lie in the cells, aligned,
        // and outside the contents of blocks in use.
        unsafe { self.word_at(start, offset).read() }
    }

    /// Overwrites such a word.
    #[inline(always)]
    pub(super) fn write(&mut self, start: u32, offset: isize, word: u32) {
        // SAFETY: as `read`; `&mut self` is exclusive.
        unsafe { write_word(self.word_at(start, offset), word) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory for cells: aligned to them on any machine.
    #[repr(align(16))]
    struct Memory<const CELLS: usize>([[u8; CELL]; CELLS]);

    /// Any address may be passed.
    #[test]
    fn cells_are_known_by_their_addresses() {
        let mut memory = Memory([[0; CELL]; 12]);
        let mut cells = Cells::starting_at(3);
        assert_eq!(cells.cell_at(16), None, "there are none");
        let origin: *mut u8 = memory.0.as_mut_ptr().cast();
        // SAFETY: the memory is aligned, and outlives the cells.
        unsafe { cells.extend(origin, 10) };
        for offset in -40..240 {
            let cell = u32::try_from(offset / 16).ok();
            let known = cell.filter(|cell| offset % 16 == 0 && (3..10).contains(cell));
            assert_eq!(cells.cell_at(origin.addr().wrapping_add_signed(offset)), known);
        }
        assert_eq!(cells.cell_at(0), None);
        assert_eq!(cells.cell_at(usize::MAX), None);
        assert_eq!((cells.first(), cells.end(), cells.origin()), (3, 10, origin));
    }

    #[test]
    fn cells_are_aligned_up_and_down() {
        let mut memory = Memory([[0; CELL]; 64]);
        let mut cells = Cells::new();
        let origin: *mut u8 = memory.0.as_mut_ptr().cast();
        // SAFETY: as above.
        unsafe { cells.extend(origin, 64) };
        for cell in 1..64 {
            for align in [1, 8, 16, 32, 64, 128, 256] {
                let is_aligned = |&cell: &u32| cells.contents(cell).addr().is_multiple_of(align);
                let up = (cell..u32::MAX).find(is_aligned);
                assert_eq!(cells.aligned(cell, align), up, "{cell} to {align}");
                let down = cells.aligned_down(cell, align);
                // Below the first cell there may be none.
                let expected = (0..=cell).rev().find(is_aligned);
                assert!(down == expected, "{cell} to {align}: {down:?}, not {expected:?}");
            }
        }
    }
}
