//! Programs of machines with words half as wide, as in the papers.
//!
//! Our heaps have units of 16 bytes; the papers' have units of 8, and headers half as long. So a
//! request of *n* bytes there and one of 2 *n* bytes here leave the same heap, twice as large,
//! provided that the header is twice as long as well. If ours is shorter, the missing bytes are
//! added to the request. The smallest block holds two links and the lengths, 16 bytes there.

use std::alloc::Layout;
use std::ptr::NonNull;

use pagewise_replay::workload::Target;

/// The width of the words of a program's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// As ours, or unknown.
    Whole,
    /// Half as wide: 32 bits.
    Half,
}

/// Bytes of a header on the papers' machines.
const HEADER: usize = 4;
/// Capacity of the smallest block there, bytes.
const LEAST: usize = 16 - HEADER;

impl Words {
    /// Returns the width for a machine whose pointers have this many bits.
    pub(crate) fn of_width(bits: u8) -> Self {
        if bits == 32 { Self::Half } else { Self::Whole }
    }

    /// Returns the number of bytes here for each byte there.
    pub(crate) fn factor(self) -> usize {
        match self {
            Self::Whole => 1,
            Self::Half => 2,
        }
    }

    /// Returns the size to request from an allocator with a header of this length, for a request of
    /// `size` bytes.
    pub(crate) fn size(self, size: usize, header: usize) -> usize {
        match self {
            Self::Whole => size,
            Self::Half => 2 * (size.max(LEAST) + HEADER) - header,
        }
    }
}

/// An allocator for a program with words of this width.
pub(crate) struct Widened<'t, T: ?Sized> {
    target: &'t mut T,
    words: Words,
    /// Bytes of its header.
    header: usize,
}

impl<'t, T: Target + ?Sized> Widened<'t, T> {
    /// Over an allocator that keeps this many bytes before each block.
    pub(crate) fn new(target: &'t mut T, words: Words, header: usize) -> Self {
        Self { target, words, header }
    }

    fn layout(&self, layout: Layout) -> Option<Layout> {
        let align = layout.align() * self.words.factor();
        Layout::from_size_align(self.words.size(layout.size(), self.header), align).ok()
    }
}

// SAFETY: blocks are the allocator's own, and at least as long as requested.
unsafe impl<T: Target + ?Sized> Target for Widened<'_, T> {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> Option<NonNull<u8>> {
        self.target.allocate(self.layout(layout)?)
    }

    #[inline]
    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<u8>> {
        let new_size = self.words.size(new_size, self.header);
        // SAFETY: the caller guarantees it; the block was allocated with this layout.
        unsafe { self.target.reallocate(block, self.layout(layout)?, new_size) }
    }

    #[inline]
    unsafe fn free(&mut self, block: NonNull<u8>, layout: Layout) {
        let Some(layout) = self.layout(layout) else { return };
        // SAFETY: the caller guarantees it; the block was allocated with this layout.
        unsafe { self.target.free(block, layout) };
    }
}

#[cfg(test)]
mod tests {
    use pagewise::Strategy;
    use pagewise::catalogue::SegregatedFit;
    use pagewise::source::Reserved;
    use pagewise_replay::workload::System;

    use super::*;

    #[test]
    fn blocks_take_twice_the_bytes_of_the_paper() {
        let mut heap = SegregatedFit::new(16, Reserved::new(1 << 30), ());
        let held =
            |heap: &SegregatedFit<Reserved>| heap.usage().block + HEADER * heap.usage().blocks;
        for size in 1..3_000 {
            let there = (size + HEADER).next_multiple_of(8).max(16);
            let before = held(&heap);
            let layout = Layout::from_size_align(size, 8).unwrap();
            Widened::new(&mut heap, Words::Half, HEADER).allocate(layout).unwrap();
            assert_eq!(held(&heap) - before, 2 * there, "{size} bytes");
        }
    }

    #[test]
    fn words_of_our_width_change_nothing() {
        let mut system = System;
        let target = Widened::new(&mut system, Words::Whole, 4);
        let layout = Layout::from_size_align(24, 8).unwrap();
        assert_eq!(target.layout(layout), Some(layout));
        assert_eq!(Words::of_width(64), Words::Whole);
    }
}
