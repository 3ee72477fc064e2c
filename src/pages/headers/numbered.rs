//! Headers in a table, named by their number.
//!
//! ```text
//!  extent (blocks only)                            dedicated memory (bookkeeping only)
//!  | page 0  | large block       | page 1  | …     map:     frame ─▶ header
//!  ^ frame 0   frame 1   frame 2   frame 3         headers: H(P) | free-block words | H(P) …
//! ```
//! The extent is cut into *frames* of p bytes. A block's address gives its frame, and the map gives
//! the frame's header: O(1). (Brent §4 keeps a pointer in the page or hashes the page's index; the
//! map costs four bytes a frame and touches no page.)

use core::marker::PhantomData;

use super::header::PageHeader;
use super::in_page::InPage;
use super::{Free, Headers};
use crate::error::AllocError;
use crate::pages::class::Class;
use crate::source::Source;
use crate::words::Table;

/// No page, no left header: the end of a list.
pub(crate) const NIL: u32 = u32::MAX;

/// Headers by number; the free blocks within a page are `F`'s. Invariants:
/// - `map[frame] − 1` is the header whose `frame` is that frame, for every page; `map[frame]` is 0
///   for every other frame;
/// - `headers` has capacity for every header, `map` for every page's frame.
#[derive(Debug)]
pub struct Numbered<F> {
    /// The headers by number, each with its free-block words.
    pub(super) headers: Table<PageHeader>,
    /// For each frame, the number of its page's header plus 1; 0 if no page is there.
    map: Table<u32>,
    /// Where frame 0 starts.
    origin: *mut u8,
    /// log₂ of p.
    page_shift: u32,
    /// Headers ever made; the spare ones among them are linked through `next`.
    count: u32,
    /// The first spare header; `NIL` if there is none.
    spare: u32,
    in_page: PhantomData<F>,
}

// SAFETY: the tables are the heap's, and the origin is an address in its memory.
unsafe impl<F> Send for Numbered<F> {}

impl<F: InPage> Numbered<F> {
    /// Returns the header of a page.
    #[inline(always)]
    pub(crate) fn header(&self, page: u32) -> &PageHeader {
        self.headers.get(page as usize)
    }

    /// Returns the header of a page, mutably.
    #[inline(always)]
    pub(crate) fn header_mut(&mut self, page: u32) -> &mut PageHeader {
        self.headers.get_mut(page as usize)
    }

    /// Returns a header and the words behind it, mutably.
    #[inline(always)]
    pub(crate) fn header_and_words(&mut self, page: u32) -> (&mut PageHeader, &mut [u64]) {
        self.headers.record_and_tail(page as usize)
    }

    /// Returns where frame 0 starts; null while there is no page.
    #[inline(always)]
    pub(crate) fn origin(&self) -> *mut u8 {
        self.origin
    }

    /// Returns where a frame starts.
    #[inline(always)]
    pub(crate) fn frame_base(&self, frame: u32) -> *mut u8 {
        self.origin.wrapping_add((frame as usize) << self.page_shift)
    }

    /// Returns the frame that contains an address. It need not have an entry in the map.
    fn frame_of(&self, address: usize) -> usize {
        address.wrapping_sub(self.origin.addr()) >> self.page_shift
    }
}

impl<F: InPage> Headers for Numbered<F> {
    type Page = u32;

    const EMPTY: Self = Self {
        headers: Table::new(),
        map: Table::new(),
        origin: core::ptr::null_mut(),
        page_shift: 0,
        count: 0,
        spare: NIL,
        in_page: PhantomData,
    };

    fn least_block(_: usize) -> usize {
        F::LEAST_BLOCK
    }

    fn open(&mut self, page_size: usize, most_blocks: u32) {
        self.page_shift = page_size.trailing_zeros();
        self.headers = Table::with_tail(F::words(most_blocks as usize));
    }

    #[inline(always)]
    fn at(&self, address: usize) -> Option<u32> {
        let frame = self.frame_of(address);
        if frame < self.map.capacity() { self.map.get(frame).checked_sub(1) } else { None }
    }

