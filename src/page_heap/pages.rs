//! How pages come and go: from the heap below to a class, to another class, and back.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::map::Map;
use super::page::{Headers, MOST_BLOCKS, NO_LIST, Page, usable};
use super::supply::Supplies;
use crate::engine::{Backing, Served};
use crate::error::AllocError;
use crate::fit::Good;
use crate::fit::heap::TagHeap;
use crate::meter::{Meter, Part};
use crate::paged::Config;
use crate::paged::class::{Class, Classes};
use crate::source::Source;
use crate::tags::{Block, CELL, NONE};

/// The heap below the pages.
pub(super) type Large = TagHeap<Good>;

/// Pages without blocks in use that are kept for the next class that needs one.
const SPARE: u32 = 4;

/// Pages over the heap below. Invariants:
/// - the map has exactly the pages, each a block of p bytes of the heap in use, aligned to p;
/// - a page is spare, or current in its class, or on a list of it, or waits for φ0 free blocks;
/// - `supplies` has an entry for each class, once opened.
#[derive(Debug)]
pub(super) struct Pages {
    pub(super) supplies: Supplies,
    pub(super) classes: Classes,
    /// The classes while there is no supply for each of them yet: nobody may ask for one meanwhile.
    made: Classes,
    pub(super) map: Map,
    page_size: usize,
    /// Bytes that no block of a page exceeds; 0 before there are classes.
    pub(super) largest: usize,
    opened: bool,
    /// Top of the stack of spare pages (S2), and its height.
    pub(super) spare: Option<Page>,
    spares: u32,
    /// Pages there are.
    count: usize,
    headers: Headers,
    /// Where a walk in steps goes on: a block's start, while blocks come and go; see `steps.rs`.
    pub(super) mark: u32,
    pub(super) heap: Large,
}

// SAFETY: all that the pointers lead to belongs to the heap, wherever it goes.
unsafe impl Send for Pages {}

