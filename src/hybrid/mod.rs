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
//! - A block on a quick list is marked as not in use, so that a double free can be told.
//! - The paper reads as if COALESCE, when off, excepted large blocks (§5.3 on espresso): they are
//!   then joined only beyond the threshold (§3.3).
//! - Before a request fails, all free blocks are joined, whatever the parameters say.
//! - The threshold is a percentage of the most bytes in use; that figure is updated when the threshold
//!   is compared, not at each allocation.
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
use self::heap::{Context, HybridHeap, Size};
pub use self::monitor::Monitor;
use crate::engine::{Backing, Engine, Heap, Resized, Served};
use crate::error::{AllocError, Fault};
use crate::meter::{Meter, Part};
use crate::source::{Owned, Source};
use crate::strategy::Span;
use crate::tags::{Block, CELL, TAG, header};

/// The hybrid allocator over a source, with its parameters from `T`: a [`Config`] that may change
/// at run time, or a [`Constant`].
///
/// A block of 12, 28, 44, … bytes takes 4 more, and is aligned to 16. The heap has at most 16 GiB,
/// mappings apart.
///
/// Time: O(1) where a quick list serves, and to free small and medium blocks; large blocks O(log n)
/// expected. When free blocks are joined, one request pays for the blocks freed before: O(1) for
/// each on average. [`try_free`](crate::Strategy::try_free) walks the blocks below the address it is asked
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
pub type Hybrid<T, S, M = ()> = Heap<Tuned<T>, S, M>;

/// The engine of [`Hybrid`].
#[derive(Debug)]
pub struct Tuned<T> {
    heap: HybridHeap,
    tuning: T,
}

impl<S: Source, M: Meter> Heap<Tuned<Config>, S, M> {
    /// The heap over `source` with parameters that may change. Takes no memory before the first
    /// allocation.
    ///
    /// # Panics
    /// If the parameters make no sense ([`Config::check`]); in a `const`, at compile time.
    #[must_use]
    pub const fn new(config: Config, source: S, meter: M) -> Self {
        assert!(config.check().is_ok(), "the parameters make sense");
        Self::over(Tuned { heap: HybridHeap::new(), tuning: config }, source, meter)
    }

    /// Changes the parameters. If QL_HIGH falls, all free blocks are joined, for the quick lists
    /// above it would be forgotten.
    ///
    /// # Errors
    /// The first parameter that is out of its range; nothing is changed.
    pub fn retune(&mut self, config: Config) -> Result<(), ConfigError> {
        config.check()?;
        let engine = &mut self.engine;
        if config.ql_high < engine.tuning.ql_high {
            let (heap, mut context) = engine.parts(&mut self.backing);
            heap.join_all(&mut context);
        }
        engine.tuning = config;
        Ok(())
    }
}

impl<P: Parameters, S: Source, M: Meter> Heap<Tuned<Constant<P>>, S, M> {
    /// The heap over `source` with the parameters of `P`. Takes no memory before the first
    /// allocation.
    #[must_use]
    pub const fn constant(source: S, meter: M) -> Self {
        const { assert!(P::CONFIG.check().is_ok(), "the parameters make sense") };
        let tuning = Constant(PhantomData);
        Self::over(Tuned { heap: HybridHeap::new(), tuning }, source, meter)
    }
}

impl<T: Tuning, S: Source, M: Meter> Heap<Tuned<T>, S, M> {
    /// The parameters.
    pub fn config(&self) -> &Config {
        self.engine.tuning.config()
    }

    /// What MONITOR keeps; `None` if it is off.
    pub fn monitor(&self) -> Option<&Monitor> {
        self.config().monitor.then_some(&self.engine.heap.monitor)
    }
}

