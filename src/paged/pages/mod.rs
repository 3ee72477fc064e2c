//! Pages and their headers: what every paged strategy shares.
//!
//! ```text
//!  extent (blocks only)                            dedicated memory (bookkeeping only)
//!  | page 0 | large block      | page 1 | …        map:     slot ─▶ header
//!  ^ slot 0   slot 1    slot 2   slot 3            headers: H(P) | free-block words | H(P) …
//! ```
//! The extent is cut into *slots* of p bytes. A slot is a page, or part of what FIRST-FIT serves.
//! From a block's address, its slot; by the map, its page's header: O(1) (Brent §4 keeps a pointer
//! in the page or hashes the page's index; the map costs four bytes a slot and touches no page).
//!
//! The sets of Brent §2.7: S1 is what the FIRST-FIT heap below has not handed out as pages; S2,
//! the wholly free pages, is one stack shared by all classes, so a page changes its block size
//! when all its blocks were freed (§5); S3 and S4 are the placement's.
//!
//! The walk and the check of the invariants are in `inspect`.

mod inspect;

use core::alloc::Layout;
use core::ptr::NonNull;

use super::class::{Class, Classes};
use super::config::Config;
use super::header::PageHeader;
use super::in_page::{Bitmap, InPage, Page};
use crate::engine::Backing;
use crate::error::AllocError;
use crate::first_fit::heap::{Extent, SegmentHeap};
use crate::meter::Meter;
use crate::source::Source;
use crate::words::Table;

/// No page, no left header: the end of a list.
pub(super) const NIL: u32 = u32::MAX;

/// A block that was put back, and its page: what the placement needs to know.
#[derive(Clone, Copy)]
pub(super) struct Put {
    pub(super) page: u32,
    /// The page's class, and how many blocks a page of it has.
    pub(super) class: u32,
    pub(super) capacity: u32,
    /// The page's `left`.
    pub(super) left: u32,
    /// φ, now.
    pub(super) free: u32,
}

impl Put {
    /// Whether all blocks of the page are free.
    #[inline(always)]
    pub(super) fn emptied_page(&self) -> bool {
        self.free == self.capacity
    }
}

/// Pages over the FIRST-FIT heap. Invariants:
/// - map[slot] − 1 is the header whose `slot` is that slot, for every page; 0 for other slots;
/// - a page is one block in use of the heap, p bytes long and aligned to p;
/// - the pages on S2 (linked through `next`) have all their blocks free;
/// - `headers` has capacity for every header, `map` for every page's slot.
#[derive(Debug)]
pub(super) struct Pages<F> {
    pub(super) classes: Classes,
    pub(super) heap: SegmentHeap,
    headers: Table<PageHeader>,
    map: Table<u32>,
    /// Headers ever made; the spare ones among them are linked through `next`.
    header_count: u32,
    spare_headers: u32,
    /// Pages there are.
    count: u32,
    /// Top of S2.
    empty: u32,
    page_shift: u32,
    in_page: core::marker::PhantomData<F>,
}

impl<F: InPage> Pages<F> {
    pub(super) const fn new(granule: usize, page_size: usize) -> Self {
        let segment = 64 * granule;
        let growth = if segment < page_size { page_size } else { segment };
        Self {
            classes: Classes::new(),
            heap: SegmentHeap::new(granule, segment, growth),
            headers: Table::new(),
            map: Table::new(),
            header_count: 0,
            spare_headers: NIL,
            count: 0,
            empty: NIL,
            page_shift: page_size.trailing_zeros(),
            in_page: core::marker::PhantomData,
        }
    }

    /// Builds the size classes; no page exists yet.
    pub(super) fn open<S: Source>(
        &mut self,
        config: &Config,
        least: usize,
        source: &mut S,
    ) -> Result<(), AllocError> {
        self.classes.open(config, least.max(F::LEAST_BLOCK), source)?;
        if self.classes.count() > 0 {
            let most_blocks = self.classes.get(0).capacity as usize;
            self.headers = Table::with_tail(F::words(most_blocks));
        }
        Ok(())
    }

    /// p, bytes.
    pub(super) fn page_size(&self) -> usize {
        1 << self.page_shift
    }

    /// Number of pages.
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    #[inline(always)]
    pub(super) fn header(&self, page: u32) -> &PageHeader {
        self.headers.get(page as usize)
    }

    #[inline(always)]
    pub(super) fn header_mut(&mut self, page: u32) -> &mut PageHeader {
        self.headers.get_mut(page as usize)
    }

