//! Pages carved into equal blocks (Brent 1984): the strategies that choose their pages well.
//!
//! A request of at most FFCROSSOVER bytes is rounded up to a size class (SIZEMAP) and served from
//! a page of that class; larger ones, and the pages themselves, come from an O(log n) FIRST-FIT
//! heap (§5.3). The strategies differ only in their [`Placement`]; the
//! [`catalogue`](crate::catalogue) has them under their names.
//!
//! | strategy | placement | Brent |
//! |---|---|---|
//! | STACK, QUEUE, RANDOM | a pool of blocks per class: [`Stack`], [`Queue`], [`AtRandom`] | §2.1–2.3 |
//! | NOFREE, QUICK | bumping: [`NoFree`], [`Quick`] | §2.4, §2.5 |
//! | RANDOM(B) | [`CurrentPage`]`<`[`RandomB`]`>` | §2.8 |
//! | MOST-FREE, LEAST-FREE, MRU | [`CurrentPage`]`<`[`LeftHeaders`]`<…>>` | §2.9–2.11, §4 |
//!
//! Files, in the order they build on each other: `config` (parameters), `class` (SIZEMAP as an
//! array), `header` and `in_page` (a page's header, and its free blocks), `pages`, `placement`
//! (the trait), then the placements `current` with its selections `left` and `random_b`, `bump`
//! and `pool`.

mod bump;
pub(crate) mod class;
mod config;
mod current;
mod header;
mod in_page;
mod left;
mod pages;
mod placement;
mod pool;
mod random;
mod random_b;

use core::alloc::Layout;
use core::ptr::NonNull;

pub use self::bump::{Bump, NoFree, Quick};
pub use self::config::{Config, ConfigError};
pub use self::current::{CurrentPage, Selection};
pub use self::in_page::{Bitmap, InBand, InPage};
pub use self::left::{LeastFree, LeftHeaders, MostFree, Mru, Order};
use self::pages::Pages;
pub use self::placement::Placement;
pub use self::pool::{AtRandom, Chain, ChainOrder, Fifo, Lifo, Queue, Stack};
pub use self::random_b::RandomB;
use crate::engine::{Backing, Engine, Heap, Resized, Served};
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::source::Source;
use crate::strategy::Span;

/// A paged strategy over a source: placement `P` for sizes up to FFCROSSOVER, FIRST-FIT above.
///
/// Allocating and freeing take O(1) in pages, O(log n) above FFCROSSOVER and when a class gets a
/// page. Blocks are aligned to [`Config::unit`] for free and to anything else on request, up to
/// the page size without waste.
///
/// ```
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
/// use pagewise::Strategy;
/// use pagewise::paged::{Config, CurrentPage, LeastFree, LeftHeaders, Paged};
/// use pagewise::source::Region;
///
/// let memory = Box::leak(Box::new([MaybeUninit::<u8>::uninit(); 1 << 16]));
/// let config = Config::with_page_size(4096);
/// let mut heap =
///     Paged::<CurrentPage<LeftHeaders<LeastFree>>, _>::new(config, Region::from_static(memory), ());
///
/// let layout = Layout::new::<[u64; 4]>();
/// let block = heap.allocate(layout).expect("64 KiB hold 32 bytes").cast::<u8>();
/// heap.audit().expect("every invariant holds");
/// // SAFETY: the block was allocated above for this layout.
/// unsafe { heap.deallocate(block, layout) };
/// assert_eq!(heap.usage().blocks, 0);
/// ```
pub type Paged<P, S, M = ()> = Heap<Placed<P>, S, M>;

/// The engine of [`Paged`].
#[derive(Debug)]
pub struct Placed<P: Placement> {
    config: Config,
    placement: P,
    pages: Pages<P::InPage>,
    opened: bool,
}

impl<P: Placement, S: Source, M: Meter> Heap<Placed<P>, S, M> {
    /// The strategy over `source`. Takes no memory before the first allocation.
    ///
    /// # Panics
    /// If the configuration does not [check](Config::check); in a `const`, at compile time.
    #[must_use]
    pub const fn new(config: Config, source: S, meter: M) -> Self {
        assert!(config.check().is_ok(), "the configuration is out of range: see Config::check");
        let pages = Pages::new(granule(&config), config.page_size);
        let engine = Placed { config, placement: P::INITIAL, pages, opened: false };
        Self::over(engine, source, meter)
    }

    /// The parameters.
    pub const fn config(&self) -> &Config {
        &self.engine.config
    }
}

impl<P: Placement> Placed<P> {
    #[cold]
    fn open<S: Source>(&mut self, source: &mut S) -> Result<(), AllocError> {
        self.pages.open(&self.config, P::LEAST_BLOCK, source)?;
        self.placement.open(self.config.seed, &self.pages, source)?;
        self.opened = true;
        Ok(())
    }

