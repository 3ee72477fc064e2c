//! Takes and puts back the blocks of pages with numbered headers.

use core::ptr::NonNull;

use crate::meter::Meter;
use crate::pages::below::Below;
use crate::pages::headers::Headers;
use crate::pages::headers::in_page::{Bitmap, InPage, PageView};
use crate::pages::headers::numbered::Numbered;
use crate::pages::store::Pages;

/// A block that was put back, and its page, as a placement needs them.
#[derive(Clone, Copy)]
pub struct Put {
    /// The page, by its header's number.
    pub(super) page: u32,
    /// The page's class.
    pub(super) class: u32,
    /// c: blocks in a page of that class.
    pub(super) capacity: u32,
    /// Block size, bytes.
    pub(super) size: u32,
    /// The page's `left`.
    pub(super) left: u32,
    /// φ, now.
    pub(super) free: u32,
}

impl Put {
    /// Returns whether all blocks of the page are free.
    #[inline(always)]
    pub(super) fn emptied_page(&self) -> bool {
        self.free == self.capacity
    }
}

impl<F: InPage, B: Below> Pages<Numbered<F>, B> {
    /// Takes a free block of a page of this class, if it has one; φ falls by 1.
    #[inline(always)]
    pub(super) fn take<M: Meter>(
        &mut self,
        page: u32,
        class: u32,
        meter: &M,
    ) -> Option<NonNull<u8>> {
        let size = self.classes.get(class).size;
        let frame = self.headers.header(page).frame;
        let base = self.headers.frame_base(frame);
        let (header, words) = self.headers.header_and_words(page);
        meter.visit(header);
        header.free_count = header.free_count.checked_sub(1)?;
        let block = F::take(PageView { header, words, base, size }, meter);
        NonNull::new(base.wrapping_add(block as usize * size as usize))
    }

    /// Puts the block in use at this address back to its page's free ones; φ rises by 1.
    #[inline(always)]
    pub(super) fn put<M: Meter>(&mut self, page: u32, address: NonNull<u8>, meter: &M) -> Put {
        let offset = address.addr().get() & (self.page_size() - 1);
        let (header, words) = self.headers.header_and_words(page);
        meter.touch(header);
        let class = self.classes.get(header.class);
        let block = class.index(offset);
        header.free_count += 1;
        let put = Put {
            page,
            class: header.class,
            capacity: class.capacity,
            size: class.size,
            left: header.left,
            free: header.free_count,
        };
        let base = address.as_ptr().wrapping_sub(block as usize * class.size as usize);
        let size = class.size;
        F::put(PageView { header, words, base, size }, block, meter);
        put
    }
}

impl<B: Below> Pages<Numbered<Bitmap>, B> {
    /// Takes the page's next block that was never used; there must be one.
    #[inline(always)]
    pub(super) fn take_fresh(&mut self, page: u32) -> NonNull<u8> {
        let block = self.headers.header(page).fresh;
        self.headers.header_mut(page).fresh = block + 1;
        self.claim(page, block);
        self.block_address(page, block)
    }

    /// Returns where a block of a page starts.
    pub(super) fn block_address(&self, page: u32, block: u32) -> NonNull<u8> {
        let offset = block as usize * self.class_of_page(page).size as usize;
        // SAFETY: a page has `capacity` blocks of `size` bytes, and `block` is one of them.
        unsafe { NonNull::new_unchecked(self.headers.base(page).add(offset)) }
    }

    /// Takes this block, which is free; φ falls by 1.
    #[inline(always)]
    fn claim(&mut self, page: u32, block: u32) {
        let (header, words) = self.headers.header_and_words(page);
        header.free_count -= 1;
        Bitmap::claim(words, block);
    }

    /// Takes the block at this address, which is free and in a page; φ falls by 1.
    #[inline(always)]
    pub(super) fn claim_at(&mut self, address: NonNull<u8>) {
        let page = self.headers.at(address.addr().get()).expect("a free block lies in a page");
        let offset = address.addr().get() & (self.page_size() - 1);
        let block = self.class_of_page(page).index(offset);
        self.claim(page, block);
    }

    /// Returns whether a free block of this class starts at an address, which may be any.
    pub(super) fn is_free_at(&self, address: NonNull<u8>, class: u32) -> bool {
        let page = self.headers.at(address.addr().get());
        page.filter(|&page| self.headers.class(page) == class).is_some_and(|page| {
            let block = self.block_at(page, address);
            block.is_some_and(|block| self.headers.is_free(page, self.class(class).size, block))
        })
    }
}
