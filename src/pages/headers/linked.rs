//! Headers named by their address, found by one load.

use super::chunks::Chunks;
use super::map::Map;
use super::page::{MOST_BLOCKS, Page, WORD, kind_for, words_of};
use super::{Free, Headers};
use crate::error::AllocError;
use crate::pages::class::Class;
use crate::source::Source;

/// Headers by address. Invariant: the map has exactly the pages.
#[derive(Debug)]
pub struct Linked {
    chunks: Chunks,
    map: Map,
}

// SAFETY: all that the pointers lead to belongs to the heap, wherever it goes.
unsafe impl Send for Linked {}

impl Headers for Linked {
    type Page = Page;

    const EMPTY: Self = Self { chunks: Chunks::new(), map: Map::EMPTY };

    fn least_block(page_size: usize) -> usize {
        page_size / MOST_BLOCKS as usize + 1
    }

    fn open(&mut self, page_size: usize, _: u32) {
        self.map.open(page_size);
    }

    #[inline(always)]
    fn at(&self, address: usize) -> Option<Page> {
        self.map.get(address)
    }

    fn make<S: Source>(&mut self, capacity: u32, source: &mut S) -> Result<Page, AllocError> {
        self.chunks.make(capacity, source)
    }

    fn suits(&self, page: Page, capacity: u32) -> bool {
        page.kind() == kind_for(capacity)
    }

    fn place<S: Source>(
        &mut self,
        page: Page,
        base: *mut u8,
        origin: usize,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.map.ensure(base.addr(), origin, &mut self.chunks, source)?;
        page.base.set(base);
        self.map.set(base.addr(), Some(page));
        Ok(())
    }

    fn remove(&mut self, page: Page) {
        self.map.set(page.base.get().addr(), None);
    }

    fn recycle(&mut self, page: Page) {
        self.chunks.recycle(page);
    }

    fn assign(&mut self, page: Page, number: u32, class: &Class) {
        page.assign(number, class);
    }

    fn base(&self, page: Page) -> *mut u8 {
        page.base.get()
    }

    #[inline(always)]
    fn class(&self, page: Page) -> u32 {
        page.class()
    }

    fn free_count(&self, page: Page) -> u32 {
        page.free()
    }

    fn free_blocks(&self, page: Page, _: u32, from: u32) -> Free {
        let words = words_of(page.kind());
        core::array::from_fn(|index| {
            let word = from / WORD + index as u32;
            if word < words { page.word(word).get() } else { 0 }
        })
    }

    fn is_free(&self, page: Page, _: u32, block: u32) -> bool {
        page.is_free(block)
    }

    fn audit(&self, page: Page, capacity: u32) -> Result<(), &'static str> {
        for index in 0..capacity.div_ceil(WORD) {
            let bits = page.word(index).get();
            if bits != 0 && page.summary.get() >> (index % WORD) & 1 == 0 {
                return Err("the summary knows every word with free blocks");
            }
            let rest = capacity - index * WORD;
            if rest < WORD && bits >> rest != 0 {
                return Err("only a page's blocks have bits");
            }
        }
        Ok(())
    }

    fn next(&self, page: Page) -> Option<Page> {
        page.next.get()
    }

    fn set_next(&mut self, page: Page, next: Option<Page>) {
        page.next.set(next);
    }

    fn address(&self, page: Page) -> *const u8 {
        page.header().cast()
    }

    fn for_each(&self, visit: &mut dyn FnMut(Page)) {
        self.map.pages().for_each(visit);
    }
}
