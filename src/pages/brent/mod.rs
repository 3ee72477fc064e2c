//! Brent's strategies: the placements of the paper over FIRST-FIT.

mod any_page;
mod blocks;
mod bump;
mod current;
mod left;
mod paper;
mod pool;
mod random;

pub use self::any_page::AnyPage;
pub use self::bump::Bump;
pub use self::current::CurrentPage;
pub use self::left::{Least, LeftHeaders, Most, MostRecent};
pub use self::pool::{AtRandom, Chain};
use super::config::Config;
use super::engine::{PageEngine, Placement};
use crate::engine::Heap;
use crate::meter::Meter;
use crate::segments::SegmentHeap;
use crate::source::Source;

/// A paged strategy over a source: placement `P` for sizes up to FFCROSSOVER, FIRST-FIT above
/// (Brent §5.3). The [`catalogue`](crate::catalogue) has them under their names.
///
/// Allocating and freeing take O(1) in pages, O(log n) above FFCROSSOVER and when a class gets a
/// page. Blocks are always aligned to [`Config::unit`], and to anything else on request, up to the
/// page size without waste.
///
/// ```
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
/// use pagewise::pages::placement::{CurrentPage, Least, LeftHeaders};
/// use pagewise::pages::{Config, Paged};
/// use pagewise::{Region, Strategy};
///
/// let memory = Box::leak(Box::new([MaybeUninit::<u8>::uninit(); 1 << 16]));
/// let config = Config::with_page_size(4096);
/// let mut heap =
///     Paged::<CurrentPage<LeftHeaders<Least>>, _>::new(config, Region::from_static(memory), ());
///
/// let layout = Layout::new::<[u64; 4]>();
/// let block = heap.allocate(layout).expect("64 KiB hold 32 bytes").cast::<u8>();
/// heap.audit().expect("every invariant holds");
/// // SAFETY: the block was allocated above for this layout.
/// unsafe { heap.deallocate(block, layout) };
/// assert_eq!(heap.usage().blocks, 0);
/// ```
pub type Paged<P, S, M = ()> = Heap<PageEngine<P, SegmentHeap>, S, M>;

impl<P: Placement, S: Source, M: Meter> Heap<PageEngine<P, SegmentHeap>, S, M> {
    /// Makes a heap over `source`. Takes no memory before the first allocation.
    ///
    /// # Panics
    /// If the configuration is [out of range](Config::check); in a `const`, at compile time.
    #[must_use]
    pub const fn new(config: Config, source: S, meter: M) -> Self {
        assert!(config.check().is_ok(), "the configuration is out of range: see Config::check");
        let granule = granule(&config);
        let segment = 64 * granule;
        let growth = if segment < config.page_size { config.page_size } else { segment };
        let below = SegmentHeap::new(granule, segment, growth);
        Self::over(PageEngine::over(config, u32::MAX, below), source, meter)
    }
}

/// Returns the unit in which FIRST-FIT rounds: a 64th of the largest size that pages serve, so that
/// rounding loses at most one part in 64 of a larger block.
const fn granule(config: &Config) -> usize {
    let wanted = config.ffcrossover / 64;
    let granule = if wanted == 0 { 1 } else { 1 << wanted.ilog2() };
    if granule < config.unit { config.unit } else { granule }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The power of two at most a 64th of FFCROSSOVER, and not below the unit.
    #[test]
    fn larger_blocks_lose_one_part_in_64() {
        let of = |unit, ffcrossover| granule(&Config { unit, ffcrossover, ..Config::new() });
        assert_eq!([of(16, 1 << 14), of(16, 16_383), of(1, 6400), of(8, 512)], [256, 128, 64, 8]);
        assert_eq!([of(16, 120), of(1, 64), of(1, 63), of(1, 0), of(8, 0)], [16, 1, 1, 1, 8]);
    }

    /// Blocks that hold links while free are at least as long as a link, whatever the unit.
    #[test]
    fn blocks_hold_their_links() {
        use crate::pages::headers::in_page::InBand;
        type InBlocks = CurrentPage<LeftHeaders<Least>, InBand>;
        let mut memory = std::vec![core::mem::MaybeUninit::<u64>::uninit(); 1 << 13];
        // SAFETY: only the heap uses the memory, which outlives it.
        let region = unsafe {
            crate::source::Region::new(memory.as_mut_ptr().cast(), size_of_val(&*memory))
        };
        let config = Config::with_page_size(512).unit(1);
        let mut heap = Paged::<InBlocks, _>::new(config, region, ());
        heap.open().expect("there is memory");
        assert_eq!(heap.engine.pages.class(0).size, 4);
    }
}
