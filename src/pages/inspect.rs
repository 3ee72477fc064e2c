//! Walks the heap as spans, and checks its invariants.

use core::ptr::NonNull;

use super::below::Below;
use super::engine::{PageEngine, Placement};
use super::headers::{AT_ONCE, Free, Headers};
use crate::error::Fault;
use crate::strategy::{Span, SpanKind};
use crate::words::bits;

/// Bits of a word.
const WORD: u32 = u64::BITS;

impl<P: Placement, B: Below> PageEngine<P, B> {
    /// Calls `visit` for every span in address order.
    pub(super) fn walk_pages(&self, visit: &mut dyn FnMut(Span)) {
        self.pages.below.walk(&mut |span| {
            let is_block = span.kind == SpanKind::Block;
            match is_block.then(|| self.pages.headers.at(span.start)).flatten() {
                Some(page) => self.walk_page(page, span, visit),
                None => visit(span),
            }
        });
    }

    /// Visits the blocks of a page; `whole` is the span of its memory.
    fn walk_page(&self, page: Page<P>, whole: Span, visit: &mut dyn FnMut(Span)) {
        let class = self.pages.class_of_page(page);
        if self.count_free(page) == class.capacity {
            return visit(Span { kind: SpanKind::Free, ..whole });
        }
        let len = class.size as usize;
        self.for_each_block(page, |block, free| {
            let kind = if free { P::UNUSED } else { SpanKind::Block };
            visit(Span { start: whole.start + block as usize * len, len, kind });
        });
        let used = class.capacity as usize * len;
        if used < whole.len {
            let (start, len) = (whole.start + used, whole.len - used);
            visit(Span { start, len, kind: SpanKind::Slack });
        }
    }

    /// Returns whether a block in use of a page starts at an address in it, and holds this many
    /// bytes.
    pub(super) fn is_in_use(&self, page: Page<P>, address: NonNull<u8>, bytes: usize) -> bool {
        bytes <= self.pages.class_of_page(page).size as usize
            && self.pages.block_at(page, address).is_some_and(|block| !self.is_free(page, block))
    }

    /// Returns whether a block of a page is free.
    fn is_free(&self, page: Page<P>, block: u32) -> bool {
        let headers = &self.pages.headers;
        let withheld = self.placement.withheld(headers.class(page), page);
        withheld.is_some_and(|(first, blocks)| {
            block.checked_sub(first).is_some_and(|bit| bit < WORD && blocks >> bit & 1 == 1)
        }) || headers.is_free(page, self.pages.class_of_page(page).size, block)
    }

    /// Counts the free blocks of a page.
    fn count_free(&self, page: Page<P>) -> u32 {
        let mut count = 0;
        self.for_each_block(page, |_, free| count += u32::from(free));
        count
    }

    /// Calls `visit` for every block of a page, with its number and whether it is free.
    fn for_each_block(&self, page: Page<P>, mut visit: impl FnMut(u32, bool)) {
        let capacity = self.pages.class_of_page(page).capacity;
        for from in (0..capacity).step_by(AT_ONCE as usize) {
            let free = self.free_blocks(page, from);
            for block in from..capacity.min(from + AT_ONCE) {
                visit(block, bits::get(&free, (block - from) as usize));
            }
        }
    }

    /// Returns the free blocks of a page among those from `from` on, including those withheld from
    /// its header.
    fn free_blocks(&self, page: Page<P>, from: u32) -> Free {
        let headers = &self.pages.headers;
        let mut free = headers.free_blocks(page, self.pages.class_of_page(page).size, from);
        if let Some((first, blocks)) = self.placement.withheld(headers.class(page), page)
            && (from..from + AT_ONCE).contains(&first)
        {
            free[((first - from) / WORD) as usize] |= blocks;
        }
        free
    }

    /// Checks the invariants of the heap below, of every page and of the placement. O(n).
    pub(super) fn audit_pages(&self) -> Result<(), Fault> {
        let pages = &self.pages;
        pages.below.audit()?;
        let (mut count, mut fault) = (0, Ok(()));
        pages.headers.for_each(&mut |page| {
            count += 1;
            if fault.is_ok() {
                fault = self.audit_page(page);
            }
        });
        fault?;
        let origin = pages.below.origin();
        Fault::unless(count == pages.count(), "the pages are counted", origin)?;
        let mut empty = 0;
        let mut next = pages.empty;
        while let Some(page) = next {
            let at = pages.headers.base(page).addr();
            let whole = self.count_free(page) == pages.class_of_page(page).capacity;
            Fault::unless(whole, "a page on S2 has all its blocks free", at)?;
            empty += 1;
            Fault::unless(empty <= count, "S2 ends", at)?;
            next = pages.headers.next(page);
        }
        let kept = self.placement.audit(pages)?;
        Fault::unless(kept + empty == count, "every page is kept in one place", origin)
    }

    /// Checks the invariants of one page.
    fn audit_page(&self, page: Page<P>) -> Result<(), Fault> {
        let headers = &self.pages.headers;
        let at = headers.base(page).addr();
        Fault::unless(headers.at(at) == Some(page), "a page lies in its frame", at)?;
        let known = (headers.class(page) as usize) < self.pages.classes.count();
        Fault::unless(known, "a page belongs to a class", at)?;
        let whole = self.pages.below.holds_page(at, self.pages.page_size());
        Fault::unless(whole, "a page is a block of p bytes in use", at)?;
        let class = self.pages.class_of_page(page);
        headers
            .audit(page, class.capacity)
            .map_err(|invariant| Fault { invariant, address: at })?;
        let withheld = self.placement.withheld(headers.class(page), page);
        let counted = headers.free_count(page) + withheld.map_or(0, |(_, b)| b.count_ones());
        Fault::unless(counted == self.count_free(page), "φ counts the free blocks of its page", at)
    }
}

/// A page of a placement's headers.
type Page<P> = <<P as Placement>::Headers as Headers>::Page;

#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests;
