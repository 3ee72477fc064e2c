//! PAGEWISE, the default strategy: small blocks from pages without headers, everything else, and
//! the pages, from one heap with boundary tags.
//!
//! ```text
//! extent   |[H] large block |[H] page: blocks of 24 B, no headers |[H] free |[H] page: 200 B | …
//! dedicated (upper end)     … size classes | map: slot ─▶ H(P) | H(P), a bit for each block | …
//! ```
//! It joins what the papers do best. Blocks up to FFCROSSOVER come from pages of equal blocks
//! chosen by LEAST-FREE (Brent §2.10), whose bookkeeping lies apart from them (§4): no header for
//! each block, and blocks of one size side by side. Larger ones, and the pages themselves, come
//! from a good fit over boundary tags (Hasan & Chang §3.1, §3.9), so that both share one memory and
//! the gaps that aligned pages leave serve large blocks.
//!
//! Where it departs from the papers, and why:
//! - **Free blocks are bits, taken a word at a time** (`supply.rs`). Allocating is a test, a count
//!   of trailing zeros and a multiplication; freeing looks the page up and sets a bit. Nothing is
//!   ever written into free small blocks.
//! - **LEAST-FREE is lazy, and by quarters of c.** φ rises with every free; a page moves to another
//!   list only when a page is to be chosen, once for each quarter at most. Among pages of one
//!   quarter the one that has waited longest comes first: it has gathered most blocks since.
//! - **A block aligned above the unit is a block that happens to be aligned.** Every second block
//!   of 24 bytes is aligned to 16: such a request takes one of those, and only if none is at hand
//!   a block of a size that is a multiple of the alignment.
//! - **A page is for those who use it.** A class gets its first page once it was asked for often;
//!   until then the heap serves it. So an arena with blocks of many sizes is not filled with pages
//!   of one block each.
//! - **The layout says where a block lies, and how long it is.** Above the largest class it is not
//!   in a page; a large block's end is known before its tag was read. So a free waits for one tag
//!   less, and large blocks are not looked up.
//! - **Where memory is exhausted, nothing is sacred.** Pages without blocks in use go back to the
//!   heap; failing that, a small block is taken from the heap, or one of a larger class; and a large
//!   block that grows moves down over the free memory below it (Hasan & Chang §3.12).
//!
//! Time: O(1) for small blocks, amortised over the blocks of a page; larger ones and new pages
//! take constant time ([`Good`](crate::fit::Good)). [`try_free`](Strategy::try_free) is O(1) for small blocks,
//! O(n) for larger ones, whose neighbours below it walks.
//!
//! Files, in the order they build on each other: `page` (headers and bits), `map` (from address to
//! page), `supply` (what a class allocates from), `pages` (how pages come and go), `large` (blocks
//! above FFCROSSOVER), `batch` (many blocks at once), `steps` (the free memory, a little at a
//! time), `audit`.

mod audit;
mod batch;
mod large;
mod map;
mod page;
mod pages;
mod steps;
mod supply;

use core::alloc::Layout;
use core::ptr::NonNull;

use self::page::Page;
use self::pages::{Large, Pages};
pub use self::steps::FreeKind;
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::paged::Config;
use crate::source::Source;
use crate::strategy::{Span, SpanKind, Strategy, Usage, empty_block, move_to_another};

/// PAGEWISE over a source: pages for sizes up to FFCROSSOVER, a good fit for larger ones and for the
/// pages, in one region.
///
/// Small blocks cost their size rounded up to a class and a bit; larger ones 4 bytes and what
/// rounding up to 16 takes. Blocks are aligned to [`Config::unit`] for free, to anything else on
/// request. A heap has at most 16 GiB.
///
/// ```
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
/// use pagewise::Strategy;
/// use pagewise::page_heap::PageHeap;
/// use pagewise::source::Region;
///
/// let memory = Box::leak(Box::new([MaybeUninit::<u8>::uninit(); 1 << 16]));
/// let mut heap = PageHeap::new(PageHeap::<Region>::CONFIG, Region::from_static(memory), ());
///
/// let layout = Layout::new::<[u64; 5]>();
/// let block = heap.allocate(layout).expect("64 KiB hold 40 bytes");
/// assert!(block.len() >= 40);
/// // SAFETY: the block was allocated above for this layout.
/// unsafe { heap.deallocate(block.cast(), layout) };
/// heap.audit().expect("every invariant holds");
/// ```
#[derive(Debug)]
pub struct PageHeap<S, M = ()> {
    config: Config,
    pages: Pages<S, M>,
}

impl<S, M> PageHeap<S, M> {
    /// The parameters that proved best for arenas of 64 KiB and more: see [`Config::arena`].
    pub const CONFIG: Config = Config::arena();
}

impl<S: Source, M: Meter> PageHeap<S, M> {
    /// The strategy over `source`. Takes no memory before the first allocation.
    ///
    /// # Panics
    /// If the configuration does not [check](Config::check); in a `const`, at compile time.
    #[must_use]
    pub const fn new(config: Config, source: S, meter: M) -> Self {
        assert!(config.check().is_ok(), "the configuration is out of range: see Config::check");
        Self { config, pages: Pages::new(config.page_size, source, meter) }
    }