    /// A block of FIRST-FIT; where memory is short, S2 gives its pages back first.
    fn take_large<S: Source, M: Meter>(
        &mut self,
        layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Result<Served, AllocError> {
        let Backing { source, meter, .. } = backing;
        let pages = &mut self.pages;
        let len = pages.heap.granules_for(layout.size()).ok_or(AllocError::Exhausted)?;
        let block = loop {
            match pages.heap.allocate(len, layout.align(), source, meter) {
                Ok(block) => break block,
                Err(error) if !pages.give_back(meter) => return Err(error),
                Err(_) => {}
            }
        };
        let bytes = pages.heap.bytes(len);
        let contents = NonNull::slice_from_raw_parts(pages.heap.address(block.start), bytes);
        Ok(Served { contents, bytes, part: Part::Fit })
    }

    /// Makes a block of FIRST-FIT as long as a size needs, if that can be done; its lengths before and
    /// after, bytes.
    fn resize_large<M: Meter>(
        &mut self,
        block: NonNull<u8>,
        (size, new_size): (usize, usize),
        meter: &M,
    ) -> Option<(usize, usize)> {
        let heap = &mut self.pages.heap;
        let start = heap.granule_at(block.addr().get())?;
        let len = heap.granules_for(new_size)?;
        if !heap.resize_block(start, len, meter) {
            return None;
        }
        meter.served(Part::Fit);
        Some((size.next_multiple_of(heap.bytes(1)), heap.bytes(len)))
    }
}

/// Unit in which FIRST-FIT rounds: a 64th of the largest size that pages serve, so that at most
/// one part in 64 of a larger block is lost to rounding.
const fn granule(config: &Config) -> usize {
    let wanted = config.ffcrossover / 64;
    let granule = if wanted == 0 { 1 } else { 1 << wanted.ilog2() };
    if granule < config.unit { config.unit } else { granule }
}

// SAFETY: blocks are disjoint parts of disjoint pages or of FIRST-FIT's heap, in the source's
// extent; all bookkeeping but `InBand`'s links in free blocks lies in the dedicated memory. Both
// stay in place when the engine moves.
unsafe impl<P: Placement, S: Source, M: Meter> Engine<S, M> for Placed<P> {
    fn take(&mut self, layout: Layout, backing: &mut Backing<S, M>) -> Result<Served, AllocError> {
        if !self.opened {
            self.open(&mut backing.source)?;
        }
        let Some(class) = self.pages.class_of(layout) else {
            return self.take_large(layout, backing);
        };
        let block = self.placement.allocate(class, &mut self.pages, backing)?;
        let bytes = self.pages.class(class).size as usize;
        let contents = NonNull::slice_from_raw_parts(block, bytes);
        Ok(Served { contents, bytes, part: Part::Pages })
    }

    unsafe fn free(heap: &mut Heap<Self, S, M>, block: NonNull<u8>, layout: Layout) {
        let Heap { engine, backing } = heap;
        debug_assert!(engine.has_block(block, layout, backing), "a freed block is in use");
        if let Some(class) = engine.pages.class_at(block) {
            engine.placement.free(block, &mut engine.pages, &backing.meter);
            let bytes = engine.pages.class(class).size as usize;
            return backing.freed(layout.size(), bytes, Part::Pages);
        }
        let heap = &mut engine.pages.heap;
        let bytes = layout.size().next_multiple_of(heap.bytes(1));
        let granule = heap.offset(block) / heap.bytes(1);
        heap.release(granule as u32, &backing.meter);
        backing.freed(layout.size(), bytes, Part::Fit);
    }

    /// A block of the same class stays, a larger one changes its length.
    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        if self.pages.class_at(block) != self.pages.class_of(new_layout) {
            return None;
        }
        // SAFETY: passed on.
        unsafe { self.keep(block, layout, new_layout, backing) }
    }

    unsafe fn keep(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        let sizes = (layout.size(), new_layout.size());
        let bytes = match self.pages.class_at(block) {
            Some(class) => {
                let len = self.pages.class(class).size as usize;
                (sizes.1 <= len).then_some((len, len))?
            }
            None => self.resize_large(block, sizes, &backing.meter)?,
        };
        Some(Resized { contents: NonNull::slice_from_raw_parts(block, bytes.1), bytes })
    }

    /// A block of a page may be known by any layout that it can hold: it may have been
    /// [kept](Engine::keep) when it shrank.
    fn has_block(&self, block: NonNull<u8>, layout: Layout, _: &Backing<S, M>) -> bool {
        if !self.opened {
            return false;
        }
        let pages = &self.pages;
        match pages.find(block) {
            Some((page, index)) => {
                let class = pages.class(pages.header(page).class);
                layout.size() <= class.size as usize && !pages.is_free(page, index)
            }
            None if pages.class_at(block).is_some() => false,
            None => {
                let found = (pages.heap.granule_at(block.addr().get()))
                    .and_then(|granule| pages.heap.block_in_use(granule));
                found.is_some_and(|found| {
                    pages.heap.granules_for(layout.size()) == Some(found.len())
                })
            }
        }
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.pages.walk(P::UNUSED, visit);
    }

    fn audit(&self) -> Result<(), Fault> {
        let empty = self.pages.audit()?;
        if self.opened {
            let kept = self.placement.audit(&self.pages)?;
            let origin = self.pages.heap.origin().addr();
            Fault::unless(
                kept + empty == self.pages.count(),
                "every page is on one list, in S2 or current",
                origin,
            )?;
        }
        Ok(())
    }
}
