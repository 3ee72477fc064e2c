//! Moves pages from the heap below to a class, to another class, and back.
//!
//! The sets of Brent §2.7: S1 is the memory that the heap below has not handed out as pages. S2,
//! the wholly free pages, is one stack shared by all classes, so a page can change its block size
//! when all its blocks are free (§5). S3 and S4 are the placement's.

use core::alloc::Layout;
use core::ptr::NonNull;

use super::below::Below;
use super::class::{Class, Classes};
use super::config::Config;
use super::headers::Headers;
use crate::engine::Backing;
use crate::error::AllocError;
use crate::meter::Meter;
use crate::source::Source;

/// Pages over a heap below. Invariants:
/// - the headers have exactly the pages, each a block of p bytes in use of the heap below, aligned
///   to p;
/// - the pages on S2 have all their blocks free, and are on no list of the placement.
#[derive(Debug)]
pub struct Pages<H: Headers, B> {
    /// The classes; none until the placement is ready for them.
    pub(super) classes: Classes,
    /// The classes, until the placement is ready for them. Requests do not find them here.
    made: Classes,
    /// The size in bytes that no block of a page exceeds; 0 before there are classes.
    pub(super) largest: usize,
    pub(super) headers: H,
    /// p, bytes.
    page_size: usize,
    /// The top of S2.
    pub(super) empty: Option<H::Page>,
    /// Number of pages on S2.
    empties: u32,
    /// The most pages that S2 keeps; the others go back to the heap below.
    most_empties: u32,
    /// Number of pages.
    count: usize,
    /// The heap below, where pages come from.
    pub(super) below: B,
}

// SAFETY: all that the pages' names lead to belongs to the heap, wherever it goes.
unsafe impl<H: Headers + Send, B: Send> Send for Pages<H, B> {}

impl<H: Headers, B> Pages<H, B> {
    /// Makes a store without pages; its pages will have `page_size` bytes.
    pub(super) const fn new(page_size: usize, most_empties: u32, below: B) -> Self {
        Self {
            classes: Classes::new(),
            made: Classes::new(),
            largest: 0,
            headers: H::EMPTY,
            page_size,
            empty: None,
            empties: 0,
            most_empties,
            count: 0,
            below,
        }
    }

    /// Returns p in bytes.
    #[inline(always)]
    pub(super) fn page_size(&self) -> usize {
        self.page_size
    }

    /// Returns the number of pages.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the facts of a class.
    #[inline(always)]
    pub(super) fn class(&self, class: u32) -> &Class {
        self.classes.get(class)
    }

    /// Returns the class of a page.
    #[inline(always)]
    pub(super) fn class_of_page(&self, page: H::Page) -> &Class {
        self.classes.get(self.headers.class(page))
    }

    /// Returns the page that contains a block of this layout, if it is in one. No block of a page
    /// is larger than those of the largest class.
    #[inline(always)]
    pub(super) fn page_of(&self, block: NonNull<u8>, layout: Layout) -> Option<H::Page> {
        if layout.size() > self.largest { None } else { self.headers.at(block.addr().get()) }
    }

    /// Returns the number of the block of a page that starts at an address in it, if one does.
    pub(super) fn block_at(&self, page: H::Page, address: NonNull<u8>) -> Option<u32> {
        let class = self.class_of_page(page);
        let offset = address.addr().get() & (self.page_size() - 1);
        let block = class.index(offset);
        let starts = block < class.capacity && (block * class.size) as usize == offset;
        starts.then_some(block)
    }

    /// Tells the meter that a page's header was reached by a link.
    #[inline(always)]
    pub(super) fn visit<M: Meter>(&self, page: H::Page, meter: &M) {
        meter.visit(self.headers.address(page));
    }
}

impl<H: Headers, B: Below> Pages<H, B> {
    /// Builds the size classes, of blocks of `least` bytes or more; no page exists yet. Memory that
    /// is dedicated meanwhile is kept for the next attempt. [`opened`](Self::opened) must follow.
    pub(super) fn open<S: Source>(
        &mut self,
        config: &Config,
        least: usize,
        source: &mut S,
    ) -> Result<&Classes, AllocError> {
        // Classes fit the part of a page that is for blocks, not all of it.
        let config = Config { page_size: B::usable(config.page_size), ..*config };
        let least = least.max(H::least_block(self.page_size()));
        self.made.open(&config, least, source)?;
        Ok(&self.made)
    }

