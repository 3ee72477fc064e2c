//! The heap's free memory, met in steps: what returns memory to the system walks the heap a little at
//! a time, and lets others at it in between. Where a walk goes on is kept [below](crate::pages::below::tagged).

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

/// Bytes at the two ends of free memory of the heap below that hold links and a size.
const LINKS: usize = 16;
const SIZE: usize = 8;

/// The kind of free memory that a walk meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreeKind {
    /// Of a free block below the pages, without what the heap keeps at its ends.
    Block,
    /// Free blocks side by side in a page.
    InPage,
}

impl<S: Source, M: Meter> Heap<PageEngine<Windowed, Tagged>, S, M> {
    /// Goes on where the last call stopped, in address order, over at most `blocks` blocks and pages.
    /// Calls `visit`, with the source, for each stretch of free memory there, without bookkeeping and of at least `least`
    /// bytes, and with its kind. Where `visit` returns `false` the walk stops, and the next call begins
    /// with the same block or page. Returns whether there is more; if not, the next call begins at the
    /// beginning. O(blocks met and runs of free blocks in them).
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

    /// Calls `visit` for free memory below the pages in pieces of about `least` bytes or more. The heap
    /// keeps up to 16 bytes at both ends of each piece. O(pieces).
    pub(crate) fn for_each_large_free(&self, least: usize, visit: &mut dyn FnMut(Span)) {
        let Some(cells) = Large::cells_for(least) else { return };
        let heap = &self.engine.pages.below.heap;
        heap.for_each_free(cells, |free| {
            let start = heap.contents(free.start).addr();
            visit(Span { start, len: Large::bytes(free.len), kind: SpanKind::Free });
        });
    }

    /// Has the next [`walk_free`](Self::walk_free) begin at the beginning.
    pub(crate) fn walk_free_again(&mut self) {
        self.engine.pages.below.forget_mark();
    }
}

impl Windowed {
    /// Visits the runs of free blocks of a page; whether to go on.
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
            // Behind the last block there is nothing but the tag at the page's end.
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
mod tests {
    use core::alloc::Layout;
    use core::mem::MaybeUninit;
    use core::ops::Range;
    use core::ptr::NonNull;

    use crate::pages::PageHeap;
    use crate::source::Region;
    use crate::strategy::{SpanKind, Strategy};

    const LEAST: usize = 256;

    /// Requests before the walks, and steps among requests.
    const CHANGES: usize = if cfg!(miri) { 200 } else { 4000 };

    type Live = Vec<(NonNull<u8>, Layout)>;

    /// A heap with blocks of many sizes, those in use, and the memory, which must outlive both.
    fn used(
        random: &mut impl FnMut(usize) -> usize,
    ) -> (Vec<MaybeUninit<u8>>, PageHeap<Region>, Live) {
        let mut memory = Box::<[u8]>::new_uninit_slice(4 << 20).into_vec();
        // SAFETY: nobody else uses the memory, and the callers drop it last.
        let region = unsafe { Region::new(memory.as_mut_ptr().cast(), memory.len()) };
        let mut heap = PageHeap::new(PageHeap::<Region>::CONFIG, region, ());
        let mut live = Live::new();
        for _ in 0..CHANGES {
            change(&mut heap, &mut live, random);
        }
        (memory, heap, live)
    }

    fn change(
        heap: &mut PageHeap<Region>,
        live: &mut Live,
        random: &mut impl FnMut(usize) -> usize,
    ) {
        if !live.is_empty() && random(5) < 2 {
            let (block, layout) = live.swap_remove(random(live.len()));
            // SAFETY: the block is in use.
            unsafe { heap.deallocate(block, layout) };
        } else if !live.is_empty() && random(8) == 0 {
            let at = random(live.len());
            let (block, layout) = live[at];
            let new_size = 1 + random(9000);
            // SAFETY: the block is in use, and known by what is returned from then on.
            if let Ok(block) = unsafe { heap.reallocate(block, layout, new_size) } {
                let layout = Layout::from_size_align(new_size, 8).expect("a valid layout");
                live[at] = (block.cast(), layout);
            }
        } else {
            let size = 1 + if random(3) == 0 { random(12_000) } else { random(300) };
            let layout = Layout::from_size_align(size, 8).expect("a valid layout");
            if let Ok(block) = heap.allocate(layout) {
                live.push((block.cast(), layout));
            }
        }
    }

    fn random() -> impl FnMut(usize) -> usize {
        let mut state = 88_172_645_463_325_252_u64;
        move |bound| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            ((u128::from(state) * bound as u128) >> 64) as usize
        }
    }

    /// All free memory is met that the walk knows of, but for links and sizes.
    #[test]
    fn steps_meet_what_the_walk_does() {
        let mut random = random();
        let (_memory, mut heap, _live) = used(&mut random);
        let mut met: Vec<Range<usize>> = Vec::new();
        while heap.walk_free(LEAST, 3, &mut |_, free, _| {
            let goes_on = random(10) > 0;
            // What was refused, and what lies before it in its page, is met again.
            if goes_on && met.last().is_none_or(|last| last.end <= free.start) {
                met.push(free);
            }
            goes_on
        }) {}
        assert!(met.is_sorted_by(|a, b| a.end <= b.start));
        let mut spans: Vec<Range<usize>> = Vec::new();
        heap.walk(&mut |span| match (span.kind, spans.last_mut()) {
            (SpanKind::Free, Some(last)) if last.end == span.start => last.end = span.end(),
            (SpanKind::Free, _) => spans.push(span.start..span.end()),
            _ => {}
        });
        for span in spans.iter().filter(|span| span.len() >= LEAST + 24) {
            let found = met.iter().any(|m| m.start <= span.start + 16 && m.end + 8 >= span.end);
            assert!(found, "{span:?} is not met");
        }
    }

    /// While blocks come and go, nothing is met that is in use, and every pass ends.
    #[test]
    fn steps_never_meet_blocks_in_use() {
        let mut random = random();
        let (_memory, mut heap, mut live) = used(&mut random);
        let mut passes = 0;
        for _ in 0..CHANGES {
            let more = heap.walk_free(LEAST, 1 + random(8), &mut |_, free, _| {
                let apart = |&(block, layout): &(NonNull<u8>, Layout)| {
                    let start = block.addr().get();
                    free.end <= start || start + layout.size() <= free.start
                };
                assert!(live.iter().all(apart), "{free:?} is in use");
                // SAFETY: the memory is free, and holds nothing.
                unsafe {
                    let origin = heap_origin(&live);
                    origin.with_addr(free.start).write_bytes(0xee, free.len());
                }
                random(4) > 0
            });
            passes += usize::from(!more);
            for _ in 0..random(6) {
                change(&mut heap, &mut live, &mut random);
            }
        }
        heap.audit().expect("every invariant holds");
        assert!(passes > CHANGES / 300, "{passes} passes");
    }

    /// A pointer that may reach all of the heap's memory.
    fn heap_origin(live: &Live) -> *mut u8 {
        live[0].0.as_ptr()
    }
}
