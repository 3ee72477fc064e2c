//! Operations on blocks by their address alone, as C's `free` needs them.

use core::ptr::NonNull;

use crate::engine::{Backing, Heap};
use crate::meter::{Meter, Part};
use crate::pages::below::tagged::{Large, Tagged};
use crate::pages::engine::PageEngine;
use crate::pages::headers::Headers;
use crate::pages::headers::linked::Linked;
use crate::pages::page_heap::windowed::Windowed;
use crate::source::Source;
use crate::tags::CELL;

/// Blocks that are too large for pages have a multiple of this many cells, and so lie at multiples
/// of 32 bytes.
///
/// glibc 2.36 copies more than 2 KiB by `rep movsb`. On Zen 3 that takes up to ten times as long
/// where the copy starts 1 to 31 bytes behind the original, modulo 4 KiB. Neighbours of a medium
/// class with an odd number of cells would be 16 bytes apart modulo 4 KiB.
const PAIR: u32 = 2;

/// Returns the cells of a block that is requested with this many bytes.
#[inline(always)]
pub(super) fn cells_of(requested: usize) -> u32 {
    // Rounds up: what is added costs nothing beside what `Large` adds.
    Large::cells_of(requested + (PAIR as usize - 1) * CELL) & !(PAIR - 1)
}

impl<S: Source, M: Meter> Heap<PageEngine<Windowed, Tagged>, S, M> {
    /// Returns the size in bytes of a block in use; the program may use all of them. O(1).
    ///
    /// # Safety
    /// The block is in use.
    pub(crate) unsafe fn block_size(&self, block: NonNull<u8>) -> usize {
        let pages = &self.engine.pages;
        match pages.headers.at(block.addr().get()) {
            Some(page) => page.size.get() as usize,
            None => pages.below.len_of(block),
        }
    }

    /// Returns the size in bytes of a block in use that is too large for pages, from the tag beside
    /// it. O(1).
    ///
    /// # Safety
    /// The block is in use and not in a page, and no other thread resizes it meanwhile.
    pub(crate) unsafe fn tagged_size(block: NonNull<u8>) -> usize {
        // SAFETY: the caller guarantees that the block is in use and not in a page: it has a tag.
        Large::bytes(unsafe { crate::tags::header::len_at(block) })
    }

    /// Returns whether a block too large for pages is in use and as long as a request of
    /// `requested` bytes makes it, according to the tag before it. O(1).
    ///
    /// # Safety
    /// A block in use of that kind starts here, and no other thread resizes it meanwhile. The
    /// program may have overwritten the tag with anything.
    #[inline(always)]
    pub(crate) unsafe fn is_tagged_of(block: NonNull<u8>, requested: usize) -> bool {
        // SAFETY: the caller guarantees that a block with a tag starts here.
        unsafe { crate::tags::header::is_in_use_of(block, cells_of(requested)) }
    }

    /// Returns the size in bytes that a block too large for pages has at least for a request of
    /// `requested` bytes.
    pub(crate) fn tagged_size_for(requested: usize) -> usize {
        Large::bytes(cells_of(requested))
    }

    /// Returns the bytes of the least block that pages of `page_size` bytes can have.
    pub(crate) fn least_block(page_size: usize) -> usize {
        Linked::least_block(page_size)
    }

    /// Returns the bytes to request instead of `requested`, which pages are too small for, to get a
    /// block of whole [pairs](PAIR) of cells.
    #[inline]
    pub(crate) fn paired(requested: usize) -> usize {
        /// The largest request that can be rounded up, bytes.
        const MOST: usize = Large::MOST - PAIR as usize * CELL;
        // A larger request is refused as it is.
        if requested > MOST { requested } else { Self::tagged_size_for(requested) }
    }

    /// Returns whether a block too large for pages is in use, according to the tags beside it. A
    /// freed block is recognised until its memory is reused. O(1).
    ///
    /// # Safety
    /// The block was allocated here. If it has been freed, no other thread writes to the memory
    /// around it meanwhile.
    pub(crate) unsafe fn is_tagged_in_use(&self, block: NonNull<u8>) -> bool {
        let pages = &self.engine.pages;
        pages.headers.at(block.addr().get()).is_none() && pages.below.known_at(block).is_some()
    }

    /// Makes the heap check every free block too large for pages before it follows the block's
    /// links; [damaged] blocks are left alone. (These include blocks that consist of freed pages.)
    ///
    /// [damaged]: Self::damaged
    pub(crate) fn vet_all(&mut self) {
        self.engine.pages.below.heap.vet_all();
    }

    /// Makes every page stay with the class that it first served, whether it has blocks in use or
    /// not.
    pub(crate) fn pin_pages(&mut self) {
        self.engine.placement.pins = true;
    }

    /// Returns a free block whose links or tags were found overwritten, if there is one.
    #[inline]
    pub(crate) fn damaged(&self) -> Option<*mut u8> {
        let heap = &self.engine.pages.below.heap;
        heap.damaged().map(|block| heap.contents(block.start))
    }

    /// Returns whether a block too large for pages is in use, and no free block beside it is
    /// damaged. If one is, [`damaged`](Self::damaged) returns it. O(1).
    ///
    /// # Safety
    /// As for [`is_tagged_in_use`](Self::is_tagged_in_use).
    pub(crate) unsafe fn is_tagged_sound(&mut self, block: NonNull<u8>) -> bool {
        self.engine.pages.below.is_sound(block)
    }

    /// Frees a block too large for pages, as if all of it had been requested. O(1).
    ///
    /// # Errors
    /// The block, if it [is not in use](Self::is_tagged_in_use), or one beside it is
    /// [damaged](Self::damaged); nothing is changed.
    ///
    /// # Safety
    /// The block was allocated here and, as far as that is not detected, has not been freed.
    pub(crate) unsafe fn free_tagged(&mut self, block: NonNull<u8>) -> Result<(), NonNull<u8>> {
        let pages = &mut self.engine.pages;
        if pages.headers.at(block.addr().get()).is_some() {
            return Err(block);
        }
        let Backing { meter, tally, .. } = &mut self.backing;
        let bytes = pages.below.free_known(block, meter).ok_or(block)?;
        meter.served(Part::Fit);
        tally.freed(bytes, bytes);
        Ok(())
    }
}