    fn make<S: Source>(&mut self, _: u32, source: &mut S) -> Result<u32, AllocError> {
        let page = self.spare;
        if page != NIL {
            self.spare = self.header(page).next;
            return Ok(page);
        }
        self.headers.ensure(self.count as usize + 1, source)?;
        self.count += 1;
        Ok(self.count - 1)
    }

    fn place<S: Source>(
        &mut self,
        page: u32,
        base: *mut u8,
        origin: usize,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.origin = base.with_addr(origin >> self.page_shift << self.page_shift);
        let frame = self.frame_of(base.addr());
        self.map.ensure(frame + 1, source)?;
        *self.map.get_mut(frame) = page + 1;
        self.header_mut(page).frame = frame as u32;
        Ok(())
    }

    fn remove(&mut self, page: u32) {
        let frame = self.header(page).frame;
        *self.map.get_mut(frame as usize) = 0;
    }

    fn recycle(&mut self, page: u32) {
        let next = core::mem::replace(&mut self.spare, page);
        let header = self.header_mut(page);
        (header.frame, header.next) = (NIL, next);
    }

    fn assign(&mut self, page: u32, number: u32, class: &Class) {
        let (header, words) = self.header_and_words(page);
        header.class = number;
        header.free_count = class.capacity;
        header.fresh = 0;
        F::format(header, words, class.capacity);
    }

    #[inline(always)]
    fn base(&self, page: u32) -> *mut u8 {
        self.frame_base(self.header(page).frame)
    }

    #[inline(always)]
    fn class(&self, page: u32) -> u32 {
        self.header(page).class
    }

    fn free_count(&self, page: u32) -> u32 {
        self.header(page).free_count
    }

    fn free_blocks(&self, page: u32, size: u32, from: u32) -> Free {
        let words = self.headers.tail(page as usize);
        F::free_blocks(self.header(page), words, self.base(page), size, from)
    }

    fn is_free(&self, page: u32, size: u32, block: u32) -> bool {
        let words = self.headers.tail(page as usize);
        F::is_free(self.header(page), words, self.base(page), size, block)
    }

    fn audit(&self, page: u32, capacity: u32) -> Result<(), &'static str> {
        let fresh = self.header(page).fresh;
        if fresh > capacity { Err("a page has at most c blocks") } else { Ok(()) }
    }

    fn next(&self, page: u32) -> Option<u32> {
        let next = self.header(page).next;
        (next != NIL).then_some(next)
    }

    fn set_next(&mut self, page: u32, next: Option<u32>) {
        self.header_mut(page).next = next.unwrap_or(NIL);
    }

    fn address(&self, page: u32) -> *const u8 {
        self.headers.record(page as usize).cast_const().cast()
    }

    fn for_each(&self, visit: &mut dyn FnMut(u32)) {
        (0..self.count).filter(|&page| self.header(page).frame != NIL).for_each(visit);
    }
}

#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests {
    use core::alloc::Layout;

    use super::*;
    use crate::pages::placement::{CurrentPage, Least, LeftHeaders};
    use crate::pages::{Config, Paged};
    use crate::source::Reserved;
    use crate::strategy::Strategy;

    /// A page whose header says that more blocks were used than it has.
    #[test]
    fn a_page_with_too_many_blocks_is_told() {
        type Heap = Paged<CurrentPage<LeftHeaders<Least>>, Reserved>;
        let mut heap = Heap::new(Config::with_page_size(4096), Reserved::new(1 << 24), ());
        let block = heap.allocate(Layout::new::<[u64; 4]>()).expect("there is memory");
        let pages = &mut heap.engine.pages;
        let page = pages.headers.at(block.addr().get()).expect("it is in a page");
        let capacity = pages.class_of_page(page).capacity;
        for (fresh, said) in
            [(capacity, Ok(())), (capacity + 1, Err("a page has at most c blocks"))]
        {
            pages.headers.header_mut(page).fresh = fresh;
            assert_eq!(pages.headers.audit(page, capacity), said);
        }
        assert!(heap.audit().is_err());
    }
}
