//! What the heap's pages hold, for statistics.

use crate::engine::Heap;
use crate::meter::Meter;
use crate::pages::below::tagged::Tagged;
use crate::pages::engine::PageEngine;
use crate::pages::headers::Headers;
use crate::pages::page_heap::windowed::Windowed;
use crate::source::Source;

impl<S: Source, M: Meter> Heap<PageEngine<Windowed, Tagged>, S, M> {
    /// Bytes of all pages, those without blocks in use among them.
    pub(crate) fn page_bytes(&self) -> usize {
        self.engine.pages.count() * self.engine.config.page_size
    }

    /// Where the first block below the pages may begin; 0 before there is any memory.
    pub(crate) fn first_block(&self) -> usize {
        let heap = &self.engine.pages.below.heap;
        heap.contents(heap.first()).addr()
    }

    /// Calls `visit` for each page that serves a class, with the class and the number of its blocks in
    /// use. O(pages).
    pub(crate) fn for_each_page(&self, visit: &mut dyn FnMut(u32, u32)) {
        let PageEngine { placement, pages, .. } = &self.engine;
        pages.headers.for_each(&mut |page| {
            let (class, supply) = (page.class(), placement.supplies.get(page.class()));
            let current = supply.page == Some(page);
            let window = if current { supply.window.count_ones() } else { 0 };
            let in_use = supply.capacity - page.free() - window;
            if current || in_use > 0 {
                visit(class, in_use);
            }
        });
    }
}
