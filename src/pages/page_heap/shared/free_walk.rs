//! Walks the heap's free memory in steps, so that other threads can use the heap while free memory
//! is returned to the system. The place where a walk continues is kept
//! [below](crate::pages::below::tagged).

use core::ops::Range;

use crate::engine::Heap;
use crate::meter::Meter;
use crate::pages::below::Below;
use crate::pages::below::tagged::{Large, Tagged};
use crate::pages::engine::PageEngine;
use crate::pages::headers::Headers;
use crate::pages::headers::page::{Page, WORD};
use crate::pages::page_heap::windowed::Windowed;
use crate::source::Source;
use crate::strategy::{Span, SpanKind};
use crate::tags::CELL;

/// Bytes at the start of a free block of the heap below that hold its links.
const LINKS: usize = 16;

/// Bytes at the end of such a block that hold its size.
const SIZE: usize = 8;

/// The kind of free memory that a walk meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeKind {
    /// A free block below the pages, without the heap's data at its ends.
    Block,
    /// Free blocks side by side in a page.
    InPage,
}

impl<S: Source, M: Meter> Heap<PageEngine<Windowed, Tagged>, S, M> {
    /// Continues where the last call stopped, in address order, over at most `blocks` blocks and
    /// pages. Calls `visit`, with the source, for each stretch of free memory of at least `least`
    /// bytes, without bookkeeping, and with its kind. If `visit` returns `false` the walk stops,
    /// and the next call begins with the same block or page. Returns whether there is more; if not,
    /// the next call begins at the beginning.
    ///
    /// A page is left out if its free blocks have fewer than `least` bytes together, even though
    /// there may be free memory behind the last block. O(blocks met and runs of free blocks in
    /// them).
    pub(crate) fn walk_free(
        &mut self,
        least: usize,
        blocks: usize,
        visit: &mut dyn FnMut(&S, Range<usize>, FreeKind) -> bool,
    ) -> bool {
        let Self { engine: PageEngine { placement, pages, .. }, backing } = self;
        let source = backing.source.get();
        let visit = &mut |free, kind| visit(source, free, kind);
        let (headers, page_size) = (&pages.headers, pages.page_size());
        pages.below.step(blocks, |heap, block| {
            let start = heap.contents(block.start).addr();
            if heap.is_free(block) {
                let inner = start + LINKS..(start + block.len as usize * CELL).saturating_sub(SIZE);
                return inner.end < inner.start + least || visit(inner, FreeKind::Block);
            }
            let is_page = block.len as usize * CELL == page_size;
            match headers.at(start).filter(|page| is_page && page.base.get().addr() == start) {
                Some(page) => placement.walk_page(page, Tagged::usable(page_size), least, visit),
                None => true,
            }
        })
    }

    /// Returns the free memory below the pages in pieces of about `least` bytes or more. Up to 16
    /// bytes at both ends of each piece are the heap's. O(pieces).
    pub(crate) fn large_free_blocks(&self, least: usize) -> impl Iterator<Item = Span> {
        let heap = &self.engine.pages.below.heap;
        let blocks = Large::cells_for(least).map(|cells| heap.free_blocks(cells));
        blocks.into_iter().flatten().map(|free| {
            let start = heap.contents(free.start).addr();
            Span { start, len: Large::bytes(free.len), kind: SpanKind::Free }
        })
    }

    /// Makes the next [`walk_free`](Self::walk_free) begin at the beginning.
    pub(crate) fn walk_free_again(&mut self) {
        self.engine.pages.below.forget_mark();
    }
}

impl Windowed {
    /// Visits the runs of free blocks of a page. Returns whether to go on.
    fn walk_page(
        &self,
        page: Page,
        usable: usize,
        least: usize,
        visit: &mut dyn FnMut(Range<usize>, FreeKind) -> bool,
    ) -> bool {
        let supply = self.supplies.get(page.class());
        let (capacity, size) = (supply.capacity, page.size.get() as usize);
        let current = supply.page == Some(page);
        let window = if current { supply.window } else { 0 };
        if (page.free() + window.count_ones()) as usize * size < least {
            return true;
        }
        let base = page.base.get().addr();
        let run = |first: u32, end: u32| {
            // Only the tag at the page's end follows the last block.
            let end = if end == capacity { usable } else { end as usize * size };
            base + first as usize * size..base + end
        };
        let mut first = None;
        for index in 0..capacity.div_ceil(WORD) {
            let mut bits = page.word(index).get();
            if current && supply.word == index {
                bits |= window;
            }
            let mut at = 0;
            while at < WORD {
                let rest = bits >> at;
                let (free, len) = match rest & 1 {
                    1 => (true, rest.trailing_ones()),
                    _ => (false, rest.trailing_zeros()),
                };
                let block = index * WORD + at;
                match (free, first) {
                    (true, None) => first = Some(block),
                    (false, Some(start)) => {
                        first = None;
                        let run = run(start, block);
                        if run.len() >= least && !visit(run, FreeKind::InPage) {
                            return false;
                        }
                    }
                    _ => {}
                }
                at += len;
            }
        }
        match first {
            Some(start) if run(start, capacity).len() >= least => {
                visit(run(start, capacity), FreeKind::InPage)
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests;