    #[inline(always)]
    pub(super) fn words(&self, page: u32) -> &[u64] {
        self.headers.tail(page as usize)
    }

    #[inline(always)]
    pub(super) fn class(&self, class: u32) -> &Class {
        self.classes.get(class)
    }

    /// Tells the meter that a page's header was reached by a link.
    #[inline(always)]
    pub(super) fn visit<M: Meter>(&self, page: u32, meter: &M) {
        meter.visit(self.headers.record(page as usize));
    }

    /// Where a page starts.
    #[inline(always)]
    pub(super) fn base(&self, page: u32) -> NonNull<u8> {
        let offset = (self.header(page).slot as usize) << self.page_shift;
        // SAFETY: a page lies in the heap's memory, which starts at its origin.
        unsafe { self.heap.address(0).add(offset) }
    }

    /// Where a block starts.
    pub(super) fn block_address(&self, page: u32, block: u32) -> NonNull<u8> {
        let size = self.class(self.header(page).class).size;
        // SAFETY: a page has `capacity` blocks of `size` bytes, and `block` is one of them.
        unsafe { self.base(page).add(block as usize * size as usize) }
    }

    /// The page and block whose memory this address lies in; the address lies in a page.
    #[inline(always)]
    pub(super) fn locate(&self, address: NonNull<u8>) -> (u32, u32) {
        let offset = self.heap.offset(address);
        let page = self.map.get(offset >> self.page_shift) - 1;
        let class = self.class(self.header(page).class);
        (page, class.index(offset & (self.page_size() - 1)))
    }

    /// The page and block that start at any address, if there are such.
    pub(super) fn find(&self, address: NonNull<u8>) -> Option<(u32, u32)> {
        let offset = self.heap.offset(address);
        let slot = offset >> self.page_shift;
        if offset >= self.heap.len() || slot >= self.map.capacity() {
            return None;
        }
        let page = self.map.get(slot).checked_sub(1)?;
        let class = self.class(self.header(page).class);
        let within = offset & (self.page_size() - 1);
        let block = class.index(within);
        (block < class.capacity && (block * class.size) as usize == within).then_some((page, block))
    }

    /// The class of the page in which an address lies, if it lies in one. Any address may be asked
    /// for.
    #[inline(always)]
    pub(super) fn class_at(&self, address: NonNull<u8>) -> Option<u32> {
        let offset = self.heap.offset(address);
        let slot = offset >> self.page_shift;
        if offset >= self.heap.len() || slot >= self.map.capacity() {
            return None;
        }
        Some(self.header(self.map.get(slot).checked_sub(1)?).class)
    }

    /// Takes a free block of a page of this class, if it has one; φ falls by 1.
    #[inline(always)]
    pub(super) fn take<M: Meter>(
        &mut self,
        page: u32,
        class: u32,
        meter: &M,
    ) -> Option<NonNull<u8>> {
        let size = self.class(class).size;
        let (header, words) = self.headers.record_and_tail(page as usize);
        meter.visit(header);
        header.free_count = header.free_count.checked_sub(1)?;
        let base = self.heap.origin().wrapping_add((header.slot as usize) << self.page_shift);
        let block = F::take(Page { header, words, base, size }, meter);
        NonNull::new(base.wrapping_add(block as usize * size as usize))
    }

    /// Puts the block in use at this address back to its page's free ones; φ rises by 1.
    #[inline(always)]
    pub(super) fn put<M: Meter>(&mut self, address: NonNull<u8>, meter: &M) -> Put {
        let offset = self.heap.offset(address);
        let page = self.map.get(offset >> self.page_shift) - 1;
        let (header, words) = self.headers.record_and_tail(page as usize);
        meter.touch(header);
        let class = self.classes.get(header.class);
        let block = class.index(offset & ((1 << self.page_shift) - 1));
        header.free_count += 1;
        let put = Put {
            page,
            class: header.class,
            capacity: class.capacity,
            left: header.left,
            free: header.free_count,
        };
        let base = address.as_ptr().wrapping_sub(block as usize * class.size as usize);
        let size = class.size;
        F::put(Page { header, words, base, size }, block, meter);
        put
    }

    /// Calls `visit` for every page, in no particular order.
    pub(super) fn for_each_page(&self, mut visit: impl FnMut(u32, &PageHeader)) {
        for page in 0..self.header_count {
            let header = self.header(page);
            if header.slot != NIL {
                visit(page, header);
            }
        }
    }

