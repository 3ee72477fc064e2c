//! PAGEWISE's placement: LEAST-FREE, lazily and by quarters of c, a word of free blocks at a time.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::supply::Supplies;
use crate::engine::{Backing, Heap, Served};
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::pages::below::Below;
use crate::pages::class::{Class, Classes};
use crate::pages::engine::{PageEngine, Placement};
use crate::pages::headers::Headers;
use crate::pages::headers::linked::Linked;
use crate::pages::headers::page::{NO_LIST, Page, WORD};
use crate::pages::store::Pages;
use crate::source::Source;
use crate::strategy::SpanKind;

/// The supply of each class. Invariant: a page is current in its class, or on one of its lists, or
/// waits for φ0 free blocks, unless it is on S2.
#[derive(Debug)]
pub struct Windowed {
    /// For each class, its pages and the blocks that it gives out next.
    pub(in crate::pages) supplies: Supplies,
    /// Whether a page whose blocks are all free stays with its class.
    pub(in crate::pages) pins: bool,
}

impl Windowed {
    /// Takes a block of a class, aligned to `align`, from a new window if needed. Returns it with
    /// its length; `None` if no page can be had, the class is too rare for one, or no block of the
    /// window is aligned.
    fn take_aligned<B: Below, S: Source, M: Meter>(
        &mut self,
        class: u32,
        align: usize,
        pages: &mut Pages<Linked, B>,
        backing: &mut Backing<S, M>,
    ) -> Option<(NonNull<u8>, usize)> {
        if !self.fill_window_again(class, &backing.meter) {
            if !self.supplies.get_mut(class).deserves_page() {
                return None;
            }
            self.fill_window(class, pages, backing).ok()?;
        }
        let supply = self.supplies.get_mut(class);
        Some((supply.take_aligned(align)?, supply.size as usize))
    }

    /// Like [`take_aligned`](Self::take_aligned), from another word of the current page.
    fn turn_to_aligned(&mut self, class: u32, align: usize) -> Option<(NonNull<u8>, usize)> {
        let supply = self.supplies.get_mut(class);
        if !supply.turn_to_aligned(align) {
            return None;
        }
        Some((supply.take_aligned(align)?, supply.size as usize))
    }

    /// Like [`turn_to_aligned`](Self::turn_to_aligned), from any page of the class.
    #[cold]
    fn turn_to_page<B: Below, M: Meter>(
        &mut self,
        class: u32,
        align: usize,
        pages: &mut Pages<Linked, B>,
        meter: &M,
    ) -> Option<(NonNull<u8>, usize)> {
        self.close(class, pages, meter);
        let supply = self.supplies.get_mut(class);
        let page = supply.choose_aligned(align)?;
        supply.make_current(page);
        self.turn_to_aligned(class, align)
    }

    /// Makes no page of a class current. The one that was waits, is on a list, or is released.
    fn close<B: Below, M: Meter>(&mut self, class: u32, pages: &mut Pages<Linked, B>, meter: &M) {
        let supply = self.supplies.get_mut(class);
        if let Some(page) = supply.close() {
            page.set_trigger(supply.tolerance);
            if page.free() >= page.trigger() {
                self.triggered(page, pages, meter);
            }
        }
    }

    /// Ensures that a class's window has a block, from the class's pages or from a new page.
    #[inline]
    pub(in crate::pages) fn fill_window<B: Below, S: Source, M: Meter>(
        &mut self,
        class: u32,
        pages: &mut Pages<Linked, B>,
        backing: &mut Backing<S, M>,
    ) -> Result<(), AllocError> {
        if !self.fill_window_again(class, &backing.meter) {
            let page = self.take_or_give_back(pages, backing, |_, pages, backing| {
                pages.acquire(class, backing)
            })?;
            self.supplies.get_mut(class).begin(page);
        }
        Ok(())
    }

