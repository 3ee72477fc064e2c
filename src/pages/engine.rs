//! The page engine of all paged strategies: pages carved into equal blocks, a heap below, and a
//! placement that chooses pages and blocks.
//!
//! ```text
//!  request ─▶ size class ─▶ placement: which page      ─▶ headers: which block of it
//!     │                        └ no page? Pages: S2, else from below
//!     └ no class serves it ─▶ the heap below
//! ```

use core::alloc::Layout;
use core::fmt::Debug;
use core::ptr::NonNull;

use super::below::Below;
use super::class::Classes;
use super::config::Config;
use super::headers::Headers;
use super::store::Pages;
use crate::engine::{Backing, Engine, Heap, Resized, Served};
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::source::Source;
use crate::strategy::{Span, SpanKind};
use crate::tally::Change;

/// A placement distinguishes one paged strategy from another: it chooses the block that serves a
/// request of a class.
pub trait Placement: Debug + Sized {
    /// How page headers are kept.
    type Headers: Headers;

    /// Nothing placed yet.
    const INITIAL: Self;

    /// The smallest block size in bytes that it can work with.
    const LEAST_BLOCK: usize;

    /// The kind of a free block in a page with blocks in use: [`SpanKind::Slack`] if it cannot be
    /// allocated at present.
    const UNUSED: SpanKind;

    /// Takes memory for these classes. May be called again after an error.
    fn open<S: Source>(
        &mut self,
        seed: u64,
        classes: &Classes,
        source: &mut S,
    ) -> Result<(), AllocError>;

    /// Serves a request of any size, including 0. A placement that has a quicker way than
    /// [`Heap::serve`] tries it first.
    #[inline(always)]
    fn allocate<B: Below, S: Source, M: Meter>(
        heap: &mut Heap<PageEngine<Self, B>, S, M>,
        layout: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        heap.serve(layout)
    }

    /// Returns the class that serves a layout, if pages do.
    #[inline(always)]
    fn class_for<B: Below>(pages: &Pages<Self::Headers, B>, layout: Layout) -> Option<u32> {
        pages.classes.of(layout)
    }

    /// Returns whether a block of this class suits a layout as well as a fresh block would.
    #[inline(always)]
    fn suits<B: Below>(pages: &Pages<Self::Headers, B>, class: u32, layout: Layout) -> bool {
        Self::class_for(pages, layout) == Some(class)
    }

    /// Takes a block of a class for a layout.
    fn take<B: Below, S: Source, M: Meter>(
        &mut self,
        class: u32,
        layout: Layout,
        pages: &mut Pages<Self::Headers, B>,
        backing: &mut Backing<S, M>,
    ) -> Result<Served, AllocError>;

    /// Frees a page's block in use that was requested with `requested` bytes, and counts it. Needs
    /// no memory.
    fn free<B: Below, S: Source, M: Meter>(
        heap: &mut Heap<PageEngine<Self, B>, S, M>,
        page: <Self::Headers as Headers>::Page,
        block: NonNull<u8>,
        requested: usize,
    );

    /// [Releases](Pages::release) the pages that the placement keeps although they have no block in
    /// use, as far as it can give them up.
    fn retire<B: Below, M: Meter>(&mut self, _pages: &mut Pages<Self::Headers, B>, _meter: &M) {}

    /// Gives every page without blocks in use back to the heap below. Returns whether there were
    /// any.
    #[cold]
    fn give_back<B: Below, M: Meter>(
        &mut self,
        pages: &mut Pages<Self::Headers, B>,
        meter: &M,
    ) -> bool {
        self.retire(pages, meter);
        pages.give_back(meter)
    }

    /// Calls `take`, and again each time that it finds memory exhausted and there are pages to
    /// [give back](Self::give_back).
    #[inline(always)]
    fn take_or_give_back<T, B: Below, S: Source, M: Meter>(
        &mut self,
        pages: &mut Pages<Self::Headers, B>,
        backing: &mut Backing<S, M>,
        mut take: impl FnMut(
            &mut Self,
            &mut Pages<Self::Headers, B>,
            &mut Backing<S, M>,
        ) -> Result<T, AllocError>,
    ) -> Result<T, AllocError> {
        loop {
            match take(self, pages, backing) {
                // Memory that was dedicated meanwhile is kept for the next attempt.
                Err(_) if self.give_back(pages, &backing.meter) => {}
                taken => return taken,
            }
        }
    }

