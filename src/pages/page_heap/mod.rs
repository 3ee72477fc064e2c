//! PAGEWISE, the default strategy: small blocks come from pages without headers; everything else,
//! and the pages themselves, come from one heap with boundary tags.
//!
//! ```text
//! extent   |[H] large block |[H] page: blocks of 24 B, no headers |[H] free |[H] page: 200 B | …
//! dedicated (upper end)     … size classes | map: frame ─▶ H(P) | H(P), a bit for each block …
//! ```
//! It combines what each paper does best. Blocks up to FFCROSSOVER come from pages of equal blocks
//! chosen by LEAST-FREE (Brent §2.10), with their bookkeeping elsewhere (§4): no header for each
//! block, and blocks of one size side by side. Larger ones, and the pages themselves, come from a
//! good fit over boundary tags (Hasan & Chang §3.1, §3.9), so that both share one memory and the
//! gaps that aligned pages leave serve large blocks.
//!
//! Where it departs from the papers, and why:
//! - **Free blocks are bits, taken a word at a time** (`supply`). Allocating is a test, a count
//!   of trailing zeros and a multiplication; freeing looks the page up and sets a bit. Nothing is
//!   ever written into free small blocks.
//! - **LEAST-FREE is lazy, and by quarters of c.** φ rises with every free; a page moves to another
//!   list only when the engine chooses a page, and at most once for each quarter. Among pages of
//!   one quarter the one that has waited longest comes first: it has gathered the most free blocks.
//! - **A block aligned above the unit is a block that happens to be aligned.** Every second block
//!   of 24 bytes is aligned to 16, so an aligned request takes one of those. Only if the current
//!   page has none does it take a block whose size is a multiple of the alignment. A page that was
//!   searched in vain is not searched again until its free blocks change.
//! - **Rare classes get no pages.** A class gets its first page once it has been requested often;
//!   until then, and again after memory was exhausted, the heap serves it. So an arena with blocks
//!   of many sizes does not fill with pages of one block each.
//! - **The layout gives a block's place and length.** Blocks above the largest class are not in a
//!   page, and their end is known before their tag is read. So a free reads one tag less, and large
//!   blocks are not looked up.
//! - **When memory is exhausted**, pages without blocks in use go back to the heap. If that is not
//!   enough, a small request is served from the heap, from any page of its class, or from a larger
//!   class. A large block that grows moves down over the free memory below it (Hasan & Chang
//!   §3.12).
//!
//! Time: O(1) for small blocks, amortised over the blocks of a page; larger ones and new pages take
//! constant time ([`Good`](crate::fit::Good)). A request that finds memory exhausted takes
//! O(classes), an aligned one O(pages). [`try_free`](crate::Strategy::try_free) is O(1) for small
//! blocks, O(n) for larger ones: it walks the blocks below.
//!
//! Files: `supply` (the source of a class's blocks), `windowed` (the placement), this one; and
//! `shared`, for the global allocator.

#[cfg(all(
    feature = "os",
    any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows),
    not(pagewise_forwarding)
))]
mod shared;
mod supply;
mod windowed;

#[cfg(all(
    feature = "os",
    any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows),
    not(pagewise_forwarding)
))]
pub(crate) use self::shared::FreeKind;
pub use self::windowed::Windowed;
use super::below::tagged::Tagged;
use super::config::Config;
use super::engine::PageEngine;
use crate::engine::Heap;
use crate::meter::Meter;
use crate::source::Source;

/// PAGEWISE over a source: pages for sizes up to FFCROSSOVER, a good fit for larger ones and for
/// the pages, in one region.
///
/// A small block costs its size rounded up to a class, and one bit. A larger one costs its size and
/// 4 bytes, rounded up to 16. Blocks are always aligned to [`Config::unit`], or to 16 bytes if that is
/// more, and to anything else on request. A heap has at most 16 GiB.
///
/// ```
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
/// use pagewise::{PageHeap, Region, Strategy};
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
pub type PageHeap<S, M = ()> = Heap<PageEngine<Windowed, Tagged>, S, M>;

/// Pages without blocks in use that are kept for the next class that needs one.
const SPARE: u32 = 4;

impl<S, M> Heap<PageEngine<Windowed, Tagged>, S, M> {
    /// The parameters that measured best for arenas of 64 KiB and more: see [`Config::arena`].
    pub const CONFIG: Config = Config::arena();
}

impl<S: Source, M: Meter> Heap<PageEngine<Windowed, Tagged>, S, M> {
    /// Makes a heap over `source`. Takes no memory before the first allocation.
    ///
    /// # Panics
    /// If the configuration is [out of range](Config::check); in a `const`, at compile time.
    #[must_use]
    pub const fn new(config: Config, source: S, meter: M) -> Self {
        assert!(config.check().is_ok(), "the configuration is out of range: see Config::check");
        let below = Tagged::growing_by(config.page_size);
        Self::over(PageEngine::over(config, SPARE, below), source, meter)
    }
}