    /// Fills a class's window, unless it has a block, from its current page or from the page of its
    /// lists with the fewest free blocks. Returns whether it has a block now.
    #[inline]
    fn fill_window_again<M: Meter>(&mut self, class: u32, meter: &M) -> bool {
        let supply = self.supplies.get_mut(class);
        if supply.window != 0 || supply.refill(meter) {
            return true;
        }
        let Some(page) = supply.choose(meter) else { return false };
        supply.make_current(page);
        supply.refill(meter)
    }

    /// Serves a small request whose class has no block and gets no page: from the heap below, or
    /// from a larger class.
    fn make_do<B: Below, S: Source, M: Meter>(
        &mut self,
        class: u32,
        layout: Layout,
        pages: &mut Pages<Linked, B>,
        backing: &mut Backing<S, M>,
    ) -> Result<Served, AllocError> {
        let found = pages.below.take(layout, &backing.meter);
        let found = found.or_else(|| self.take_more(layout, pages, backing).ok());
        if let Some((block, bytes)) = found {
            return Ok(Served::whole(block, bytes, Part::Fit));
        }
        for class in class..pages.classes.count() as u32 {
            if !self.fill_window_again(class, &backing.meter) {
                continue;
            }
            let align = layout.align();
            let taken = self.take_aligned(class, align, pages, backing);
            let taken = taken.or_else(|| self.turn_to_aligned(class, align));
            if let Some((block, bytes)) =
                taken.or_else(|| self.turn_to_page(class, align, pages, &backing.meter))
            {
                return Ok(Served::whole(block, bytes, Part::Pages));
            }
        }
        Err(AllocError::Exhausted)
    }

    /// Called when a page has as many free blocks as it waited for: it becomes eligible, or is
    /// wholly free.
    #[cold]
    #[inline(never)]
    pub(in crate::pages) fn triggered<B: Below, M: Meter>(
        &mut self,
        page: Page,
        pages: &mut Pages<Linked, B>,
        meter: &M,
    ) {
        let supply = self.supplies.get_mut(page.class());
        if page.free() < supply.capacity {
            supply.put(page, meter);
            return;
        }
        if self.pins {
            if page.list() == NO_LIST {
                supply.put(page, meter);
            }
            return;
        }
        if page.list() != NO_LIST {
            supply.remove(page);
        }
        pages.release(page, meter);
    }

    /// Checks what the invariant says of one page.
    fn audit_page(&self, page: Page) -> Result<(), Fault> {
        let at = page.base.get().addr();
        let supply = self.supplies.get(page.class());
        let current = supply.page == Some(page);
        if current {
            let apart = page.word(supply.word).get() & supply.window == 0;
            Fault::unless(apart, "a block is in the window or in its page's bits", at)?;
        }
        let whole = page.free() == supply.capacity;
        let waits = current || page.list() != NO_LIST || whole || page.free() < supply.tolerance;
        Fault::unless(waits, "a page with φ ≥ φ0 is on a list", at)
    }
}

impl<B: Below, S: Source, M: Meter> Heap<PageEngine<Windowed, B>, S, M> {
    /// Serves a layout of a class whose window has no block for it.
    #[inline(never)]
    fn refill(&mut self, class: u32, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let PageEngine { placement, pages, .. } = &mut self.engine;
        let supply = placement.supplies.get_mut(class);
        let again = if supply.window != 0 {
            // No block of the window is aligned as the request demands.
            if !supply.looked_in_vain() && supply.turn_to_aligned(layout.align()) {
                supply.take_aligned(layout.align()).map(|block| (block, supply.size))
            } else {
                let suited =
                    pages.classes.of(layout).map(|class| placement.supplies.get_mut(class));
                suited.and_then(|supply| Some((supply.take_aligned(layout.align())?, supply.size)))
            }
        } else if supply.refill(&self.backing.meter) {
            // Most often the current page has gained blocks meanwhile.
            supply.take_aligned(layout.align()).map(|block| (block, supply.size))
        } else {
            None
        };
        let served = match again {
            Some((block, size)) => Served::whole(block, size as usize, Part::Pages),
            None => placement.take(class, layout, pages, &mut self.backing)?,
        };
        Ok(self.backing.served(layout, served))
    }

