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
//! take constant time ([`Good`](crate::fit::Good)). [`try_free`](crate::Strategy::try_free) is O(1) for
//! small blocks, O(n) for larger ones, whose neighbours below it walks.
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
use crate::engine::{Backing, Engine, Heap, Resized, Served};
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::paged::Config;
use crate::source::Source;
use crate::strategy::{Span, SpanKind};

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
pub type PageHeap<S, M = ()> = Heap<WindowedPages, S, M>;

/// The engine of [`PageHeap`].
#[derive(Debug)]
pub struct WindowedPages {
    config: Config,
    pages: Pages,
}

impl<S, M> Heap<WindowedPages, S, M> {
    /// The parameters that proved best for arenas of 64 KiB and more: see [`Config::arena`].
    pub const CONFIG: Config = Config::arena();
}

impl<S: Source, M: Meter> Heap<WindowedPages, S, M> {
    /// The strategy over `source`. Takes no memory before the first allocation.
    ///
    /// # Panics
    /// If the configuration does not [check](Config::check); in a `const`, at compile time.
    #[must_use]
    pub const fn new(config: Config, source: S, meter: M) -> Self {
        assert!(config.check().is_ok(), "the configuration is out of range: see Config::check");
        Self::over(WindowedPages { config, pages: Pages::new(config.page_size) }, source, meter)
    }

    /// The parameters.
    pub const fn config(&self) -> &Config {
        &self.engine.config
    }

    /// Bytes of a block in use, all of which may be used. O(1).
    ///
    /// # Safety
    /// The block is in use.
    #[must_use]
    pub unsafe fn block_size(&self, block: NonNull<u8>) -> usize {
        match self.engine.pages.page_at(block) {
            Some(page) => self.engine.pages.class(page).size as usize,
            None => Large::bytes(self.engine.pages.heap.block_at(block.addr().get()).len),
        }
    }

    /// Bytes of a block in use that is larger than those of pages, read beside the block alone. O(1).
    ///
    /// # Safety
    /// The block is in use, lies in no page, and nobody resizes it meanwhile.
    #[cfg(all(feature = "std", target_os = "linux", not(pagewise_forwarding)))]
    pub(crate) unsafe fn tagged_size(block: NonNull<u8>) -> usize {
        // SAFETY: the caller's promise.
        Large::bytes(unsafe { crate::tags::header::len_at(block) })
    }

    /// Whether a block larger than those of pages is in use, as far as the tags beside it tell: one
    /// that was freed is known until its memory is used for something else. O(1).
    ///
    /// # Safety
    /// The block was allocated here. If it was freed since, nobody writes meanwhile to the memory
    /// around it.
    #[must_use]
    pub unsafe fn is_tagged_in_use(&self, block: NonNull<u8>) -> bool {
        self.engine.pages.page_at(block).is_none() && self.engine.pages.tagged_at(block).is_some()
    }

    /// Frees a block larger than those of pages, of which all was requested. O(1).
    ///
    /// # Errors
    /// The block, if it [is not in use](Self::is_tagged_in_use); nothing is changed.
    ///
    /// # Safety
    /// The block was allocated here and, as far as that is not noticed, not freed since.
    pub unsafe fn free_tagged(&mut self, block: NonNull<u8>) -> Result<(), NonNull<u8>> {
        if self.engine.pages.page_at(block).is_some() {
            return Err(block);
        }
        let Backing { meter, tally, .. } = &mut self.backing;
        let bytes = self.engine.pages.free_tagged(block, meter).ok_or(block)?;
        meter.served(Part::Fit);
        tally.freed(bytes, bytes);
        Ok(())
    }

    /// Calls `visit` for free memory below the pages in pieces of about `least` bytes or more, at
    /// both ends of which the heap keeps up to 16 bytes. O(pieces).
    pub fn for_each_large_free(&self, least: usize, visit: &mut dyn FnMut(Span)) {
        let Some(cells) = Large::cells_for(least) else { return };
        self.engine.pages.heap.for_each_free(cells, |free| {
            let start = self.engine.pages.heap.contents(free.start).addr();
            visit(Span { start, len: Large::bytes(free.len), kind: SpanKind::Free });
        });
    }

    /// Gives every page without blocks in use back to the heap below, also those kept for the next
    /// class that needs one, so that their memory joins what is free beside it. O(classes).
    pub fn gather(&mut self) {
        self.engine.pages.give_back(&self.backing.meter);
    }

    /// Bytes of all pages, those without blocks in use among them.
    #[must_use]
    pub fn page_bytes(&self) -> usize {
        self.engine.pages.count() * self.engine.config.page_size
    }

    /// Where the first block below the pages may begin; 0 before there is any memory.
    #[cfg(all(feature = "std", target_os = "linux", not(pagewise_forwarding)))]
    pub(crate) fn first_block(&self) -> usize {
        self.engine.pages.heap.contents(self.engine.pages.heap.first()).addr()
    }

    /// Calls `visit` for each page that serves a class, with the class and the number of its blocks in
    /// use. O(pages).
    pub fn for_each_page(&self, visit: &mut dyn FnMut(u32, u32)) {
        for page in self.engine.pages.map.pages() {
            let (class, supply) = (page.class(), self.engine.pages.supplies.get(page.class()));
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
        self.engine.open(&mut self.backing.source)
    }
}

impl<S: Source, M: Meter> Heap<WindowedPages, S, M> {
    /// Serves a layout that no class serves.
    #[inline(never)]
    fn serve_large(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let taken = self.engine.pages.take_plain(layout, &self.backing.meter);
        let Some((block, bytes)) = taken else { return self.serve_further(layout) };
        Ok(self.backing.served(layout, Served::whole(block, bytes, Part::Fit)))
    }

