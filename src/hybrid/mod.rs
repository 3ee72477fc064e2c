//! The tunable hybrid allocator, HC (Hasan & Chang 2006): quick lists for small blocks, segregated
//! fits for medium ones, best fit for large ones, and joining free blocks put off until it is
//! needed. Which of that a program needs is for its parameters to say.
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
//! | file | what | paper |
//! |---|---|---|
//! | `config` | the parameters, at run time or as constants | §3, Tables 6, 7 |
//! | `quick` | quick lists | §3.10 |
//! | `lists` | free lists, bitmap, best fit | §3.3–3.5 |
//! | `heap` | blocks, splitting, preallocation, wilderness | §3.1, §3.6, §3.9, §3.10 |
//! | `coalesce` | incremental and complete coalescing | §3.7, §3.8 |
//! | `search` | the order in which all that is tried | §3.6–3.10 |
//! | `resize` | extension both ways | §3.12 |
//! | `mapped` | blocks outside the heap | §3.2 |
//! | `monitor`, `audit` | what can be told of it | §3.11 |
//!
//! Where we deviate, and why:
//! - Sizes of blocks are twice the paper's, as words are (see `config`). A link is a cell number of
//!   4 bytes, so the least block takes 16 bytes, as in the paper.
//! - Large blocks are found in a tree, and the lowest of a size is taken (see `lists`).
//! - A block on a quick list is marked as not in use (see `quick`), so that a double free can be told.
//! - The paper reads as if COALESCE, when off, left large blocks out (§5.3 on espresso): they are
//!   then joined only beyond the threshold (§3.3).
//! - Before a request fails, all free blocks are joined, whatever the parameters say.
//! - The most bytes in use, of which the threshold is a percentage, is noted when the threshold is
//!   asked for, not at each allocation.
//!
//! Like the fits, the heap has its bookkeeping among the blocks. A program that writes outside its
//! blocks can destroy it.

mod audit;
mod coalesce;
mod config;
mod heap;
mod lists;
mod mapped;
mod monitor;
mod quick;
mod resize;
mod search;
#[cfg(all(test, feature = "std", unix))]
mod tests;

use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr::NonNull;

pub use self::config::{
    Config, ConfigError, Constant, Generic, Memory, Parameters, Performance, Tuning,
};
use self::heap::{Context, Heap, bytes, cells_for};
pub use self::monitor::Monitor;
use crate::block::tag::{self, Block, CELL, TAG};
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::source::{Owned, Source};
use crate::strategy::{Span, Strategy, Tally, Usage, empty_block, keep_aligned, move_to_another};
use crate::walk;

/// The hybrid allocator over a source, with its parameters from `T`: a [`Config`] that may change
/// at run time, or a [`Constant`].
///
/// A block of 12, 28, 44, … bytes takes 4 more, and is aligned to 16. The heap has at most 16 GiB,
/// mappings apart.
///
/// Time: O(1) where a quick list serves, and to free small and medium blocks; large blocks O(log n)
/// expected. When free blocks are joined, one request pays for the blocks freed before: O(1) for
/// each on average. [`try_free`](Strategy::try_free) walks the blocks below the address it is asked
/// about: O(n).
///
/// ```
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
/// use pagewise::Strategy;
/// use pagewise::hybrid::{Config, Hybrid};
/// use pagewise::source::Region;
///
/// let memory = Box::leak(Box::new([MaybeUninit::<u8>::uninit(); 1 << 16]));
/// let config = Config { ql_high: 512, ..Config::generic() };
/// let mut heap = Hybrid::new(config, Region::from_static(memory), ());
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
#[derive(Debug)]
pub struct Hybrid<T, S, M = ()> {
    heap: Heap,
    tuning: T,
    source: Owned<S>,
    meter: M,
    tally: Tally,
}

impl<S: Source, M: Meter> Hybrid<Config, S, M> {
    /// The heap over `source` with parameters that may change. Takes no memory before the first
    /// allocation.
    ///
    /// # Panics
    /// If the parameters make no sense ([`Config::check`]); in a `const`, at compile time.
    #[must_use]
    pub const fn new(config: Config, source: S, meter: M) -> Self {
        assert!(config.check().is_ok(), "the parameters make sense");
        Self {
            heap: Heap::new(),
            tuning: config,
            source: Owned::new(source),
            meter,
            tally: Tally::new(),
        }
    }

    /// Changes the parameters. If QL_HIGH falls, all free blocks are joined, for the quick lists
    /// above it would be forgotten.
    ///
    /// # Errors
    /// The first parameter that is out of its range; nothing is changed.
    pub fn retune(&mut self, config: Config) -> Result<(), ConfigError> {
        config.check()?;
        if config.ql_high < self.tuning.ql_high {
            let (heap, mut context) = self.parts();
            heap.join_all(&mut context);
        }
        self.tuning = config;
        Ok(())
    }
}