    /// Serves a layout that no class serves.
    #[inline(never)]
    fn serve_below(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let plain = self.engine.pages.below.take_plain(layout, &self.backing.meter);
        let Some((block, bytes)) = plain else { return self.serve_more(layout) };
        Ok(self.backing.served(layout, Served::whole(block, bytes, Part::Fit)))
    }

    /// Serves a large or aligned layout that no class serves. (A separate function, so that the
    /// callers keep their registers.)
    #[inline(never)]
    fn serve_more(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        match self.engine.pages.below.take_close(layout, &self.backing.meter) {
            Some((block, bytes)) => {
                Ok(self.backing.served(layout, Served::whole(block, bytes, Part::Fit)))
            }
            None => self.serve_rest(layout),
        }
    }

    /// Serves a layout that needs a search, a page or memory.
    #[cold]
    #[inline(never)]
    fn serve_rest(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.serve(layout)
    }
}

impl Placement for Windowed {
    type Headers = Linked;
    const INITIAL: Self = Self { supplies: Supplies::new(), pins: false };
    const LEAST_BLOCK: usize = 1;
    const UNUSED: SpanKind = SpanKind::Free;

    fn open<S: Source>(
        &mut self,
        _seed: u64,
        classes: &Classes,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.supplies.open(classes, source)
    }

    /// Serves small requests from their class's window.
    #[inline(always)]
    fn allocate<B: Below, S: Source, M: Meter>(
        heap: &mut Heap<PageEngine<Self, B>, S, M>,
        layout: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let PageEngine { placement, pages, .. } = &mut heap.engine;
        let Some(class) = Self::class_for(pages, layout) else { return heap.serve_below(layout) };
        let supply = placement.supplies.get_mut(class);
        let Some(block) = supply.take_aligned(layout.align()) else {
            return heap.refill(class, layout);
        };
        let served = Served::whole(block, supply.size as usize, Part::Pages);
        Ok(heap.backing.served(layout, served))
    }

    /// Returns the smallest class that holds a layout, if some of its blocks are aligned as
    /// requested.
    #[inline(always)]
    fn class_for<B: Below>(pages: &Pages<Linked, B>, layout: Layout) -> Option<u32> {
        let class = pages.classes.of_size(layout.size())?;
        (layout.align() <= pages.page_size()).then_some(class)
    }

    /// Also accepts the smallest class whose blocks are all aligned, which serves if no block of
    /// the smallest class is at hand.
    #[inline(always)]
    fn suits<B: Below>(pages: &Pages<Linked, B>, class: u32, layout: Layout) -> bool {
        if Self::class_for(pages, layout) == Some(class) {
            return true;
        }
        let align = layout.align();
        align > pages.classes.unit() && {
            let size = pages.class(class).size as usize;
            size & (align - 1) == 0 && size.wrapping_sub(layout.size()) < align
        }
    }

    #[inline(always)]
    fn take<B: Below, S: Source, M: Meter>(
        &mut self,
        class: u32,
        layout: Layout,
        pages: &mut Pages<Linked, B>,
        backing: &mut Backing<S, M>,
    ) -> Result<Served, AllocError> {
        let align = layout.align();
        let mut found = self.take_aligned(class, align, pages, backing);
        if found.is_none() && align > pages.classes.unit() {
            // No block of the window happens to be aligned: try one of the page, then one whose
            // size is a multiple of the alignment.
            if !self.supplies.get(class).looked_in_vain() {
                found = self.turn_to_aligned(class, align);
            }
            if found.is_none()
                && let Some(suited) = pages.classes.of(layout)
                && suited != class
            {
                found = self.take_aligned(suited, align, pages, backing);
            }
        }
        match found {
            Some((block, bytes)) => Ok(Served::whole(block, bytes, Part::Pages)),
            None => self.make_do(class, layout, pages, backing),
        }
    }

