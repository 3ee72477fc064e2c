//! What lies below the pages: a heap of blocks of any size, which the pages are blocks of, and which
//! serves what pages do not.
//!
//! | | bookkeeping | a page loses |
//! |---|---|---|
//! | [`SegmentHeap`](crate::segments::SegmentHeap) | apart from all blocks | nothing |
//! | [`Tagged`](tagged::Tagged) | a tag of 4 bytes before each block | 4 bytes |

#[cfg(feature = "strategies")]
mod segments;
pub(crate) mod tagged;

use core::alloc::Layout;
use core::fmt::Debug;
use core::ptr::NonNull;

use crate::error::{AllocError, Fault};
use crate::meter::Meter;
use crate::source::Source;
use crate::strategy::Span;

/// A heap below pages. Pages are aligned to their size, p bytes.
pub trait Below: Debug {
    /// Bytes at a page's end that this heap keeps for itself.
    const KEPT: usize;

    /// Bytes of a page that its blocks can use.
    #[inline(always)]
    fn usable(page_size: usize) -> usize {
        page_size - Self::KEPT
    }

    /// Address from which slots of p bytes are counted, rounded down to p; asked once there is memory.
    fn origin(&self) -> usize;

    /// A page.
    fn take_page<S: Source, M: Meter>(
        &mut self,
        page_size: usize,
        source: &mut S,
        meter: &M,
    ) -> Result<NonNull<u8>, AllocError>;

    /// Takes a page back.
    fn release_page<M: Meter>(&mut self, base: NonNull<u8>, meter: &M);

    /// Whether a block in use of p bytes starts here.
    fn holds_page(&self, base: usize, page_size: usize) -> bool;

    /// A block, and its length in bytes, if a free block that is known at once has room.
    fn take<M: Meter>(&mut self, layout: Layout, meter: &M) -> Option<(NonNull<u8>, usize)>;

    /// A quick way to [`take`](Self::take), for any size, also 0; `None` where it does not serve.
    #[inline(always)]
    fn take_plain<M: Meter>(&mut self, _: Layout, _: &M) -> Option<(NonNull<u8>, usize)> {
        None
    }

    /// Another, for larger and aligned requests.
    #[inline(always)]
    fn take_close<M: Meter>(&mut self, _: Layout, _: &M) -> Option<(NonNull<u8>, usize)> {
        None
    }

    /// As [`take`](Self::take), where that had none: with more of the source's memory.
    fn take_more<S: Source, M: Meter>(
        &mut self,
        layout: Layout,
        source: &mut S,
        meter: &M,
    ) -> Result<(NonNull<u8>, usize), AllocError>;

    /// Whether a block that is about to be freed must be [told of](Self::about_to_free) first.
    #[inline(always)]
    fn is_watched(&self) -> bool {
        false
    }

    /// A block that was asked for with `requested` bytes is about to be freed.
    fn about_to_free(&mut self, _block: NonNull<u8>, _requested: usize) {}

    /// Frees a block in use that was asked for with `requested` bytes; its length in bytes.
    fn free<M: Meter>(&mut self, block: NonNull<u8>, requested: usize, meter: &M) -> usize;

    /// Length in bytes of a block that was asked for with `requested` bytes.
    fn len_for(&self, requested: usize) -> usize;

    /// Resizes a block in place that was asked for with `sizes.0` bytes, to hold `sizes.1`. Whether
    /// that was possible.
    fn resize<S: Source, M: Meter>(
        &mut self,
        block: NonNull<u8>,
        sizes: (usize, usize),
        source: &mut S,
        meter: &M,
    ) -> bool;

    /// As [`resize`](Self::resize), of a block of whatever length and without more memory; its lengths
    /// before and after, in bytes.
    fn keep<M: Meter>(
        &mut self,
        block: NonNull<u8>,
        sizes: (usize, usize),
        meter: &M,
    ) -> Option<(usize, usize)>;

    /// Moves a block that grows, with its contents, down over the free memory below it; where it lies
    /// then, and its lengths before and after, in bytes.
    fn grow_down<M: Meter>(
        &mut self,
        _block: NonNull<u8>,
        _layout: Layout,
        _new_size: usize,
        _meter: &M,
    ) -> Option<(NonNull<u8>, (usize, usize))> {
        None
    }

    /// Whether a block in use starts at any address that could be known by a layout.
    fn has_block(&self, block: NonNull<u8>, layout: Layout) -> bool;

    /// Calls `visit` for every span in address order. A page is a block.
    fn walk(&self, visit: &mut dyn FnMut(Span));

    /// Checks the heap's own invariants.
    fn audit(&self) -> Result<(), Fault>;
}