    /// The parameters.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Where the heap's memory comes from.
    pub const fn source(&self) -> &S {
        self.pages.source.get()
    }

    /// Bytes of a block in use, all of which may be used. O(1).
    ///
    /// # Safety
    /// The block is in use.
    #[must_use]
    pub unsafe fn block_size(&self, block: NonNull<u8>) -> usize {
        match self.pages.page_at(block) {
            Some(page) => self.pages.class(page).size as usize,
            None => Large::bytes(self.pages.heap.block_at(block.addr().get()).len),
        }
    }

    /// Bytes of a block in use that is larger than those of pages, read beside the block alone. O(1).
    ///
    /// # Safety
    /// The block is in use, lies in no page, and nobody resizes it meanwhile.
    #[cfg(all(feature = "std", target_os = "linux", not(pagewise_forwarding)))]
    pub(crate) unsafe fn tagged_size(block: NonNull<u8>) -> usize {
        // SAFETY: the caller's promise.
        Large::bytes(unsafe { crate::block::tag::len_at(block) })
    }

    /// Whether a block larger than those of pages is in use, as far as the tags beside it tell: one
    /// that was freed is known until its memory is used for something else. O(1).
    ///
    /// # Safety
    /// The block was allocated here. If it was freed since, nobody writes meanwhile to the memory
    /// around it.
    #[must_use]
    pub unsafe fn is_tagged_in_use(&self, block: NonNull<u8>) -> bool {
        self.pages.page_at(block).is_none() && self.pages.tagged_at(block).is_some()
    }

    /// Frees a block larger than those of pages, of which all was requested. O(1).
    ///
    /// # Errors
    /// The block, if it [is not in use](Self::is_tagged_in_use); nothing is changed.
    ///
    /// # Safety
    /// The block was allocated here and, as far as that is not noticed, not freed since.
    pub unsafe fn free_tagged(&mut self, block: NonNull<u8>) -> Result<(), NonNull<u8>> {
        if self.pages.page_at(block).is_some() {
            return Err(block);
        }
        self.pages.free_tagged(block).ok_or(block)
    }

    /// Calls `visit` for free memory below the pages in pieces of about `least` bytes or more, at
    /// both ends of which the heap keeps up to 16 bytes. O(pieces).
    pub fn for_each_large_free(&self, least: usize, visit: &mut dyn FnMut(Span)) {
        let Some(cells) = Large::cells_for(least) else { return };
        self.pages.heap.for_each_free(cells, |free| {
            let start = self.pages.heap.contents(free.start).addr();
            visit(Span { start, len: Large::bytes(free.len), kind: SpanKind::Free });
        });
    }

    /// Gives every page without blocks in use back to the heap below, also those kept for the next
    /// class that needs one, so that their memory joins what is free beside it. O(classes).
    pub fn gather(&mut self) {
        self.pages.give_back();
    }

    /// Bytes of all pages, those without blocks in use among them.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.pages.count() * self.config.page_size
    }

    /// Where the first block below the pages may begin; 0 before there is any memory.
    #[cfg_attr(not(feature = "std"), allow(dead_code, reason = "for the global allocator"))]
    #[cfg(all(feature = "std", target_os = "linux", not(pagewise_forwarding)))]
    pub(crate) fn first_block(&self) -> usize {
        self.pages.heap.contents(self.pages.heap.first()).addr()
    }

    /// Calls `visit` for each page that serves a class, with the class and the number of its blocks in
    /// use. O(pages).
    pub fn for_each_page(&self, visit: &mut dyn FnMut(u32, u32)) {
        for page in self.pages.map.pages() {
            let (class, supply) = (page.class(), self.pages.supplies.get(page.class()));
            let current = supply.page == Some(page);
            let window = if current { supply.window.count_ones() } else { 0 };
            let in_use = supply.capacity - page.free() - window;
            if current || in_use > 0 {
                visit(class, in_use);
            }
        }
    }

    /// Builds the size classes, for which the first allocation would otherwise take memory.
    ///
    /// # Errors
    /// [`AllocError::Exhausted`] if the source has no room for them.
    #[cold]
    pub fn open(&mut self) -> Result<(), AllocError> {
        self.pages.open(&self.config)
    }

    /// The page a block of this layout lies in, if it does lie in one: no large block does.
    #[inline(always)]
    fn page_of(&self, block: NonNull<u8>, layout: Layout) -> Option<Page> {
        if layout.size() > self.pages.largest { None } else { self.pages.page_at(block) }
    }

    /// Serves a layout that no class serves.
    #[inline(never)]
    fn serve_large(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let Some((block, len)) = self.pages.take_plain(layout) else {
            return self.serve_further(layout);
        };
        self.pages.tally.allocated(layout.size(), len);
        Ok(NonNull::slice_from_raw_parts(block, len))
    }

    /// Serves a layout that takes more than the first block of a list: of size 0, much aligned, very
    /// large, or where more memory is needed; the first of all, before there are classes, among them.
    #[inline(never)]
    fn serve_further(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(empty_block(layout));
        }
        if !self.pages.is_open() {
            self.open()?;
            return self.allocate(layout);
        }
        let (block, len) = match self.pages.take_large(layout) {
            Some(known) => known,
            None => self.pages.take_large_further(layout)?,
        };
        self.pages.tally.allocated(layout.size(), len);
        Ok(NonNull::slice_from_raw_parts(block, len))
    }

    /// Serves a layout of a class whose window has no block for it.
    #[inline(never)]
    fn refill(&mut self, class: u32, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let pages = &mut self.pages;
        // Most often the current page has gained blocks since.
        if let Some((block, len)) = pages.take_again(class, layout.align()) {
            pages.tally.allocated(layout.size(), len);
            return Ok(NonNull::slice_from_raw_parts(block, len));
        }
        // A fresh window may have a block that happens to be aligned; else one whose size is a
        // multiple of the alignment is.
        let found = match pages.take(class, layout.align()) {
            Some(found) => Some(found),
            None if layout.align() > self.config.unit => {
                let class = pages.classes.of(layout);
                class.and_then(|class| pages.take(class, layout.align()))
            }
            None => None,
        };
        let (block, len) = match found {
            Some(found) => found,
            None => pages.make_do(class, layout)?,
        };
        pages.tally.allocated(layout.size(), len);
        Ok(NonNull::slice_from_raw_parts(block, len))
    }
}