impl<T: Tuning> Tuned<T> {
    /// The heap, and what it works with.
    fn parts<'c, S: Source, M: Meter>(
        &'c mut self,
        backing: &'c mut Backing<S, M>,
    ) -> (&'c mut HybridHeap, Context<'c, Owned<S>, M>) {
        let context = Context {
            config: self.tuning.config(),
            in_use: backing.tally.block_bytes() + backing.tally.blocks() * TAG,
            frees: backing.tally.frees(),
            source: &mut backing.source,
            meter: &backing.meter,
        };
        (&mut self.heap, context)
    }

    /// A block that serves a request, one more than the `blocks` in use.
    #[inline(always)]
    fn served(
        &mut self,
        requested: usize,
        block: NonNull<u8>,
        bytes: usize,
        blocks: usize,
    ) -> Served {
        if self.tuning.config().monitor {
            let monitor = &mut self.heap.monitor;
            monitor.requested += requested as u64;
            monitor.most_blocks = monitor.most_blocks.max(blocks + 1);
        }
        let contents = NonNull::slice_from_raw_parts(block, bytes);
        Served { contents, bytes, part: Part::Fit }
    }

    /// Where a block's contents lie.
    #[inline(always)]
    fn contents(&self, start: u32) -> NonNull<u8> {
        // SAFETY: a block lies in the heap, which is valid memory, hence not at address 0.
        unsafe { NonNull::new_unchecked(self.heap.cells.contents(start)) }
    }

    /// Takes a block that no quick list has.
    #[inline(never)]
    fn take_slowly<S: Source, M: Meter>(
        &mut self,
        layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Result<Served, AllocError> {
        let blocks = backing.tally.blocks();
        if layout.size() >= self.tuning.config().mmap_threshold
            && let Ok(mapped) = mapped::map(&mut backing.source, layout)
        {
            return Ok(self.served(layout.size(), mapped.cast(), mapped.len(), blocks));
        }
        let len = Size::cells_for(layout.size()).ok_or(AllocError::Exhausted)?;
        let (heap, mut context) = self.parts(backing);
        let block = if layout.align() <= CELL {
            heap.allocate(len, &mut context)?
        } else {
            heap.allocate_aligned(len, layout.align(), &mut context)?
        };
        let contents = self.contents(block.start);
        Ok(self.served(layout.size(), contents, Size::bytes(block.len), blocks))
    }

    /// Frees a block that goes on no quick list.
    #[inline(never)]
    fn free_slowly<S: Source, M: Meter>(
        &mut self,
        block: NonNull<u8>,
        len: u32,
        backing: &mut Backing<S, M>,
    ) -> usize {
        if len == 0 {
            // SAFETY: a block in use of no cells is a mapped one.
            return unsafe {
                let bytes = mapped::len(block);
                backing.source.unmap(block);
                bytes
            };
        }
        let start = self.start_of(block);
        let prev_in_use = self.heap.cells.prev_is_in_use(start);
        backing.meter.touch(self.heap.cells.header(start));
        self.heap.release(Block { start, len }, prev_in_use, &backing.meter);
        Size::bytes(len)
    }

    /// Joins all free blocks if few blocks are in use and much memory is held (§3.11).
    #[inline(always)]
    fn coalesce_in_free<S: Source, M: Meter>(&mut self, backing: &mut Backing<S, M>) {
        let config = self.tuning.config();
        if config.coalesce_in_free
            && backing.tally.blocks() < config.few_blocks
            && backing.source.held() > config.much_held
        {
            let (heap, mut context) = self.parts(backing);
            heap.join_all(&mut context);
        }
    }

    /// The cell at which a block of the heap starts.
    #[inline(always)]
    fn start_of(&self, block: NonNull<u8>) -> u32 {
        let offset = block.addr().get() - self.heap.cells.origin().addr();
        (offset / CELL) as u32
    }

    /// Whether a block of the heap is in use, as far as its own tag and the next one's say; of a
    /// mapped one nothing can be said.
    fn is_sound(&self, block: NonNull<u8>) -> bool {
        self.heap.cells.cell_at(block.addr().get()).is_none_or(|start| {
            let end = self.heap.cells.block(start).end();
            self.heap.cells.is_in_use(start) && self.heap.cells.prev_is_in_use(end)
        })
    }
}

// SAFETY: the heap's blocks are disjoint parts of the source's extent, and its tags and links lie
// between them and in those not in use; mapped blocks are disjoint mappings. All stay in place when
// the engine moves.
unsafe impl<T: Tuning, S: Source, M: Meter> Engine<S, M> for Tuned<T> {
    #[inline]
    fn take(&mut self, layout: Layout, backing: &mut Backing<S, M>) -> Result<Served, AllocError> {
        let (size, config) = (layout.size(), self.tuning.config());
        if size <= config.ql_high.saturating_sub(TAG) && layout.align() <= CELL {
            let len = Size::cells_of(size);
            let HybridHeap { cells, quick, monitor, .. } = &mut self.heap;
            if let Some(start) = quick.pop(len as usize, cells, &backing.meter) {
                if config.monitor {
                    monitor.quick += 1;
                }
                let (contents, blocks) = (self.contents(start), backing.tally.blocks());
                return Ok(self.served(size, contents, Size::bytes(len), blocks));
            }
        }
        self.take_slowly(layout, backing)
    }