    /// Whether this block of a page is free.
    pub(super) fn is_free(&self, page: u32, block: u32) -> bool {
        let header = self.header(page);
        let size = self.class(header.class).size;
        F::is_free(header, self.words(page), self.base(page).as_ptr(), size, block)
    }

    /// Puts a page to use for a class: from S2, or else from S1. All its blocks are free.
    ///
    /// # Errors
    /// [`AllocError::Exhausted`].
    pub(super) fn acquire<S: Source, M: Meter>(
        &mut self,
        class: u32,
        backing: &mut Backing<S, M>,
    ) -> Result<u32, AllocError> {
        let page = if self.empty == NIL {
            self.make(backing)?
        } else {
            self.visit(self.empty, &backing.meter);
            let top = self.empty;
            self.empty = self.header(top).next;
            top
        };
        let capacity = self.class(class).capacity;
        let (header, words) = self.headers.record_and_tail(page as usize);
        header.class = class;
        header.free_count = capacity;
        header.fresh = 0;
        F::format(header, words, capacity);
        Ok(page)
    }

    /// Pushes a wholly free page, which is on no list, on S2.
    pub(super) fn release<M: Meter>(&mut self, page: u32, meter: &M) {
        meter.link(self.headers.record(page as usize));
        self.header_mut(page).next = self.empty;
        self.empty = page;
    }

    /// Gives the pages of S2 back to the heap. Whether there were any.
    pub(super) fn give_back<M: Meter>(&mut self, meter: &M) -> bool {
        let any = self.empty != NIL;
        while self.empty != NIL {
            let page = self.empty;
            let header = *self.header(page);
            self.empty = header.next;
            *self.map.get_mut(header.slot as usize) = 0;
            let start = self.granule_of_slot(header.slot);
            self.heap.release(start, meter);
            self.recycle_header(page);
            self.count -= 1;
        }
        any
    }

    /// Takes a page from S1.
    fn make<S: Source, M: Meter>(
        &mut self,
        backing: &mut Backing<S, M>,
    ) -> Result<u32, AllocError> {
        let Backing { source, meter, .. } = backing;
        let page = self.spare_header(source)?;
        let granules = self.heap.granules_for(self.page_size()).ok_or(AllocError::Exhausted)?;
        let block = self.heap.allocate(granules, self.page_size(), source, meter)?;
        let slot = self.slot_of(block);
        if let Err(error) = self.map.ensure(slot as usize + 1, source) {
            self.heap.release(block.start, meter);
            return Err(error);
        }
        if page == self.spare_headers {
            self.spare_headers = self.header(page).next;
        } else {
            self.header_count += 1;
        }
        self.count += 1;
        *self.map.get_mut(slot as usize) = page + 1;
        self.header_mut(page).slot = slot;
        Ok(page)
    }

    /// A header no page has, not yet marked as used.
    fn spare_header<S: Source>(&mut self, source: &mut S) -> Result<u32, AllocError> {
        if self.spare_headers != NIL {
            return Ok(self.spare_headers);
        }
        self.headers.ensure(self.header_count as usize + 1, source)?;
        Ok(self.header_count)
    }

    fn recycle_header(&mut self, page: u32) {
        let next = self.spare_headers;
        let header = self.header_mut(page);
        header.slot = NIL;
        header.next = next;
        self.spare_headers = page;
    }

    fn slot_of(&self, block: Extent) -> u32 {
        (self.heap.bytes(block.start) >> self.page_shift) as u32
    }

    fn granule_of_slot(&self, slot: u32) -> u32 {
        (((slot as usize) << self.page_shift) / self.heap.bytes(1)) as u32
    }

    /// The class that serves a layout, if pages do.
    #[inline(always)]
    pub(super) fn class_of(&self, layout: Layout) -> Option<u32> {
        self.classes.of(layout)
    }
}

impl Pages<Bitmap> {
    /// Takes the page's next block that was never used; there is one.
    #[inline(always)]
    pub(super) fn take_fresh(&mut self, page: u32) -> NonNull<u8> {
        let block = self.header(page).fresh;
        self.header_mut(page).fresh = block + 1;
        self.claim(page, block);
        self.block_address(page, block)
    }

    /// Takes this block, which is free; φ falls by 1.
    #[inline(always)]
    pub(super) fn claim(&mut self, page: u32, block: u32) {
        let (header, words) = self.headers.record_and_tail(page as usize);
        header.free_count -= 1;
        Bitmap::claim(words, block);
    }
}
