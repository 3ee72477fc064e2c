//! From a block's address to its page, in one load.
//!
//! Memory is cut into *frames* of p bytes, from an address that is a multiple of p. A page fills a
//! frame; the blocks of the heap below may be anywhere. The map has a header's address for each
//! frame that is a page. It doubles when it must grow; the old copy's memory becomes headers.

use core::alloc::Layout;

use super::chunks::Chunks;
use super::page::Page;
use crate::error::AllocError;
use crate::source::Source;

/// Number of frames in the first map.
const FIRST: usize = 16;

/// The map. Invariant: `pages` has `len` entries, initialised.
#[derive(Debug)]
pub(super) struct Map {
    /// The address of frame 0.
    origin: usize,
    /// log₂ of the bytes of a frame.
    shift: u32,
    /// Number of entries.
    len: usize,
    /// The page in each frame, if one is there.
    pages: *mut Option<Page>,
}

impl Map {
    /// No frames.
    pub(super) const EMPTY: Self =
        Self { origin: 0, shift: 0, len: 0, pages: core::ptr::null_mut() };

    /// Sets the size of a frame to `page_size` bytes, a power of two. There is no frame yet.
    pub(super) fn open(&mut self, page_size: usize) {
        self.shift = page_size.trailing_zeros();
    }

    /// Returns the page that contains this address, if one does.
    #[inline(always)]
    pub(super) fn get(&self, address: usize) -> Option<Page> {
        let frame = address.wrapping_sub(self.origin) >> self.shift;
        if frame < self.len {
            // SAFETY: the map has `len` initialised entries.
            unsafe { *self.pages.add(frame) }
        } else {
            None
        }
    }

    /// Sets the entry of the frame at this address; it must exist.
    pub(super) fn set(&mut self, address: usize, page: Option<Page>) {
        let frame = address.wrapping_sub(self.origin) >> self.shift;
        assert!(frame < self.len, "the map reaches every page");
        // SAFETY: as `get`.
        unsafe { self.pages.add(frame).write(page) };
    }

    /// Ensures that there is an entry for the frame at this address; no frame is below `start`.
    pub(super) fn ensure<S: Source>(
        &mut self,
        address: usize,
        start: usize,
        chunks: &mut Chunks,
        source: &mut S,
    ) -> Result<(), AllocError> {
        let origin = if self.len == 0 { start >> self.shift << self.shift } else { self.origin };
        let needed = ((address - origin) >> self.shift) + 1;
        if needed <= self.len {
            return Ok(());
        }
        let len = needed.max(2 * self.len).max(FIRST);
        let layout = Layout::array::<Option<Page>>(len).map_err(|_| AllocError::Exhausted)?;
        let pages = source.dedicate(layout)?.cast::<Option<Page>>().as_ptr();
        if self.len > 0 {
            // SAFETY: the old map has `len` entries, the new one more, and they are disjoint. The
            // rest is zero, which is `None`.
            unsafe { pages.copy_from_nonoverlapping(self.pages, self.len) };
        }
        // SAFETY: the old map came from the source, for good, and is replaced here.
        unsafe { chunks.donate(self.pages.cast(), self.len * size_of::<Option<Page>>()) };
        *self = Self { origin, len, pages, ..*self };
        Ok(())
    }

    /// Returns every page, in address order.
    pub(super) fn pages(&self) -> impl Iterator<Item = Page> {
        // SAFETY: as `get`.
        (0..self.len).filter_map(|frame| unsafe { *self.pages.add(frame) })
    }
}
