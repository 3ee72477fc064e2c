//! Blocks known by their address alone, as C's `free` knows them.

use core::ptr::NonNull;

use crate::engine::{Backing, Heap};
use crate::meter::{Meter, Part};
use crate::pages::below::tagged::{Large, Tagged};
use crate::pages::engine::PageEngine;
use crate::pages::headers::Headers;
use crate::pages::page_heap::windowed::Windowed;
use crate::source::Source;

impl<S: Source, M: Meter> Heap<PageEngine<Windowed, Tagged>, S, M> {
    /// Bytes of a block in use. All may be used. O(1).
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

    /// Bytes of a block in use that is larger than those of pages, read beside the block alone. O(1).
    ///
    /// # Safety
    /// The block is in use, lies in no page, and nobody resizes it meanwhile.
    pub(crate) unsafe fn tagged_size(block: NonNull<u8>) -> usize {
        // SAFETY: the caller's promise.
        Large::bytes(unsafe { crate::tags::header::len_at(block) })
    }

    /// Whether a block larger than those of pages is in use and as long as one for which so many bytes are asked, as the
    /// tag before it says; read beside the block alone. O(1).
    ///
    /// # Safety
    /// Such a block starts here, in use, and nobody resizes it meanwhile; what the program wrote before it may be
    /// anything.
    #[inline(always)]
    pub(crate) unsafe fn is_tagged_of(block: NonNull<u8>, requested: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe { crate::tags::header::is_in_use_of(block, Large::cells_of(requested)) }
    }

    /// Bytes of a block larger than those of pages for which so many were asked, if it is no longer than it must be.
    pub(crate) fn tagged_size_for(requested: usize) -> usize {
        Large::bytes(Large::cells_of(requested))
    }

    /// Whether a block larger than those of pages is in use, as far as the tags beside it tell: one
    /// that was freed is known until its memory is used for something else. O(1).
    ///
    /// # Safety
    /// The block was allocated here. If it was freed since, nobody writes meanwhile to the memory
    /// around it.
    pub(crate) unsafe fn is_tagged_in_use(&self, block: NonNull<u8>) -> bool {
        let pages = &self.engine.pages;
        pages.headers.at(block.addr().get()).is_none() && pages.below.known_at(block).is_some()
    }

    /// Has every free block larger than those of pages looked at before its links are followed: [damaged]
    /// ones are left alone. (A block of pages that are free is one of them.)
    ///
    /// [damaged]: Self::damaged
    pub(crate) fn vet_all(&mut self) {
        self.engine.pages.below.heap.vet_all();
    }

    /// Has every page stay with the class it first served, whether it has blocks in use or not.
    pub(crate) fn pin_pages(&mut self) {
        self.engine.placement.pins = true;
    }

    /// A free block in which somebody has overwritten what the heap keeps there, if one was met.
    #[inline]
    pub(crate) fn damaged(&self) -> Option<*mut u8> {
        let heap = &self.engine.pages.below.heap;
        heap.damaged().map(|block| heap.contents(block.start))
    }

    /// Whether a block larger than those of pages is in use, and no free block beside it is damaged; if not,
    /// [that is known](Self::damaged). O(1).
    ///
    /// # Safety
    /// As for [`is_tagged_in_use`](Self::is_tagged_in_use).
    pub(crate) unsafe fn is_tagged_sound(&mut self, block: NonNull<u8>) -> bool {
        self.engine.pages.below.is_sound(block)
    }

    /// Frees a block larger than those of pages, as if all of it had been requested. O(1).
    ///
    /// # Errors
    /// The block, if it [is not in use](Self::is_tagged_in_use), or one beside it is
    /// [damaged](Self::damaged); nothing is changed.
    ///
    /// # Safety
    /// The block was allocated here and, as far as that is not noticed, not freed since.
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