    #[inline]
    unsafe fn free(heap: &mut Heap<Self, S, M>, block: NonNull<u8>, layout: Layout) {
        let Heap { engine, backing } = heap;
        debug_assert!(engine.heap.top == 0 || engine.is_sound(block), "a freed block is in use");
        // SAFETY: the caller's block is in use.
        let len = unsafe { header::len_at(block) };
        // A mapped block, of no cells, wraps round.
        let bytes = if len.wrapping_sub(1) < engine.tuning.config().ql_cells() {
            let start = engine.start_of(block);
            let HybridHeap { cells, quick, .. } = &mut engine.heap;
            quick.push(start, len as usize, cells, &backing.meter);
            Size::bytes(len)
        } else {
            engine.free_slowly(block, len, backing)
        };
        backing.freed(layout.size(), bytes, Part::Fit);
        engine.coalesce_in_free(backing);
    }

    unsafe fn resize(
        &mut self,
        block: NonNull<u8>,
        _: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        let new_size = new_layout.size();
        // SAFETY: the caller's block is in use.
        let lens = match unsafe { header::len_at(block) } {
            // SAFETY: as above, and it is a mapped one.
            0 => match unsafe { mapped::len(block) } {
                // What would free at least half of it had better be moved.
                old if new_size <= old && new_size > old / 2 => (old, old),
                _ => return None,
            },
            len => {
                let old = Block { start: self.start_of(block), len };
                let wanted = Size::cells_for(new_size)?;
                // The block may stay as it is if it is what the request would get.
                if len - 1 > wanted || len < wanted {
                    let (heap, mut context) = self.parts(backing);
                    let new = heap.resize(old, wanted, &mut context)?;
                    (Size::bytes(len), Size::bytes(new.len))
                } else {
                    (Size::bytes(len), Size::bytes(len))
                }
            }
        };
        Some(Resized { contents: NonNull::slice_from_raw_parts(block, lens.1), bytes: lens })
    }

    unsafe fn keep(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        // SAFETY: the caller's block is in use.
        if unsafe { header::len_at(block) } > 0 {
            // SAFETY: passed on.
            return unsafe { self.resize(block, layout, new_layout, backing) };
        }
        // SAFETY: a block of no cells is a mapped one.
        let len = unsafe { mapped::len(block) };
        (new_layout.size() <= len).then(|| Resized {
            contents: NonNull::slice_from_raw_parts(block, len),
            bytes: (len, len),
        })
    }

    /// Extends a block with the free memory below it, to which its contents move.
    unsafe fn slide(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
        backing: &mut Backing<S, M>,
    ) -> Option<Resized> {
        // SAFETY: the caller's block is in use.
        let len = unsafe { header::len_at(block) };
        if len == 0 || layout.align() > CELL {
            return None;
        }
        let old = Block { start: self.start_of(block), len };
        let wanted = Size::cells_for(new_layout.size())?;
        let all = self.heap.extend_downwards(old, wanted, &backing.meter)?;
        let moved = self.contents(all.start);
        // SAFETY: the extended block has the old one in it, whose contents are untouched, and is
        // long enough for the new size; the two places may overlap.
        unsafe { moved.copy_from(block, layout.size().min(new_layout.size())) };
        let new = self.heap.trim(all, Block { start: all.start, len: wanted }, &backing.meter);
        let contents = NonNull::slice_from_raw_parts(moved, Size::bytes(new.len));
        Some(Resized { contents, bytes: (Size::bytes(len), Size::bytes(new.len)) })
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout, backing: &Backing<S, M>) -> bool {
        let address = block.addr().get();
        match self.heap.find_in_use(address) {
            Some(found) => Size::cells_for(layout.size())
                .is_some_and(|cells| cells == found.len || cells + 1 == found.len),
            None => mapped::find(&backing.source, address).is_some_and(|len| layout.size() <= len),
        }
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        self.heap.walk(visit);
    }

    fn audit(&self) -> Result<(), Fault> {
        self.heap.audit()
    }
}
