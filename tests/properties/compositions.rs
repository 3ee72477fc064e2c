//! Compositions that are not in the catalogue: policies that no published strategy combines, and
//! extreme parameters.

use pagewise::Strategy;
use pagewise::catalogue::{
    CollectedBestFit, CollectedFirstFit, FirstFit, Kingsley, LazyBestFit, LazyFirstFit, PageHeap,
};
use pagewise::fit::{
    BoundaryTagHeap, Bounded, Deferred, Fifo, First, Front, Good, Immediate, Joining, Next, NoArea,
    Releasing, Segregated, Sparing, Worst,
};
use pagewise::head_first::{ChunkUp, NoChunkUp, RegionFirst, SpaceFitting};
use pagewise::hybrid::{Hybrid, Settings};
use pagewise::pages::placement::{AnyPage, CurrentPage, InBand, LeftHeaders, Most, MostRecent};
use pagewise::pages::{Config, Paged};
use pagewise::source::Source;

use crate::Subject;
use crate::harness::Bookkeeping;

/// Builds a composition.
pub(crate) type Make = for<'a> fn(Config, Box<dyn Source + 'a>) -> Box<dyn Strategy + 'a>;

/// A strategy that links free blocks through the blocks themselves.
type Linked<O, S> = Paged<CurrentPage<LeftHeaders<O>, InBand>, S>;

/// The hybrid with everything off: segregated storage, no quick lists.
const NOTHING: Settings =
    Settings::performance().ql_high(0).coalesce_in_free(false).split(false).preallocate(0);

/// The hybrid with everything on, as early as possible.
const EAGER: Settings = Settings::generic()
    .ql_high(2032)
    .threshold(100)
    .coalesce_in_free(true)
    .few_blocks(1000)
    .much_held(0)
    .preallocate(1000)
    .growth(16);

/// Family, name, where the bookkeeping is, how it is made.
macro_rules! compositions {
    ($($family:literal $name:literal, $bookkeeping:ident, $make:expr;)*) => {
        [$({
            let make: Make = $make;
            Subject::composed($family, $name, Bookkeeping::$bookkeeping, make)
        }),*]
    };
}

/// Returns all compositions.
#[allow(clippy::too_many_lines, reason = "a table")]
pub(crate) fn all() -> impl Iterator<Item = Subject> {
    compositions! {
        "brent" "FIRST-FIT, large segments", Apart, |config, source| {
            let heap = FirstFit::with_segments(config.unit, 256 * config.unit, 1 << 14, source, ());
            Box::new(heap)
        };
        "brent" "MOST-FREE, linked", Apart, |config, source| {
            Box::new(Linked::<Most, _>::new(config, source, ()))
        };
        "brent" "MRU, linked", Apart, |config, source| {
            Box::new(Linked::<MostRecent, _>::new(config, source, ()))
        };
        "brent" "RANDOM(B), linked", Apart, |config, source| {
            Box::new(Paged::<CurrentPage<AnyPage, InBand>, _>::new(config, source, ()))
        };
        "default" "PAGEWISE, of an arena", InBand, |_, source| {
            Box::new(PageHeap::new(Config::arena(), source, ()))
        };
        "fits" "SEGREGATED-FIT, LIFO", InBand, |config, source| {
            Box::new(BoundaryTagHeap::<Segregated<Front>, Immediate, NoArea, _>::new(config.page_size, source, ()))
        };
        "fits" "NEXT-FIT, deferred", InBand, |config, source| {
            Box::new(BoundaryTagHeap::<Next, Deferred, NoArea, _>::new(config.page_size, source, ()))
        };
        "fits" "FIRST-FIT (FIFO), deferred", InBand, |config, source| {
            Box::new(BoundaryTagHeap::<Fifo, Deferred, NoArea, _>::new(config.unit.max(16), source, ()))
        };
        // The paper's future work: other fits after the region.
        "head-firsts" "FIRST-FIT behind the region", InBand, |config, source| {
            type Heap<S> = SpaceFitting<RegionFirst, NoChunkUp, First, S>;
            Box::new(Heap::new(config.page_size, source, ()))
        };
        "head-firsts" "WORST-FIT behind the region", InBand, |config, source| {
            type Heap<S> = SpaceFitting<RegionFirst, ChunkUp, Worst, S>;
            Box::new(Heap::new(config.page_size, source, ()))
        };
        "head-firsts" "GOOD-FIT behind the region", InBand, |config, source| {
            type Heap<S> = SpaceFitting<RegionFirst, ChunkUp, Good, S>;
            Box::new(Heap::new(config.page_size, source, ()))
        };
        "hasan" "everything off", InBand, |_, source| Box::new(Hybrid::new(NOTHING, source, ()));
        "hasan" "everything on", InBand, |_, source| Box::new(Hybrid::new(EAGER, source, ()));
        "hasan" "by the page", InBand, |config, source| {
            let settings = Settings::memory()
                .ql_high(config.ffcrossover.min(2032) / 16 * 16)
                .growth(config.page_size)
                .coalesce(config.freetol == 1)
                .split(config.page_size > 1024);
            Box::new(Hybrid::new(settings, source, ()))
        };
        "hasan" "KINGSLEY, by the page", InBand, |config, source| {
            Box::new(Kingsley::new(config.page_size, source, ()))
        };
        "lazy" "LBB (BOUNDED)", InBand, |config, source| {
            Box::new(LazyBestFit::<Bounded<Joining, 64>, _>::new(config.page_size, source, ()))
        };
        "lazy" "LFL (SPARING)", InBand, |config, source| {
            Box::new(LazyFirstFit::<Sparing<Releasing>, _>::new(config.page_size, source, ()))
        };
        // The heap grows by as little as possible, so every allocation reaches its end.
        "lazy" "LFB, growing by cells", InBand, |config, source| {
            Box::new(LazyFirstFit::<Joining, _>::new(config.unit.max(16), source, ()))
        };
        "lazy" "LFL, growing by cells", InBand, |config, source| {
            Box::new(LazyFirstFit::<Releasing, _>::new(config.unit.max(16), source, ()))
        };
        "lazy" "F (GC), growing by cells", InBand, |config, source| {
            let growth = config.unit.max(16);
            Box::new(CollectedFirstFit::<NoArea, _>::new(growth, source, ()))
        };
        "lazy" "LBB (GC)", InBand, |config, source| {
            Box::new(CollectedBestFit::<Joining, _>::new(config.page_size, source, ()))
        };
        "lazy" "LFB (DEFERRED)", InBand, |config, source| {
            Box::new(BoundaryTagHeap::<Segregated, Deferred, Joining, _>::new(config.page_size, source, ()))
        };
        "lazy" "LFB (BOUNDED, SPARING, DEFERRED)", InBand, |config, source| {
            type Area = Sparing<Bounded<Joining, 256>>;
            Box::new(BoundaryTagHeap::<Segregated, Deferred, Area, _>::new(config.page_size, source, ()))
        };
    }
    .into_iter()
}