impl<P: Parameters, S: Source, M: Meter> Hybrid<Constant<P>, S, M> {
    /// The heap over `source` with the parameters of `P`. Takes no memory before the first
    /// allocation.
    #[must_use]
    pub const fn constant(source: S, meter: M) -> Self {
        const { assert!(P::CONFIG.check().is_ok(), "the parameters make sense") };
        let tuning = Constant(PhantomData);
        Self { heap: Heap::new(), tuning, source: Owned::new(source), meter, tally: Tally::new() }
    }
}

impl<T: Tuning, S: Source, M: Meter> Hybrid<T, S, M> {
    /// The parameters.
    pub fn config(&self) -> &Config {
        self.tuning.config()
    }

    /// What MONITOR keeps; `None` if it is off.
    pub fn monitor(&self) -> Option<&Monitor> {
        self.config().monitor.then_some(&self.heap.monitor)
    }

    /// The heap, and what it works with.
    fn parts(&mut self) -> (&mut Heap, Context<'_, Owned<S>, M>) {
        let usage = self.tally.usage();
        let context = Context {
            config: self.tuning.config(),
            source: &mut self.source,
            meter: &self.meter,
            in_use: usage.block + usage.blocks * TAG,
            frees: usage.frees,
        };
        (&mut self.heap, context)
    }

    /// Counts a request served by a block of so many bytes.
    #[inline(always)]
    fn served(&mut self, requested: usize, block: NonNull<u8>, bytes: usize) -> NonNull<[u8]> {
        self.meter.served(Part::Fit);
        self.tally.allocated(requested, bytes);
        if self.tuning.config().monitor {
            let monitor = &mut self.heap.monitor;
            monitor.requested += requested as u64;
            monitor.most_blocks = monitor.most_blocks.max(self.tally.usage().blocks);
        }
        NonNull::slice_from_raw_parts(block, bytes)
    }

    /// Where a block's contents lie.
    #[inline(always)]
    fn contents(&self, start: u32) -> NonNull<u8> {
        // SAFETY: a block lies in the heap, which is valid memory, hence not at address 0.
        unsafe { NonNull::new_unchecked(self.heap.cells.contents(start)) }
    }

    /// Serves a request that no quick list could.
    #[inline(never)]
    fn allocate_slowly(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(empty_block(layout));
        }
        if layout.size() >= self.config().mmap_threshold
            && let Ok(mapped) = mapped::map(&mut self.source, layout)
        {
            self.tally.held(self.source.held());
            return Ok(self.served(layout.size(), mapped.cast(), mapped.len()));
        }
        let len = cells_for(layout.size()).ok_or(AllocError::Exhausted)?;
        let (heap, mut context) = self.parts();
        let block = if layout.align() <= CELL {
            heap.allocate(len, &mut context)
        } else {
            heap.allocate_aligned(len, layout.align(), &mut context)
        };
        self.tally.held(self.source.held());
        let block = block?;
        Ok(self.served(layout.size(), self.contents(block.start), bytes(block.len)))
    }

    /// Frees a block that goes on no quick list.
    #[inline(never)]
    fn free_slowly(&mut self, block: NonNull<u8>, requested: usize, len: u32) {
        if len == 0 {
            // SAFETY: a block in use of no cells is a mapped one.
            unsafe {
                let bytes = mapped::len(block);
                self.source.unmap(block);
                self.tally.held(self.source.held());
                self.tally.freed(requested, bytes);
            }
            return;
        }
        let start = self.start_of(block);
        let prev_in_use = self.heap.cells.prev_is_in_use(start);
        self.meter.touch(self.heap.cells.header(start));
        self.heap.release(Block { start, len }, prev_in_use, &self.meter);
        self.tally.freed(requested, bytes(len));
    }

    /// The cell at which a block of the heap starts.
    #[inline(always)]
    fn start_of(&self, block: NonNull<u8>) -> u32 {
        let offset = block.addr().get() - self.heap.cells.origin().addr();
        (offset / CELL) as u32
    }

    /// Joins all free blocks if few are left in use and much is held (§3.11).
    #[inline(always)]
    fn coalesce_in_free(&mut self) {
        let config = self.tuning.config();
        if config.coalesce_in_free
            && self.tally.usage().blocks < config.few_blocks
            && self.source.held() > config.much_held
        {
            let (heap, mut context) = self.parts();
            heap.join_all(&mut context);
        }
    }
}