impl Pages {
    pub(super) const fn new(page_size: usize) -> Self {
        Self {
            supplies: Supplies::new(),
            classes: Classes::new(),
            made: Classes::new(),
            map: Map::new(page_size),
            page_size,
            largest: 0,
            opened: false,
            spare: None,
            spares: 0,
            count: 0,
            headers: Headers::new(),
            mark: NONE,
            heap: Large::growing_by(page_size),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.opened
    }

    /// p, bytes.
    pub(super) fn page_size(&self) -> usize {
        self.page_size
    }

    /// Builds the size classes, unless they are built.
    pub(super) fn open<S: Source>(
        &mut self,
        config: &Config,
        source: &mut S,
    ) -> Result<(), AllocError> {
        if self.opened {
            return Ok(());
        }
        // Classes fit what a page has for blocks, not all of it.
        let config = Config { page_size: usable(config.page_size), ..*config };
        let least = config.page_size / MOST_BLOCKS as usize + 1;
        // What is dedicated on the way is kept for the next attempt.
        self.made.open(&config, least, source)?;
        self.supplies.open(&self.made, source)?;
        self.classes = self.made;
        self.largest = self.supplies.all().last().map_or(0, |supply| supply.size as usize);
        self.opened = true;
        Ok(())
    }

    /// Pages there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// What is known of a page's class.
    #[inline(always)]
    pub(super) fn class(&self, page: Page) -> &Class {
        self.classes.get(page.class())
    }

    /// The page this address lies in, if it lies in one.
    #[inline(always)]
    pub(super) fn page_at(&self, address: NonNull<u8>) -> Option<Page> {
        self.map.get(address.addr().get())
    }

    /// The least class that holds a layout, if its blocks, or some of them, are aligned as asked.
    #[inline(always)]
    pub(super) fn class_for(&self, layout: Layout) -> Option<u32> {
        let class = self.classes.of_size(layout.size())?;
        (layout.align() <= self.page_size).then_some(class)
    }

    /// Takes a block of a class, aligned to `align`, from its current page, if that has some and the
    /// window has none, and says how long it is.
    #[inline(always)]
    pub(super) fn take_again<M: Meter>(
        &mut self,
        class: u32,
        align: usize,
        meter: &M,
    ) -> Option<(NonNull<u8>, usize)> {
        let supply = self.supplies.get_mut(class);
        if supply.window != 0 || !supply.refill(meter) {
            return None;
        }
        let block = supply.take_aligned(align)?;
        Some((block, supply.size as usize))
    }

    /// Takes a block of a class, aligned to `align`, with a new window if need be, and says how
    /// long it is; `None` if no page is to be had, the class is too rare for one, or no block at
    /// hand is aligned.
    pub(super) fn take<S: Source, M: Meter>(
        &mut self,
        class: u32,
        align: usize,
        backing: &mut Backing<S, M>,
    ) -> Option<(NonNull<u8>, usize)> {
        if !self.fill_window_again(class, &backing.meter) {
            if !self.supplies.get_mut(class).deserves_page() {
                return None;
            }
            self.fill_window(class, backing).ok()?;
        }
        let supply = self.supplies.get_mut(class);
        let block = supply.take_aligned(align).or_else(|| supply.take_aligned_off_page(align))?;
        Some((block, supply.size as usize))
    }

    /// Sees to it that a class's window has a block: from the pages it has, or a new page.
    #[inline]
    pub(super) fn fill_window<S: Source, M: Meter>(
        &mut self,
        class: u32,
        backing: &mut Backing<S, M>,
    ) -> Result<(), AllocError> {
        if !self.fill_window_again(class, &backing.meter) {
            let page = self.acquire(class, backing)?;
            let supply = self.supplies.get_mut(class);
            supply.make_current(page);
            supply.refill(&backing.meter);
        }
        Ok(())
    }

    /// Fills a class's window, unless it has a block, from its current page or the page of its
    /// lists with the fewest free blocks. Whether it has a block now.
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

    /// Serves a small request where its class has no block and gets no page: from the heap below,
    /// or from a larger class.
    pub(super) fn make_do<S: Source, M: Meter>(
        &mut self,
        class: u32,
        layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Result<Served, AllocError> {
        let found = self.take_large(layout, &backing.meter);
        let found = found.or_else(|| self.take_large_further(layout, backing).ok());
        if let Some((block, bytes)) = found {
            return Ok(Served::whole(block, bytes, Part::Fit));
        }
        for class in class..self.classes.count() as u32 {
            if self.fill_window_again(class, &backing.meter)
                && let Some((block, bytes)) = self.take(class, layout.align(), backing)
            {
                return Ok(Served::whole(block, bytes, Part::Pages));
            }
        }
        Err(AllocError::Exhausted)
    }

    /// Puts a block in use of a page back, of which `requested` bytes were. (It is counted first, so that a call at the end needs no
    /// registers kept.)
    #[inline(always)]
    pub(super) fn put<S: Source, M: Meter>(
        &mut self,
        page: Page,
        block: NonNull<u8>,
        requested: usize,
        backing: &mut Backing<S, M>,
    ) {
        backing.meter.touch(page.header());
        backing.tally.freed(requested, page.size.get() as usize);
        let offset = block.addr().get() & (self.page_size - 1);
        page.set_free(Class::index_by(page.reciprocal.get(), offset));
        if page.free() >= page.trigger() {
            self.triggered(page, &backing.meter);
        }
        backing.meter.served(Part::Pages);
    }

    /// A page has as many free blocks as it waited for: it becomes eligible, or is wholly free.
    #[cold]
    #[inline(never)]
    pub(super) fn triggered<M: Meter>(&mut self, page: Page, meter: &M) {
        let class = page.class();
        let supply = self.supplies.get_mut(class);
        if page.free() < supply.capacity {
            supply.put(page, meter);
            return;
        }
        if page.list() != NO_LIST {
            supply.remove(page);
        }
        self.release(page, meter);
    }

    /// A page for a class, all its blocks free: a spare one, or one of the heap.
    fn acquire<S: Source, M: Meter>(
        &mut self,
        class: u32,
        backing: &mut Backing<S, M>,
    ) -> Result<Page, AllocError> {
        let capacity = self.supplies.get(class).capacity;
        let page = match self.spare {
            Some(page) => {
                backing.meter.visit(page.header());
                self.reuse(page, capacity, &mut backing.source)?
            }
            None => loop {
                match self.make(capacity, backing) {
                    Ok(page) => break page,
                    // What was dedicated on the way is kept for the next attempt.
                    Err(error) if !self.give_back(&backing.meter) => return Err(error),
                    Err(_) => {}
                }
            },
        };
        let Class { size, reciprocal, .. } = *self.classes.get(class);
        page.set_class(class);
        page.size.set(size);
        page.reciprocal.set(reciprocal);
        page.set_list(NO_LIST);
        page.format(capacity);
        Ok(page)
    }

    /// Takes the page on top of the spare ones, with a header that suits.
    fn reuse<S: Source>(
        &mut self,
        top: Page,
        capacity: u32,
        source: &mut S,
    ) -> Result<Page, AllocError> {
        let page = if Headers::suits(top, capacity) {
            top
        } else {
            let page = self.headers.make(capacity, source)?;
            page.base.set(top.base.get());
            self.map.set(top.base.get().addr(), Some(page));
            page
        };
        self.spare = top.next.get();
        self.spares -= 1;
        if page != top {
            self.headers.recycle(top);
        }
        Ok(page)
    }

    /// Takes a page from the heap below.
    fn make<S: Source, M: Meter>(
        &mut self,
        capacity: u32,
        backing: &mut Backing<S, M>,
    ) -> Result<Page, AllocError> {
        let Backing { source, meter, .. } = backing;
        let len = (self.page_size / CELL) as u32;
        let page = self.headers.make(capacity, source)?;
        let start = match self.heap.allocate_block(len, self.page_size, source, meter) {
            Ok(start) => start,
            Err(error) => {
                self.headers.recycle(page);
                return Err(error);
            }
        };
        let base = self.heap.contents(start);
        let origin = source.extent().start;
        if let Err(error) = self.map.ensure(base.addr(), origin, &mut self.headers, source) {
            self.keep_mark(Block { start, len });
            self.heap.release(Block { start, len }, meter);
            self.headers.recycle(page);
            return Err(error);
        }
        page.base.set(base);
        self.map.set(base.addr(), Some(page));
        self.count += 1;
        Ok(page)
    }

    /// Takes a wholly free page that is on no list: to the spare ones or the heap.
    fn release<M: Meter>(&mut self, page: Page, meter: &M) {
        if self.spares < SPARE {
            meter.link(page.header());
            page.next.set(self.spare.replace(page));
            self.spares += 1;
        } else {
            self.unmake(page, meter);
        }
    }

    /// Gives a page back to the heap below.
    fn unmake<M: Meter>(&mut self, page: Page, meter: &M) {
        let base = page.base.get();
        let block = self.heap.block_at(base.addr());
        self.map.set(base.addr(), None);
        self.count -= 1;
        self.keep_mark(block);
        self.heap.release(block, meter);
        self.headers.recycle(page);
    }

    /// Gives every page without blocks in use back to the heap below. Whether there were any.
    #[cold]
    pub(super) fn give_back<M: Meter>(&mut self, meter: &M) -> bool {
        for class in 0..self.classes.count() as u32 {
            let supply = self.supplies.get_mut(class);
            if let Some(page) = supply.close() {
                page.set_trigger(supply.tolerance);
                if page.free() >= page.trigger() {
                    self.triggered(page, meter);
                }
            }
        }
        let any = self.spare.is_some();
        while let Some(page) = self.spare {
            self.spare = page.next.get();
            self.unmake(page, meter);
        }
        self.spares = 0;
        any
    }

    /// Whether a block in use starts at any address that could be known by a layout.
    pub(super) fn has_block(&self, block: NonNull<u8>, layout: Layout) -> bool {
        let address = block.addr().get();
        let Some(page) = self.page_at(block) else {
            let found = self.heap.find_in_use(address);
            return found.is_some_and(|found| Large::cells_for(layout.size()) == Some(found.len));
        };
        let class = self.class(page);
        let offset = address & (self.page_size - 1);
        let index = class.index(offset);
        index < class.capacity
            && (index * class.size) as usize == offset
            && layout.size() <= class.size as usize
            && !self.is_free(page, index)
    }

    /// Whether a block of a page is free, in the page or in its class's window.
    pub(super) fn is_free(&self, page: Page, block: u32) -> bool {
        use super::page::WORD;
        let supply = self.supplies.get(page.class());
        let in_window = supply.page == Some(page)
            && supply.word == block / WORD
            && supply.window >> (block % WORD) & 1 == 1;
        in_window || page.is_free(block)
    }
}
