//! Several regions, one arena.
//!
//! A [`Source`](crate::source::Source) is one range of addresses, and bookkeeping lies at its upper
//! end, so a region cannot be prolonged. Instead each further region gets a strategy of its own,
//! of the same type, and a request is served by the first that can:
//!
//! ```text
//!  claims   0: | region ……… |      1: | region … |      2: none yet
//!              tried first            tried next
//! ```
//! This takes any strategy, bridges any gap, and costs a look at each claim's addresses when a
//! block is freed. A block never spans two regions.

use core::alloc::Layout;
use core::fmt;
use core::ops::Range;
use core::ptr::NonNull;

use crate::source::Region;
use crate::strategy::{AllocError, Fault, Strategy, Usage, empty_block};
use crate::walk::{self, Span};

/// Up to `N` strategies of one type over regions of their own, as one strategy.
///
/// Allocating takes the time of the strategies that are tried, freeing that of one and O(N).
///
/// ```
/// use pagewise::Strategy;
/// use pagewise::arena::{Arena, Claims};
/// use pagewise::page_heap::PageHeap;
/// use pagewise::paged::Config;
/// use pagewise::source::Region;
/// use std::alloc::Layout;
///
/// static ARENA: Arena<Claims<PageHeap<Region>, 4>> = Arena::new(Claims::new());
///
/// for _ in 0..2 {
///     let memory = Box::leak(Box::new([const { std::mem::MaybeUninit::uninit() }; 1 << 16]));
///     let region = Region::from_static(memory);
///     ARENA.claim(region, |region| PageHeap::new(Config::arena(), region, ()))?;
/// }
/// let large = Layout::new::<[u8; 40_000]>();
/// assert!(ARENA.allocate(large).is_ok() && ARENA.allocate(large).is_ok());
/// # Ok::<(), pagewise::arena::ClaimError>(())
/// ```
#[derive(Debug)]
pub struct Claims<S, const N: usize> {
    claims: [Option<Claim<S>>; N],
    peak_requested: usize,
    peak_held: usize,
}

/// A strategy, and the addresses its region has.
#[derive(Debug)]
struct Claim<S> {
    addresses: Range<usize>,
    strategy: S,
}

/// There is no room for a further claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimError;

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the arena has all the regions it has room for")
    }
}

impl core::error::Error for ClaimError {}

impl<S, const N: usize> Claims<S, N> {
    /// No region yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { claims: [const { None }; N], peak_requested: 0, peak_held: 0 }
    }
}

impl<S, const N: usize> Default for Claims<S, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Strategy, const N: usize> Claims<S, N> {
    /// Adds the strategy that `make` makes of a region.
    ///
    /// # Errors
    /// [`ClaimError`] if there are `N` already.
    pub fn claim(
        &mut self,
        region: Region,
        make: impl FnOnce(Region) -> S,
    ) -> Result<(), ClaimError> {
        let room = self.claims.iter_mut().find(|claim| claim.is_none()).ok_or(ClaimError)?;
        *room = Some(Claim { addresses: region.addresses(), strategy: make(region) });
        Ok(())
    }

    fn strategies(&self) -> impl Iterator<Item = &S> {
        self.claims.iter().flatten().map(|claim| &claim.strategy)
    }

    /// The strategy in whose region this address lies.
    fn owner(&mut self, block: NonNull<u8>) -> Option<&mut S> {
        let mut claims = self.claims.iter_mut().flatten();
        let owner = claims.find(|claim| claim.addresses.contains(&block.addr().get()))?;
        Some(&mut owner.strategy)
    }

    fn note_peaks(&mut self) {
        let now = self.usage();
        self.peak_requested = now.peak_requested;
        self.peak_held = now.peak_held;
    }
}

// SAFETY: blocks are those of strategies over disjoint regions; a block goes back to the strategy
// in whose region it lies, which is the one it is from.
unsafe impl<S: Strategy, const N: usize> Strategy for Claims<S, N> {
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(empty_block(layout));
        }
        let found = (self.claims.iter_mut().flatten())
            .find_map(|claim| claim.strategy.allocate(layout).ok());
        self.note_peaks();
        found.ok_or(AllocError::Exhausted)
    }

    unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) {
        if layout.size() > 0
            && let Some(owner) = self.owner(block)
        {
            // SAFETY: the caller's promise; the block is this strategy's.
            unsafe { owner.deallocate(block, layout) };
        }
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
        // SAFETY: as `deallocate`.
        let resized = unsafe { self.owner(block)?.resize_in_place(block, layout, new_size) };
        self.note_peaks();
        resized
    }

    fn is_in_use(&self, block: NonNull<u8>, layout: Layout) -> bool {
        self.strategies().any(|strategy| strategy.is_in_use(block, layout))
    }

    fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        for usage in self.strategies().map(S::usage) {
            sum.requested += usage.requested;
            sum.block += usage.block;
            sum.held += usage.held;
            sum.blocks += usage.blocks;
            sum.allocations += usage.allocations;
            sum.frees += usage.frees;
        }
        sum.peak_requested = self.peak_requested.max(sum.requested);
        sum.peak_held = self.peak_held.max(sum.held);
        sum
    }

    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        // The regions in address order, without memory to sort them in.
        let mut from = 0;
        while let Some(next) = (self.claims.iter().flatten())
            .filter(|claim| claim.addresses.start >= from)
            .min_by_key(|claim| claim.addresses.start)
        {
            next.strategy.walk(visit);
            from = next.addresses.start + 1;
        }
    }

    fn audit(&self) -> Result<(), Fault> {
        self.strategies().try_for_each(S::audit)?;
        walk::check(self)
    }
}