    /// Takes a block for a layout from the heap below, which had none free, with more of the
    /// source's memory. If the source has none, gives the pages without blocks in use back to the
    /// heap below, and tries again. Returns the block with its length in bytes.
    #[cold]
    #[inline(never)]
    fn take_more<B: Below, S: Source, M: Meter>(
        &mut self,
        layout: Layout,
        pages: &mut Pages<Self::Headers, B>,
        backing: &mut Backing<S, M>,
    ) -> Result<(NonNull<u8>, usize), AllocError> {
        let Backing { source, meter, .. } = backing;
        match pages.below.take_more(layout, source, meter) {
            Err(_) if self.give_back(pages, meter) => match pages.below.take(layout, meter) {
                Some(taken) => Ok(taken),
                None => pages.below.take_more(layout, source, meter),
            },
            taken => taken,
        }
    }

    /// Returns the free blocks of a page that its header does not count: the number of a word's
    /// first block, and the word's bits.
    fn withheld(&self, _class: u32, _page: <Self::Headers as Headers>::Page) -> Option<(u32, u64)> {
        None
    }

    /// Checks the placement's invariants, and returns the number of pages that it keeps. Together
    /// with those on S2 these must be all pages.
    fn audit<B: Below>(&self, pages: &Pages<Self::Headers, B>) -> Result<usize, Fault>;
}

/// The page engine: placement `P` for sizes up to FFCROSSOVER, the heap `B` for larger ones and for
/// the pages.
#[derive(Debug)]
pub struct PageEngine<P: Placement, B> {
    pub(super) config: Config,
    pub(super) placement: P,
    pub(super) pages: Pages<P::Headers, B>,
    /// Whether the size classes are built.
    opened: bool,
}

impl<P: Placement, B> PageEngine<P, B> {
    /// Makes an engine over a heap that is still empty; S2 keeps at most `most_empties` pages.
    pub(super) const fn over(config: Config, most_empties: u32, below: B) -> Self {
        let pages = Pages::new(config.page_size, most_empties, below);
        Self { config, placement: P::INITIAL, pages, opened: false }
    }
}

impl<P: Placement, B: Below> PageEngine<P, B> {
    /// Builds the size classes, unless they are built.
    #[cold]
    pub(super) fn open<S: Source>(&mut self, source: &mut S) -> Result<(), AllocError> {
        if !self.opened {
            let classes = self.pages.open(&self.config, P::LEAST_BLOCK, source)?;
            self.placement.open(self.config.seed, classes, source)?;
            self.pages.opened();
            self.opened = true;
        }
        Ok(())
    }
}

impl<P: Placement, B: Below, S: Source, M: Meter> Heap<PageEngine<P, B>, S, M> {
    /// Returns the parameters.
    pub const fn config(&self) -> &Config {
        &self.engine.config
    }

    /// Builds the size classes now, so that the first allocation need not take memory for them.
    ///
    /// # Errors
    /// [`AllocError::Exhausted`] if the source has no room for them.
    pub fn open(&mut self) -> Result<(), AllocError> {
        self.engine.open(&mut self.backing.source)
    }

    /// Gives every page without blocks in use back to the heap below, including current pages and
    /// those kept for the next class that needs one. Their memory joins the free memory beside it.
    /// The pages of STACK, QUEUE, RANDOM and NOFREE are not given back: they belong to their class
    /// for ever. O(classes and pages).
    pub fn release_empty_pages(&mut self) {
        let PageEngine { placement, pages, .. } = &mut self.engine;
        placement.give_back(pages, &self.backing.meter);
    }

    /// Returns the number of size classes; 0 before the heap was [opened](Self::open).
    #[inline(always)]
    pub fn classes(&self) -> u32 {
        self.engine.pages.classes.count() as u32
    }

    /// Frees a block of the heap below that was requested with `requested` bytes.
    #[inline(never)]
    fn free_below(&mut self, block: NonNull<u8>, requested: usize) {
        if self.engine.pages.below.is_watched() {
            return self.free_below_watched(block, requested);
        }
        self.free_below_unwatched(block, requested);
    }

    /// Like [`free_below`](Self::free_below), but tells the heap below first. (A separate function,
    /// so that freeing itself makes no call and keeps its registers.)
    #[cold]
    #[inline(never)]
    fn free_below_watched(&mut self, block: NonNull<u8>, requested: usize) {
        self.engine.pages.below.about_to_free(block, requested);
        self.free_below_unwatched(block, requested);
    }