    /// Records that the placement is ready for the classes: requests find them from now on.
    pub(super) fn opened(&mut self) {
        self.classes = self.made;
        let (first, last) = (self.classes.first(), self.classes.last());
        self.largest = last.map_or(0, |class| class.size as usize);
        self.headers.open(self.page_size(), first.map_or(0, |class| class.capacity));
    }

    /// Puts a page to use for a class: from S2, or else from S1. All its blocks are free.
    ///
    /// # Errors
    /// [`AllocError::Exhausted`].
    pub(super) fn acquire<S: Source, M: Meter>(
        &mut self,
        class: u32,
        backing: &mut Backing<S, M>,
    ) -> Result<H::Page, AllocError> {
        let facts = *self.classes.get(class);
        let page = match self.empty {
            Some(top) => {
                self.visit(top, &backing.meter);
                self.reuse(top, facts.capacity, &mut backing.source)?
            }
            None => self.make(facts.capacity, backing)?,
        };
        self.headers.assign(page, class, &facts);
        Ok(page)
    }

    /// Takes the page on top of S2, and gives it a suitable header.
    fn reuse<S: Source>(
        &mut self,
        top: H::Page,
        capacity: u32,
        source: &mut S,
    ) -> Result<H::Page, AllocError> {
        let next = self.headers.next(top);
        let page = if self.headers.suits(top, capacity) {
            top
        } else {
            let page = self.headers.make(capacity, source)?;
            self.place(page, self.headers.base(top), source)?;
            self.headers.recycle(top);
            page
        };
        self.empty = next;
        self.empties -= 1;
        Ok(page)
    }

    /// Takes a page from S1.
    fn make<S: Source, M: Meter>(
        &mut self,
        capacity: u32,
        backing: &mut Backing<S, M>,
    ) -> Result<H::Page, AllocError> {
        let Backing { source, meter, .. } = backing;
        let page = self.headers.make(capacity, source)?;
        let base = match self.below.take_page(self.page_size(), source, meter) {
            Ok(base) => base,
            Err(error) => {
                self.headers.recycle(page);
                return Err(error);
            }
        };
        if let Err(error) = self.place(page, base.as_ptr(), source) {
            self.below.release_page(base, meter);
            return Err(error);
        }
        self.count += 1;
        Ok(page)
    }

    /// Gives a header to the page that starts at `base`, or takes the header back if that fails.
    fn place<S: Source>(
        &mut self,
        page: H::Page,
        base: *mut u8,
        source: &mut S,
    ) -> Result<(), AllocError> {
        let placed = self.headers.place(page, base, self.below.origin(), source);
        if placed.is_err() {
            self.headers.recycle(page);
        }
        placed
    }

    /// Moves a wholly free page that is on no list to S2, or to S1 if S2 has enough pages.
    pub(super) fn release<M: Meter>(&mut self, page: H::Page, meter: &M) {
        if self.empties < self.most_empties {
            meter.link(self.headers.address(page));
            self.headers.set_next(page, self.empty.replace(page));
            self.empties += 1;
        } else {
            self.unmake(page, meter);
        }
    }

    /// Gives a page back to the heap below.
    fn unmake<M: Meter>(&mut self, page: H::Page, meter: &M) {
        let base = self.headers.base(page);
        self.headers.remove(page);
        self.count -= 1;
        // SAFETY: a page is a block of the heap below, in valid memory, hence not at address 0.
        self.below.release_page(unsafe { NonNull::new_unchecked(base) }, meter);
        self.headers.recycle(page);
    }

    /// Gives the pages of S2 back to the heap below. Returns whether there were any.
    pub(super) fn give_back<M: Meter>(&mut self, meter: &M) -> bool {
        let any = self.empty.is_some();
        while let Some(page) = self.empty {
            self.empty = self.headers.next(page);
            self.unmake(page, meter);
        }
        self.empties = 0;
        any
    }
}
