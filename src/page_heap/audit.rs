//! The heap as spans, and its invariants.

use super::page::{NO_LIST, Page, WORD, usable};
use super::pages::Pages;
use super::supply::LISTS;
use crate::error::Fault;
use crate::strategy::{Span, SpanKind};

impl Pages {
    /// Calls `visit` for every span in address order.
    pub(super) fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.heap.walk_blocks(&mut |span| {
            let page = (span.kind == SpanKind::Block).then(|| self.map.get(span.start)).flatten();
            match page {
                Some(page) => self.walk_page(page, visit),
                None => visit(span),
            }
        });
    }

    fn walk_page(&self, page: Page, visit: &mut dyn FnMut(Span)) {
        let class = self.class(page);
        let (start, size) = (page.base.get().addr(), class.size as usize);
        let bytes = usable(self.page_size());
        if self.count_free(page) == class.capacity {
            visit(Span { start, len: bytes, kind: SpanKind::Free });
            return;
        }
        for block in 0..class.capacity {
            let kind = if self.is_free(page, block) { SpanKind::Free } else { SpanKind::Block };
            visit(Span { start: start + block as usize * size, len: size, kind });
        }
        let used = class.capacity as usize * size;
        if used < bytes {
            visit(Span { start: start + used, len: bytes - used, kind: SpanKind::Slack });
        }
    }

    /// Free blocks of a page, those in its class's window among them.
    fn count_free(&self, page: Page) -> u32 {
        (0..self.class(page).capacity).filter(|&block| self.is_free(page, block)).count() as u32
    }

    /// Checks the invariants of the heap below, of every page and of every class. O(n).
    pub(super) fn audit(&self) -> Result<(), Fault> {
        self.heap.audit_blocks()?;
        let (mut pages, mut waiting) = (0usize, 0usize);
        for page in self.map.pages() {
            let at = page.base.get().addr();
            Fault::unless(self.map.get(at) == Some(page), "a page lies in its slot", at)?;
            let known = (page.class() as usize) < self.classes.count();
            Fault::unless(known, "a page belongs to a class", at)?;
            let in_use = self.heap.block_at(at);
            let whole = Self::page_cells(self.page_size()) == in_use.len;
            Fault::unless(whole, "a page is a block of p bytes in use", at)?;
            self.audit_page(page)?;
            pages += 1;
            let supply = self.supplies.get(page.class());
            let waits = page.list() == NO_LIST
                && supply.page != Some(page)
                && page.free() < supply.capacity;
            waiting += usize::from(waits);
        }
        let origin = self.heap.origin();
        Fault::unless(pages == self.count(), "the pages are counted", origin)?;
        let mut kept = 0;
        for supply in self.supplies.all() {
            kept += usize::from(supply.page.is_some());
            let mut wrong = None;
            supply.for_each(|page, list| {
                kept += 1;
                let belongs = page.list() == list
                    && page.trigger() == supply.capacity
                    && LISTS * page.free() / supply.capacity >= list;
                if !belongs {
                    wrong = Some(page.base.get().addr());
                }
            });
            if let Some(address) = wrong {
                return Err(Fault { invariant: "φ only rises on a list", address });
            }
        }
        let mut spare = self.spare;
        while let Some(page) = spare {
            let at = page.base.get().addr();
            let free = page.free() == self.class(page).capacity;
            Fault::unless(free, "a spare page has all its blocks free", at)?;
            kept += 1;
            Fault::unless(kept <= pages, "lists end", at)?;
            spare = page.next.get();
        }
        Fault::unless(kept + waiting == pages, "every page is kept in one place", origin)
    }

    fn audit_page(&self, page: Page) -> Result<(), Fault> {
        let at = page.base.get().addr();
        let class = self.class(page);
        let supply = self.supplies.get(page.class());
        let current = supply.page == Some(page);
        let mut free = 0;
        for word in 0..class.capacity.div_ceil(WORD) {
            let mut bits = page.word(word).get();
            Fault::unless(
                bits == 0 || page.summary.get() >> (word % WORD) & 1 == 1,
                "the summary knows every word with free blocks",
                at,
            )?;
            free += bits.count_ones();
            if current && supply.word == word {
                let apart = bits & supply.window == 0;
                Fault::unless(apart, "a block is in the window or in its page's bits", at)?;
                bits |= supply.window;
            }
            let rest = class.capacity - word * WORD;
            let none_beyond = rest >= WORD || bits >> rest == 0;
            Fault::unless(none_beyond, "only a page's blocks have bits", at)?;
        }
        Fault::unless(free == page.free(), "φ counts the free blocks of its page", at)?;
        let waits =
            current || page.list() != NO_LIST || free == class.capacity || free < supply.tolerance;
        Fault::unless(waits, "a page with φ ≥ φ0 is on a list", at)
    }

    fn page_cells(page_size: usize) -> u32 {
        (page_size / crate::tags::CELL) as u32
    }
}
