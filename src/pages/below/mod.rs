//! The heap below the pages: pages are blocks of this heap, and it serves the requests that pages
//! do not.
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
use crate::tally::Change;

/// A heap below pages. Pages are aligned to their size, p bytes.
pub trait Below: Debug {
    /// Bytes at a page's end that this heap keeps for itself.
    const KEPT: usize;

    /// Returns the bytes of a page that its blocks can use.
    #[inline(always)]
    fn usable(page_size: usize) -> usize {
        page_size - Self::KEPT
    }

    /// Returns the address from which frames of p bytes are counted, before it is rounded down to a
    /// multiple of p. Called only when there is memory.
    fn origin(&self) -> usize;

    /// Takes a page.
    fn take_page<S: Source, M: Meter>(
        &mut self,
        page_size: usize,
        source: &mut S,
        meter: &M,
    ) -> Result<NonNull<u8>, AllocError>;

    /// Gives a page back.
    fn release_page<M: Meter>(&mut self, base: NonNull<u8>, meter: &M);

    /// Returns whether a block in use of p bytes starts here.
    fn holds_page(&self, base: usize, page_size: usize) -> bool;

    /// Takes a block if the heap knows at once of a free block that is large enough. Returns it
    /// with its length in bytes.
    fn take<M: Meter>(&mut self, layout: Layout, meter: &M) -> Option<(NonNull<u8>, usize)>;

    /// Takes a block in a quicker way than [`take`](Self::take). Any size may be passed, including
    /// 0. Returns `None` if this way cannot serve the request.
    #[inline(always)]
    fn take_plain<M: Meter>(&mut self, _: Layout, _: &M) -> Option<(NonNull<u8>, usize)> {
        None
    }

    /// Takes a block in another quick way, for larger and aligned requests.
    #[inline(always)]
    fn take_close<M: Meter>(&mut self, _: Layout, _: &M) -> Option<(NonNull<u8>, usize)> {
        None
    }

    /// Like [`take`](Self::take), with more of the source's memory, after `take` found no block.
    fn take_more<S: Source, M: Meter>(
        &mut self,
        layout: Layout,
        source: &mut S,
        meter: &M,
    ) -> Result<(NonNull<u8>, usize), AllocError>;

    /// Returns whether [`about_to_free`](Self::about_to_free) must be called before a block is
    /// freed.
    #[inline(always)]
    fn is_watched(&self) -> bool {
        false
    }

    /// Called before a block that was requested with `requested` bytes is freed.
    fn about_to_free(&mut self, _block: NonNull<u8>, _requested: usize) {}

    /// Frees a block in use that was requested with `requested` bytes. Returns its length in bytes.
    fn free<M: Meter>(&mut self, block: NonNull<u8>, requested: usize, meter: &M) -> usize;

    /// Returns the length in bytes of a block that was requested with `requested` bytes.
    fn len_for(&self, requested: usize) -> usize;

    /// Resizes in place a block that was requested with `sizes.old` bytes, so that it holds
    /// `sizes.new`. Returns whether it did.
    fn resize<S: Source, M: Meter>(
        &mut self,
        block: NonNull<u8>,
        sizes: Change,
        source: &mut S,
        meter: &M,
    ) -> bool;

    /// Like [`resize`](Self::resize), for a block of any length and without more memory. Returns
    /// the change of its length.
    fn keep<M: Meter>(&mut self, block: NonNull<u8>, sizes: Change, meter: &M) -> Option<Change>;

    /// Moves a block that grows, with its contents, down over the free memory below it. Returns its
    /// new start, and the change of its length.
    fn grow_down<M: Meter>(
        &mut self,
        _block: NonNull<u8>,
        _layout: Layout,
        _new_size: usize,
        _meter: &M,
    ) -> Option<(NonNull<u8>, Change)> {
        None
    }

    /// Returns whether a block in use starts at `block` that could have been requested with
    /// `layout`. Any address may be passed.
    fn has_block(&self, block: NonNull<u8>, layout: Layout) -> bool;

    /// Calls `visit` for every span in address order. A page is a block.
    fn walk(&self, visit: &mut dyn FnMut(Span));

    /// Checks the heap's own invariants.
    fn audit(&self) -> Result<(), Fault>;
}