    /// Frees a block of the heap below, which has been told if it is watched, and counts the free.
    #[inline(always)]
    fn free_below_unwatched(&mut self, block: NonNull<u8>, requested: usize) {
        let bytes = self.engine.pages.below.free(block, requested, &self.backing.meter);
        self.backing.freed(requested, bytes, Part::Fit);
    }
}

// SAFETY: blocks are disjoint parts of disjoint pages or of the heap below, in the source's extent.
// Headers, classes and the placement's data are in the dedicated memory; tags are between the
// blocks of the heap below, and `InBand`'s links in free blocks. All stay in place when the engine
// moves.
unsafe impl<P: Placement, B: Below, S: Source, M: Meter> Engine<S, M> for PageEngine<P, B> {
    const SLIDES_LAST: bool = true;

    #[inline(always)]
    fn allocate(heap: &mut Heap<Self, S, M>, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        P::allocate(heap, layout)
    }

    #[inline(always)]
    fn take(&mut self, layout: Layout, backing: &mut Backing<S, M>) -> Result<Served, AllocError> {
        if !self.opened {
            self.open(&mut backing.source)?;
        }
        let Self { placement, pages, .. } = self;
        if let Some(class) = P::class_for(pages, layout) {
            return placement.take(class, layout, pages, backing);
        }
        let (block, bytes) = match pages.below.take(layout, &backing.meter) {
            Some(taken) => taken,
            None => placement.take_more(layout, pages, backing)?,
        };
        Ok(Served::whole(block, bytes, Part::Fit))
    }

    #[inline(always)]
    unsafe fn free(heap: &mut Heap<Self, S, M>, block: NonNull<u8>, layout: Layout) {
        match heap.engine.pages.page_of(block, layout) {
            Some(page) => P::free(heap, page, block, layout.size()),
            None => heap.free_below(block, layout.size()),
        }
    }

    /// A block of a page stays if it suits the new layout; a larger block changes its length.
    #[inline(always)]
    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        let pages = &mut self.pages;
        let sizes = Change { old: layout.size(), new: new_layout.size() };
        let bytes = match pages.page_of(block, layout) {
            Some(page) => {
                if !P::suits(pages, pages.headers.class(page), new_layout) {
                    return None;
                }
                Change::none(pages.class_of_page(page).size as usize)
            }
            None => {
                // A block that has become small belongs in a page. One that was small already is
                // here because no page served it.
                if sizes.new <= pages.largest && sizes.old > pages.largest
                    || !pages.resize_below(block, sizes, backing)
                {
                    return None;
                }
                Change { old: pages.below.len_for(sizes.old), new: pages.below.len_for(sizes.new) }
            }
        };
        Some(Resized::whole(block, bytes))
    }

    unsafe fn keep(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        let pages = &mut self.pages;
        let sizes = Change { old: layout.size(), new: new_layout.size() };
        let bytes = match pages.page_of(block, layout) {
            Some(page) => {
                let len = pages.class_of_page(page).size as usize;
                (sizes.new <= len).then_some(Change::none(len))?
            }
            None => pages.below.keep(block, sizes, &backing.meter)?,
        };
        Some(Resized::whole(block, bytes))
    }

    /// A larger block that grows moves down into the free memory below it.
    #[cold]
    unsafe fn slide(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        let pages = &mut self.pages;
        if pages.page_of(block, layout).is_some() {
            return None;
        }
        let meter = &backing.meter;
        let (block, bytes) = pages.below.grow_down(block, layout, new_layout.size(), meter)?;
        meter.served(Part::Fit);
        Some(Resized::whole(block, bytes))
    }

    /// A block of a page may have any layout that fits it: it may have been [kept](Engine::keep)
    /// when it shrank.
    fn has_block(&self, block: NonNull<u8>, layout: Layout, _: &Backing<S, M>) -> bool {
        let pages = &self.pages;
        let Some(page) = pages.headers.at(block.addr().get()) else {
            return pages.below.has_block(block, layout);
        };
        self.is_in_use(page, block, layout.size())
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.walk_pages(visit);
    }

    fn audit(&self) -> Result<(), Fault> {
        self.audit_pages()
    }
}

impl<H: Headers, B: Below> Pages<H, B> {
    /// Resizes a block of the heap below in place, if that can be done; returns whether it was.
    #[inline(never)]
    fn resize_below<S: Source, M: Meter>(
        &mut self,
        block: NonNull<u8>,
        sizes: Change,
        backing: &mut Backing<S, M>,
    ) -> bool {
        let Backing { source, meter, .. } = backing;
        let resized = self.below.resize(block, sizes, source, meter);
        if resized {
            meter.served(Part::Fit);
        }
        resized
    }
}
