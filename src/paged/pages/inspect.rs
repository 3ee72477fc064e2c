//! The pages and what lies between them as spans, and the invariants checked.

use super::{NIL, Pages};
use crate::error::Fault;
use crate::first_fit::heap::Extent;
use crate::paged::in_page::{InPage, WINDOW};
use crate::strategy::{Span, SpanKind};

impl<F: InPage> Pages<F> {
    /// The page a block of the heap in use is, if it is one.
    fn page_of(&self, block: Extent) -> Option<u32> {
        let slot = self.slot_of(block) as usize;
        let page = if slot < self.map.capacity() { *self.map.get(slot) } else { 0 };
        let page = page.checked_sub(1)?;
        (self.granule_of_slot(self.header(page).slot) == block.start).then_some(page)
    }

    /// Walks blocks, pages and the bookkeeping. `unused` is what a free block within a page is.
    pub(in crate::paged) fn walk(&self, unused: SpanKind, visit: &mut dyn FnMut(Span)) {
        for (block, free) in self.heap.blocks() {
            if free {
                visit(self.heap.span(block, SpanKind::Free));
            } else if let Some(page) = self.page_of(block) {
                self.walk_page(page, unused, visit);
            } else {
                visit(self.heap.span(block, SpanKind::Block));
            }
        }
    }

    fn walk_page(&self, page: u32, unused: SpanKind, visit: &mut dyn FnMut(Span)) {
        let start = self.base(page).addr().get();
        let class = self.class(self.header(page).class);
        if self.header(page).free_count == class.capacity {
            visit(Span { start, len: self.page_size(), kind: SpanKind::Free });
            return;
        }
        let len = class.size as usize;
        for from in (0..class.capacity).step_by(WINDOW) {
            let window = self.free_window(page, from);
            for block in from..class.capacity.min(from + WINDOW as u32) {
                let offset = (block - from) as usize;
                let free = window[offset / 64] >> (offset % 64) & 1 == 1;
                let kind = if free { unused } else { SpanKind::Block };
                visit(Span { start: start + block as usize * len, len, kind });
            }
        }
        let used = class.capacity as usize * len;
        if used < self.page_size() {
            let slack =
                Span { start: start + used, len: self.page_size() - used, kind: SpanKind::Slack };
            visit(slack);
        }
    }

    /// Checks the invariants of the heap, the map, the headers and S2; returns how many pages S2
    /// has.
    pub(in crate::paged) fn audit(&self) -> Result<usize, Fault> {
        self.heap.audit_blocks()?;
        let mut pages = 0;
        for (block, free) in self.heap.blocks() {
            let Some(page) = self.page_of(block).filter(|_| !free) else { continue };
            pages += 1;
            let at = self.base(page).addr().get();
            let header = self.header(page);
            Fault::unless(page < self.header_count, "a page's header was made", at)?;
            Fault::unless(
                self.heap.bytes(block.len()) == self.page_size(),
                "a page is a block of p bytes",
                at,
            )?;
            let class = self.class(header.class);
            let free = self.count_free(page);
            Fault::unless(free == header.free_count, "φ counts the free blocks of its page", at)?;
            Fault::unless(header.fresh <= class.capacity, "a page has at most c blocks", at)?;
        }
        let origin = self.heap.origin().addr();
        Fault::unless(pages == self.count, "the map knows every page", origin)?;
        let mut empty = 0;
        let mut next = self.empty;
        while next != NIL && empty <= self.count as usize {
            let header = self.header(next);
            let at = self.base(next).addr().get();
            let whole = header.free_count == self.class(header.class).capacity;
            Fault::unless(whole, "a page on S2 has all its blocks free", at)?;
            empty += 1;
            next = header.next;
        }
        Fault::unless(next == NIL, "S2 ends", origin)?;
        Ok(empty)
    }

    fn count_free(&self, page: u32) -> u32 {
        let capacity = self.class(self.header(page).class).capacity;
        let mut free = 0;
        for from in (0..capacity).step_by(WINDOW) {
            let window = self.free_window(page, from);
            for block in from..capacity.min(from + WINDOW as u32) {
                let offset = (block - from) as usize;
                free += (window[offset / 64] >> (offset % 64) & 1) as u32;
            }
        }
        free
    }

    fn free_window(&self, page: u32, from: u32) -> [u64; WINDOW / 64] {
        let mut window = [0; WINDOW / 64];
        let header = self.header(page);
        let size = self.class(header.class).size;
        F::mark_free(header, self.words(page), self.base(page).as_ptr(), size, from, &mut window);
        window
    }
}