    /// (The block is counted first, so that the call at the end is a tail call.)
    #[inline(always)]
    fn free<B: Below, S: Source, M: Meter>(
        heap: &mut Heap<PageEngine<Self, B>, S, M>,
        page: Page,
        block: NonNull<u8>,
        requested: usize,
    ) {
        let Heap { engine: PageEngine { placement, pages, .. }, backing } = heap;
        backing.meter.touch(page.header());
        backing.tally.freed(requested, page.size.get() as usize);
        let offset = block.addr().get() & (pages.page_size() - 1);
        page.set_free(Class::index_by(page.reciprocal.get(), offset));
        if page.free() >= page.trigger() {
            placement.triggered(page, pages, &backing.meter);
        }
        backing.meter.served(Part::Pages);
    }

    /// Memory is scarce, so each class must be requested often again before it gets a page of its
    /// own. Otherwise half-filled pages would be in the way when a region is emptied and filled
    /// again.
    fn retire<B: Below, M: Meter>(&mut self, pages: &mut Pages<Linked, B>, meter: &M) {
        for class in 0..pages.classes.count() as u32 {
            self.supplies.get_mut(class).deserves_no_page();
            self.close(class, pages, meter);
        }
    }

    fn withheld(&self, class: u32, page: Page) -> Option<(u32, u64)> {
        let supply = self.supplies.get(class);
        (supply.page == Some(page)).then_some((supply.word * WORD, supply.window))
    }

    fn audit<B: Below>(&self, pages: &Pages<Linked, B>) -> Result<usize, Fault> {
        let (mut kept, mut fault) = (0, Ok(()));
        pages.headers.for_each(&mut |page| {
            let supply = self.supplies.get(page.class());
            let waits = page.list() == NO_LIST
                && supply.page != Some(page)
                && page.free() < supply.capacity;
            kept += usize::from(waits);
            if fault.is_ok() {
                fault = self.audit_page(page);
            }
        });
        fault?;
        for supply in self.supplies.all() {
            kept += usize::from(supply.page.is_some());
            let mut wrong = None;
            supply.for_each(|page, list| {
                kept += 1;
                let belongs = page.list() == list
                    && page.trigger() == supply.capacity
                    && supply.list_for(page) >= list;
                if !belongs {
                    wrong = Some(page.base.get().addr());
                }
            });
            if let Some(address) = wrong {
                return Err(Fault { invariant: "φ only rises on a list", address });
            }
        }
        Ok(kept)
    }
}

#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::pages::{Config, PageHeap};
    use crate::sizemap::SizeMap;
    use crate::source::Reserved;

    /// If every multiple of the unit is a class, blocks of two classes suit: the smallest, and the
    /// smallest whose blocks are all aligned.
    #[test]
    fn two_classes_suit_a_layout() {
        let config = Config::arena().page_size(4096).ffcrossover(512).sizemap(SizeMap::Linear);
        let mut heap = PageHeap::new(config, Reserved::new(1 << 20), ());
        heap.open().expect("there is memory");
        let (pages, classes) = (&heap.engine.pages, heap.classes());
        for size in (1..=512).step_by(if cfg!(miri) { 73 } else { 1 }) {
            for align in [1, 8, 16, 32, 64, 128] {
                let layout = Layout::from_size_align(size, align).expect("a valid layout");
                let least = [pages.classes.of_size(size), pages.classes.of(layout)];
                for class in 0..classes {
                    let suits = Windowed::suits(pages, class, layout);
                    assert_eq!(suits, least.contains(&Some(class)), "{class} and {layout:?}");
                }
            }
        }
    }
}