// SAFETY: the heap's blocks are disjoint parts of the source's extent, and its tags and links lie
// between them and in those not in use; mapped blocks are disjoint mappings. All stay in place when
// the strategy moves.
unsafe impl<T: Tuning, S: Source, M: Meter> Strategy for Hybrid<T, S, M> {
    #[inline]
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let (size, config) = (layout.size(), self.tuning.config());
        let small = config.ql_high.saturating_sub(TAG);
        // A size of 0 wraps round, and goes the long way.
        if size.wrapping_sub(1) < small && layout.align() <= CELL {
            let len = (size + TAG).div_ceil(CELL) as u32;
            let Heap { cells, quick, monitor, .. } = &mut self.heap;
            if let Some(start) = quick.pop(len, cells, &self.meter) {
                if config.monitor {
                    monitor.quick += 1;
                }
                return Ok(self.served(size, self.contents(start), bytes(len)));
            }
        }
        self.allocate_slowly(layout)
    }

    #[inline]
    unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) {
        let requested = layout.size();
        if requested == 0 {
            return;
        }
        debug_assert!(self.heap.top == 0 || self.is_sound(block), "a freed block is in use");
        // SAFETY: the caller's block is in use.
        let len = unsafe { tag::len_at(block) };
        // A mapped block, of no cells, wraps round.
        if len.wrapping_sub(1) < self.tuning.config().ql_cells() {
            let start = self.start_of(block);
            let Heap { cells, quick, .. } = &mut self.heap;
            quick.push(start, len, cells, &self.meter);
            self.tally.freed(requested, bytes(len));
        } else {
            self.free_slowly(block, requested, len);
        }
        self.meter.served(Part::Fit);
        self.coalesce_in_free();
    }

    unsafe fn resize_in_place(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<[u8]>> {
        if layout.size() == 0 || new_size == 0 {
            return None;
        }
        // SAFETY: the caller's block is in use.
        let (old, new) = match unsafe { tag::len_at(block) } {
            // SAFETY: as above, and it is a mapped one.
            0 => match unsafe { mapped::len(block) } {
                // What would free at least half of it had better be moved.
                old if new_size <= old && new_size > old / 2 => (old, old),
                _ => return None,
            },
            len => {
                let old = Block { start: self.start_of(block), len };
                let wanted = cells_for(new_size)?;
                // The block may stay as it is if it is what the request would get.
                if len - 1 > wanted || len < wanted {
                    let (heap, mut context) = self.parts();
                    let new = heap.resize(old, wanted, &mut context)?;
                    self.tally.held(self.source.held());
                    (bytes(len), bytes(new.len))
                } else {
                    (bytes(len), bytes(len))
                }
            }
        };
        self.tally.resized((layout.size(), new_size), (old, new));
        Some(NonNull::slice_from_raw_parts(block, new))
    }

    unsafe fn relocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: passed on.
        match unsafe { self.resize_downwards(block, layout, new_size) } {
            Some(moved) => Ok(moved),
            // SAFETY: passed on.
            None => unsafe { move_to_another(self, block, layout, new_size) },
        }
    }

    unsafe fn keep(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
    ) -> Option<NonNull<[u8]>> {
        let (size, new_size) = (layout.size(), new_layout.size());
        // SAFETY: the caller's block is in use, if it is not of size 0; one of no cells is mapped.
        let mapped =
            (size > 0 && unsafe { tag::len_at(block) } == 0).then(|| unsafe { mapped::len(block) });
        let Some(len) = mapped else {
            // SAFETY: passed on; a block is found by its address, whatever its alignment.
            return unsafe { keep_aligned(self, block, layout, new_layout) };
        };
        let stays =
            (1..=len).contains(&new_size) && block.addr().get().is_multiple_of(new_layout.align());
        stays.then(|| {
            self.tally.resized((size, new_size), (len, len));
            NonNull::slice_from_raw_parts(block, len)
        })
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout) -> bool {
        let address = block.addr().get();
        match self.heap.find_in_use(address) {
            Some(found) => cells_for(layout.size())
                .is_some_and(|cells| cells == found.len || cells + 1 == found.len),
            None => mapped::find(&self.source, address).is_some_and(|len| layout.size() <= len),
        }
    }

    fn owns(&self, block: NonNull<u8>) -> bool {
        let address = block.addr().get();
        self.source.extent().contains(&address) || mapped::find(&self.source, address).is_some()
    }

    fn usage(&self) -> Usage {
        self.tally.usage()
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        let origin = self.source.extent().start;
        mapped::walk(&self.source, origin, true, visit);
        self.heap.walk(visit);
        walk::dedicated(&self.source, visit);
        mapped::walk(&self.source, origin, false, visit);
    }

    fn audit(&self) -> Result<(), Fault> {
        self.heap.audit()?;
        walk::check(self)
    }
}

impl<T: Tuning, S: Source, M: Meter> Hybrid<T, S, M> {
    /// Whether a block of the heap is in use, as far as its own tag and the next one's say; of a
    /// mapped one nothing can be said.
    fn is_sound(&self, block: NonNull<u8>) -> bool {
        self.heap.cells.cell_at(block.addr().get()).is_none_or(|start| {
            let end = self.heap.cells.block(start).end();
            self.heap.cells.is_in_use(start) && self.heap.cells.prev_is_in_use(end)
        })
    }
}