impl<S: Source, M: Meter> PageHeap<S, M> {
    /// Moves a large block that grows down into free memory beside it, where there is no memory for
    /// another.
    #[cold]
    fn make_room(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<[u8]>> {
        if self.page_of(block, layout).is_some() {
            return None;
        }
        let (block, lens) = self.pages.grow_large_down(block, layout, new_size)?;
        self.pages.tally.resized((layout.size(), new_size), lens);
        Some(NonNull::slice_from_raw_parts(block, lens.1))
    }
}

// SAFETY: blocks are disjoint parts of disjoint pages or of the heap below, in the source's
// extent; headers, map and classes lie in the dedicated memory, tags between the heap's blocks.
// All stay in place when the strategy moves.
unsafe impl<S: Source, M: Meter> Strategy for PageHeap<S, M> {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let Some(class) = self.pages.class_for(layout) else {
            return self.serve_large(layout);
        };
        let supply = self.pages.supplies.get_mut(class);
        let Some(block) = supply.take_aligned(layout.align()) else {
            return self.refill(class, layout);
        };
        let len = supply.size as usize;
        self.pages.meter.served(Part::Pages);
        self.pages.tally.allocated(layout.size(), len);
        Ok(NonNull::slice_from_raw_parts(block, len))
    }

    #[inline]
    unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) {
        if layout.size() == 0 {
            return;
        }
        match self.page_of(block, layout) {
            Some(page) => self.pages.put(page, block, layout.size()),
            None => self.pages.free_large(block, layout.size()),
        }
    }

    #[inline]
    unsafe fn resize_in_place(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<[u8]>> {
        if layout.size() == 0 || new_size == 0 {
            return None;
        }
        let largest = self.pages.largest;
        let Some(page) = self.page_of(block, layout) else {
            // What has become small belongs in a page; what always was is here for a reason.
            if new_size <= largest && layout.size() > largest {
                return None;
            }
            let len = self.pages.resize_large(block, layout.size(), new_size)?;
            return Some(NonNull::slice_from_raw_parts(block, len));
        };
        let len = page.size.get() as usize;
        if self.pages.classes.of_size(new_size)? != page.class() {
            return None;
        }
        self.pages.tally.resized((layout.size(), new_size), (len, len));
        Some(NonNull::slice_from_raw_parts(block, len))
    }

    unsafe fn relocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: passed on.
        match unsafe { move_to_another(self, block, layout, new_size) } {
            Err(error) if layout.size() > 0 => self.make_room(block, layout, new_size).ok_or(error),
            moved => moved,
        }
    }

    unsafe fn keep(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
    ) -> Option<NonNull<[u8]>> {
        let (size, new_size) = (layout.size(), new_layout.size());
        let aligned = block.addr().get().is_multiple_of(new_layout.align());
        if size == 0 || new_size == 0 || !aligned {
            return None;
        }
        let lens = match self.page_of(block, layout) {
            Some(page) => {
                let len = page.size.get() as usize;
                (new_size <= len).then_some((len, len))?
            }
            None => self.pages.keep_large(block, new_size)?,
        };
        self.pages.tally.resized((size, new_size), lens);
        Some(NonNull::slice_from_raw_parts(block, lens.1))
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout) -> bool {
        self.pages.has_block(block, layout)
    }

    fn owns(&self, block: NonNull<u8>) -> bool {
        self.pages.source.extent().contains(&block.addr().get())
    }

    fn usage(&self) -> Usage {
        self.pages.tally.usage()
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.pages.walk(visit);
    }

    fn audit(&self) -> Result<(), Fault> {
        self.pages.audit()?;
        crate::walk::check(self)
    }
}
