//! The tunable hybrid allocator, HC (Hasan & Chang 2006): quick lists for small blocks, segregated
//! fits for medium ones, best fit for large ones. Free blocks are joined only when no free block is
//! large enough. Its parameters, the [`Settings`], turn each of these on or off.
//!
//! ```text
//!         up to QL_HIGH             up to 2,032 bytes            above         100 KiB and above
//!  quick  ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪ ▪   free  ▪ ▪ ▪ ▪ ▪ ▪ ▪ … ▪      free  ▪           mappings of their own
//!  lists  │   │ │     │ │     lists │   │ │   │     │      tree ╱ ╲
//!         ▼   ▼ ▼     ▼ ▼     bits  1 0 1 1 0 1 … 1             ▪   ▪
//!         freed, neither            freed: wait; joined          freed: wait; joined
//!         split nor joined
//!  ─────────────────────────── one contiguous heap ────────────────────────────── wilderness ──▶
//! ```
//!
//! Where we deviate, and why:
//! - Block sizes are twice the paper's, as words are twice as large: QL_HIGH is 144, where the
//!   paper has 72. A link is a cell number of 4 bytes, so the smallest block takes 16 bytes, as in
//!   the paper.
//! - Large blocks are found in a tree, and the lowest of a size is taken.
//! - A block on a quick list is marked as not in use, so that a double free is detected.
//! - The paper seems to join large blocks even when COALESCE is off (§5.3 on espresso); here they
//!   are then joined only beyond the threshold. With COALESCE on, they are joined whenever none is
//!   large enough. §3.3 of the paper requires the threshold in that case as well;
//!   [`Settings::strict_threshold`] follows it.
//! - Before a request fails, all free blocks are joined, whatever the parameters say.
//! - The threshold is a percentage of the most bytes in use; that figure is updated when the
//!   threshold is compared, not at each allocation.
//!
//! Like the fits, the heap has its bookkeeping among the blocks. A program that writes outside its
//! blocks can corrupt it.

// | file | contents | paper |
// |---|---|---|
// | `settings` | the parameters, at run time or as constants | §3, Tables 6, 7 |
// | `lists` | free lists, bitmap, best fit | §3.3–3.5 |
// | `heap` | blocks, splitting, preallocation, wilderness | §3.1, §3.6, §3.9, §3.10 |
// | `coalesce` | incremental and complete coalescing | §3.7, §3.8 |
// | `search` | the order in which these are tried | §3.6–3.10 |
// | `resize` | extension both ways | §3.12 |
// | `mapped` | blocks outside the heap | §3.2 |
// | `monitor`, `audit` | figures; spans and invariants | §3.11 |
// | `tuned` | the engine: all of these behind one interface | |

mod audit;
mod coalesce;
mod heap;
mod lists;
mod mapped;
mod monitor;
mod resize;
mod search;
mod settings;
#[cfg(all(test, feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod tests;
mod tuned;

use core::marker::PhantomData;

use self::heap::HybridHeap;
pub use self::monitor::Monitor;
use self::settings::HasSettings;
pub use self::settings::{
    Constant, Generic, Memory, Parameters, Performance, Settings, SettingsError,
};
pub use self::tuned::Tuned;
use crate::engine::Heap;
use crate::meter::Meter;
use crate::source::Source;

/// The hybrid allocator over a source, with its parameters from `T`: a [`Settings`] that may change
/// at run time, or a [`Constant`].
///
/// A block holds 12, 28, 44, … bytes, takes 4 more, and is aligned to 16. Not counting mappings,
/// the heap has at most 16 GiB.
///
/// Time: O(1) if a quick list serves the request, and to free small and medium blocks; expected
/// O(log n) for large blocks. When free blocks are joined, one request pays for the blocks freed
/// before: O(1) for each on average. A mapping costs calls of the system, and a place among the
/// other mappings in address order: O(mappings) in the worst case.
/// [`try_free`](crate::Strategy::try_free) walks the blocks below the address that it is given:
/// O(n).
///
/// ```
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
/// use pagewise::Strategy;
/// use pagewise::hybrid::{Hybrid, Settings};
/// use pagewise::source::Region;
///
/// let memory = Box::leak(Box::new([MaybeUninit::<u8>::uninit(); 1 << 16]));
/// let settings = Settings::generic().ql_high(512);
/// let mut heap = Hybrid::new(settings, Region::from_static(memory), ());
///
/// let layout = Layout::new::<[u64; 5]>();
/// let block = heap.allocate(layout).expect("64 KiB hold 40 bytes");
/// assert_eq!(block.len(), 44);
/// // SAFETY: the block was allocated above for this layout.
/// unsafe { heap.deallocate(block.cast(), layout) };
/// assert_eq!(heap.allocate(layout), Ok(block), "from the quick list");
/// assert_eq!(heap.monitor().expect("MONITOR is on").quick, 1);
/// heap.audit().expect("every invariant holds");
/// ```
pub type Hybrid<T, S, M = ()> = Heap<Tuned<T>, S, M>;

impl<S: Source, M: Meter> Heap<Tuned<Settings>, S, M> {
    /// Makes a heap over `source` with parameters that may change. Takes no memory before the first
    /// allocation.
    ///
    /// # Panics
    /// If the parameters make no sense ([`Settings::check`]); in a `const`, at compile time.
    #[must_use]
    pub const fn new(settings: Settings, source: S, meter: M) -> Self {
        assert!(settings.check().is_ok(), "the parameters make sense");
        Self::over(Tuned { heap: HybridHeap::new(), parameters: settings }, source, meter)
    }

    /// Changes the parameters. If QL_HIGH falls, joins all free blocks, since the quick lists above
    /// it are no longer searched.
    ///
    /// # Errors
    /// The first parameter that is out of its range; nothing is changed.
    pub fn retune(&mut self, settings: Settings) -> Result<(), SettingsError> {
        settings.check()?;
        let engine = &mut self.engine;
        if settings.ql_high < engine.parameters.ql_high {
            let (heap, mut context) = engine.parts(&mut self.backing);
            heap.join_all(&mut context);
        }
        engine.parameters = settings;
        Ok(())
    }
}

impl<P: Parameters, S: Source, M: Meter> Heap<Tuned<Constant<P>>, S, M> {
    /// Makes a heap over `source` with the parameters of `P`. Takes no memory before the first
    /// allocation.
    #[must_use]
    pub const fn constant(source: S, meter: M) -> Self {
        const { assert!(P::SETTINGS.check().is_ok(), "the parameters make sense") };
        let parameters = Constant(PhantomData);
        Self::over(Tuned { heap: HybridHeap::new(), parameters }, source, meter)
    }
}

impl<T: HasSettings, S: Source, M: Meter> Heap<Tuned<T>, S, M> {
    /// Returns the parameters.
    pub fn settings(&self) -> &Settings {
        self.engine.parameters.settings()
    }

    /// Returns the figures of MONITOR; `None` if it is off.
    pub fn monitor(&self) -> Option<&Monitor> {
        self.settings().monitor.then_some(&self.engine.heap.monitor)
    }
}