    /// Serves a layout that takes more: a search, a page or memory. (Apart, so that those before keep
    /// their registers.)
    #[inline(never)]
    fn serve_further(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.serve(layout)
    }

    /// Serves a layout of a class whose window has no block for it.
    #[inline(never)]
    fn refill(&mut self, class: u32, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // Most often the current page has gained blocks since.
        let again = self.engine.pages.take_again(class, layout.align(), &self.backing.meter);
        let served = match again {
            Some((block, bytes)) => Served::whole(block, bytes, Part::Pages),
            None => self.engine.take_of(class, layout, &mut self.backing)?,
        };
        Ok(self.backing.served(layout, served))
    }
}

impl WindowedPages {
    fn open<S: Source>(&mut self, source: &mut S) -> Result<(), AllocError> {
        self.pages.open(&self.config, source)
    }

    /// The page a block of this layout lies in, if it does lie in one: no large block does.
    #[inline(always)]
    fn page_of(&self, block: NonNull<u8>, layout: Layout) -> Option<Page> {
        if layout.size() > self.pages.largest { None } else { self.pages.page_at(block) }
    }

    /// A block of a class whose current page has none for this layout.
    #[inline(always)]
    fn take_of<S: Source, M: Meter>(
        &mut self,
        class: u32,
        layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Result<Served, AllocError> {
        let pages = &mut self.pages;
        // A fresh window may have a block that happens to be aligned; else one whose size is a
        // multiple of the alignment is.
        let found = match pages.take(class, layout.align(), backing) {
            None if layout.align() > self.config.unit => {
                let class = pages.classes.of(layout);
                class.and_then(|class| pages.take(class, layout.align(), backing))
            }
            found => found,
        };
        match found {
            Some((block, bytes)) => Ok(Served::whole(block, bytes, Part::Pages)),
            None => pages.make_do(class, layout, backing),
        }
    }
}

// SAFETY: blocks are disjoint parts of disjoint pages or of the heap below, in the source's
// extent; headers, map and classes lie in the dedicated memory, tags between the heap's blocks.
// All stay in place when the engine moves.
unsafe impl<S: Source, M: Meter> Engine<S, M> for WindowedPages {
    const SLIDES_LAST: bool = true;

    /// Serves small requests from their class's window.
    #[inline(always)]
    fn allocate(heap: &mut Heap<Self, S, M>, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let pages = &mut heap.engine.pages;
        let Some(class) = pages.class_for(layout) else { return heap.serve_large(layout) };
        let supply = pages.supplies.get_mut(class);
        let Some(block) = supply.take_aligned(layout.align()) else {
            return heap.refill(class, layout);
        };
        let served = Served::whole(block, supply.size as usize, Part::Pages);
        Ok(heap.backing.served(layout, served))
    }

    #[inline(always)]
    fn take(&mut self, layout: Layout, backing: &mut Backing<S, M>) -> Result<Served, AllocError> {
        if !self.pages.is_open() {
            self.open(&mut backing.source)?;
        }
        if let Some(class) = self.pages.class_for(layout) {
            return self.take_of(class, layout, backing);
        }
        let (block, bytes) = match self.pages.take_large(layout, &backing.meter) {
            Some(known) => known,
            None => self.pages.take_large_further(layout, backing)?,
        };
        Ok(Served::whole(block, bytes, Part::Fit))
    }

    #[inline(always)]
    unsafe fn free(heap: &mut Heap<Self, S, M>, block: NonNull<u8>, layout: Layout) {
        match heap.engine.page_of(block, layout) {
            Some(page) => heap.engine.pages.put(page, block, layout.size(), &mut heap.backing),
            None => heap.free_large(block, layout.size()),
        }
    }

    #[inline(always)]
    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        let (size, new_size) = (layout.size(), new_layout.size());
        let bytes = match self.page_of(block, layout) {
            Some(page) => {
                if self.pages.classes.of_size(new_size)? != page.class() {
                    return None;
                }
                let bytes = page.size.get() as usize;
                (bytes, bytes)
            }
            None => {
                // What has become small belongs in a page; what always was is here for a reason.
                let largest = self.pages.largest;
                if (new_size <= largest && size > largest)
                    || !self.pages.resize_large(block, size, new_size, backing)
                {
                    return None;
                }
                (Large::bytes(Large::cells_of(size)), Large::bytes(Large::cells_of(new_size)))
            }
        };
        Some(Resized { contents: NonNull::slice_from_raw_parts(block, bytes.1), bytes })
    }

    unsafe fn keep(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        let new_size = new_layout.size();
        let bytes = match self.page_of(block, layout) {
            Some(page) => {
                let len = page.size.get() as usize;
                (new_size <= len).then_some((len, len))?
            }
            None => self.pages.keep_large(block, new_size, &backing.meter)?,
        };
        Some(Resized { contents: NonNull::slice_from_raw_parts(block, bytes.1), bytes })
    }

    /// A large block that grows moves down into free memory beside it.
    #[cold]
    unsafe fn slide(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        if self.page_of(block, layout).is_some() {
            return None;
        }
        let (pages, meter) = (&mut self.pages, &backing.meter);
        let (block, bytes) = pages.grow_large_down(block, layout, new_layout.size(), meter)?;
        Some(Resized { contents: NonNull::slice_from_raw_parts(block, bytes.1), bytes })
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout, _: &Backing<S, M>) -> bool {
        self.pages.has_block(block, layout)
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.pages.walk(visit);
    }

    fn audit(&self) -> Result<(), Fault> {
        self.pages.audit()
    }
}
