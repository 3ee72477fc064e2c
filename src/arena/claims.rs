//! Combines several strategies, each over its own memory, into one strategy.
//!
//! A [`Source`](crate::source::Source) is one range of addresses with bookkeeping at its upper end,
//! so a region cannot be extended. Instead each further region gets its own strategy of the same
//! type, and the first strategy that can serve a request does:
//!
//! ```text
//!  claims   0: | region ……… |      1: | region … |      2: none yet
//!              tried first            tried next
//! ```
//! This works with any strategy and any gaps between regions. When a block is freed, the claims are
//! asked which of them [serves from the least memory around it](Strategy::serves_around). A block
//! never spans two regions.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use crate::error::{AllocError, Fault, FreeResult};
use crate::strategy::{Span, Strategy, Usage, empty_block, move_to_another};
use crate::walk;

/// Up to `N` strategies of one type, used as one strategy.
///
/// Allocating takes as long as the strategies that are tried, plus O(N); freeing takes as long as
/// in one of them, plus O(N), and for strategies that map large blocks O(mappings). A request fails
/// with [`AllocError::NoRegion`] before the first claim, and with [`AllocError::Exhausted`] if any
/// claim is exhausted. Freeing or resizing a block that none of them allocated violates the contract
/// and panics; a [checked](Strategy::try_free) free refuses such a block.
///
/// ```
/// use pagewise::Strategy;
/// use pagewise::arena::{Arena, Claims};
/// use pagewise::PageHeap;
/// use pagewise::pages::Config;
/// use pagewise::Region;
/// use std::alloc::Layout;
///
/// static ARENA: Arena<Claims<PageHeap<Region>, 4>> = Arena::new(Claims::new());
///
/// for _ in 0..2 {
///     let memory = Box::leak(Box::new([const { std::mem::MaybeUninit::uninit() }; 1 << 16]));
///     let region = Region::from_static(memory);
///     ARENA.claim(PageHeap::new(Config::arena(), region, ()))?;
/// }
/// let large = Layout::new::<[u8; 40_000]>();
/// assert!(ARENA.allocate(large).is_ok() && ARENA.allocate(large).is_ok());
/// # Ok::<(), pagewise::arena::ClaimError<PageHeap<Region>>>(())
/// ```
#[derive(Debug)]
pub struct Claims<S, const N: usize> {
    claims: [Option<S>; N],
    peak_requested: usize,
    peak_held: usize,
}

/// There is no room for a further claim. Contains the strategy that was refused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClaimError<S>(pub S);

impl<S> fmt::Debug for ClaimError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimError").finish_non_exhaustive()
    }
}

impl<S> fmt::Display for ClaimError<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no room for a further claim")
    }
}

impl<S> core::error::Error for ClaimError<S> {}

impl<S, const N: usize> Claims<S, N> {
    /// Returns an empty set of strategies.
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
    /// Adds a strategy, which may have blocks in use already. Its memory should not be a block of
    /// another claim: blocks go back to the right one even then, but [`audit`](Strategy::audit)
    /// reports that two have the same memory.
    ///
    /// # Errors
    /// Returns the strategy if there are `N` already.
    pub fn claim(&mut self, strategy: S) -> Result<(), ClaimError<S>> {
        match self.claims.iter_mut().find(|claim| claim.is_none()) {
            Some(room) => *room = Some(strategy),
            None => return Err(ClaimError(strategy)),
        }
        self.note_peaks();
        Ok(())
    }

    /// Takes back the first strategy for which `which` is true, and makes room for another claim.
    /// Returns `None`, and changes nothing, if there is none or if it has a block in use: its
    /// memory stays until every block is freed. [`usage`](Strategy::usage) counts the strategy no
    /// longer, except in the peaks.
    ///
    /// ```
    /// use pagewise::arena::Claims;
    /// use pagewise::{Region, SmallHeap, Strategy};
    /// use std::alloc::Layout;
    ///
    /// let mut claims: Claims<SmallHeap<Region>, 2> = Claims::new();
    /// let memory = Box::leak(Box::new([std::mem::MaybeUninit::uninit(); 4096]));
    /// let region = Region::from_static(memory);
    /// let start = region.addresses().start;
    /// claims.claim(SmallHeap::new(region, ()))?;
    ///
    /// let layout = Layout::new::<u64>();
    /// let block = claims.allocate(layout).expect("4 KiB hold 8 bytes").cast();
    /// let at_start = |heap: &SmallHeap<Region>| heap.source().addresses().start == start;
    /// assert!(claims.release(at_start).is_none(), "a block is in use");
    /// // SAFETY: the block was allocated above, and is not used any more.
    /// unsafe { claims.deallocate(block, layout) };
    /// assert!(claims.release(at_start).is_some());
    /// # Ok::<(), pagewise::arena::ClaimError<SmallHeap<Region>>>(())
    /// ```
    pub fn release(&mut self, mut which: impl FnMut(&S) -> bool) -> Option<S> {
        let mut claims = self.claims.iter_mut();
        let claim = claims.find(|claim| claim.as_ref().is_some_and(&mut which))?;
        claim.take_if(|strategy| strategy.usage().blocks == 0)
    }

    /// Yields the strategies, in the order in which they are tried.
    fn strategies(&self) -> impl Iterator<Item = &S> {
        self.claims.iter().flatten()
    }

    /// Returns the strategy that allocated `block`, a block in use.
    ///
    /// # Panics
    /// If no strategy owns the block, since it would be lost silently otherwise.
    fn owner(&mut self, block: NonNull<u8>) -> &mut S {
        let owner = self.find_owner(block);
        owner.unwrap_or_else(|| panic!("the block at {block:?} is in none of the claims"))
    }

    /// Returns the strategy that allocated `block`, if it is a block in use of one of them.
    fn find_owner(&mut self, block: NonNull<u8>) -> Option<&mut S> {
        innermost(self.claims.iter_mut().flatten(), |claim| claim.serves_around(block))
    }

    /// Raises the peaks to the present usage, if that is higher.
    fn note_peaks(&mut self) {
        let now = self.usage();
        self.peak_requested = now.peak_requested;
        self.peak_held = now.peak_held;
    }
}

/// Returns the claim that serves from the least memory `around` an address, if one serves there.
fn innermost<C>(
    claims: impl Iterator<Item = C>,
    around: impl Fn(&C) -> Option<usize>,
) -> Option<C> {
    let serving = claims.filter_map(|claim| Some((around(&claim)?, claim)));
    serving.min_by_key(|&(bytes, _)| bytes).map(|(_, claim)| claim)
}

// SAFETY: the strategies' memory is disjoint, or one has a block in use of another as its memory,
// which nobody frees as long as the strategy is there. In both cases the strategy that serves from
// the least memory around a block allocated it, and the block goes back to that one.
unsafe impl<S: Strategy, const N: usize> Strategy for Claims<S, N> {
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return Ok(empty_block(layout));
        }
        let mut found = Err(AllocError::NoRegion);
        for claim in self.claims.iter_mut().flatten() {
            match claim.allocate(layout) {
                // That one claim is exhausted says more than any later error.
                Err(_) if found == Err(AllocError::Exhausted) => {}
                answer => found = answer,
            }
            if found.is_ok() {
                break;
            }
        }
        self.note_peaks();
        found
    }

    unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            // SAFETY: the caller guarantees that the block is in use with this layout, so its owner
            // allocated it.
            unsafe { self.owner(block).deallocate(block, layout) };
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
        // SAFETY: as in `deallocate`.
        let resized = unsafe { self.owner(block).resize_in_place(block, layout, new_size) };
        self.note_peaks();
        resized
    }

    /// Lets the owner move the block; if the owner has no memory, moves the block to another
    /// strategy.
    unsafe fn relocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() > 0 {
            // SAFETY: as in `deallocate`.
            let moved = unsafe { self.owner(block).relocate(block, layout, new_size) };
            self.note_peaks();
            if moved.is_ok() {
                return moved;
            }
        }
        // SAFETY: the caller gives the same guarantees.
        unsafe { move_to_another(self, block, layout, new_size) }
    }

    unsafe fn keep(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
    ) -> Option<NonNull<[u8]>> {
        if layout.size() == 0 {
            return None;
        }
        // SAFETY: as in `deallocate`.
        let kept = unsafe { self.owner(block).keep(block, layout, new_layout) };
        self.note_peaks();
        kept
    }

    fn has_block(&self, block: NonNull<u8>, layout: Layout) -> bool {
        let owner = innermost(self.strategies(), |claim| claim.serves_around(block));
        owner.is_some_and(|claim| claim.has_block(block, layout))
    }

    fn serves_around(&self, block: NonNull<u8>) -> Option<usize> {
        self.strategies().filter_map(|claim| claim.serves_around(block)).min()
    }

    unsafe fn try_free(&mut self, block: NonNull<u8>, layout: Layout) -> FreeResult {
        // SAFETY: the caller gives the same guarantees.
        self.find_owner(block)
            .map_or(FreeResult::Unallocated, |owner| unsafe { owner.try_free(block, layout) })
    }

    fn usage(&self) -> Usage {
        let mut sum: Usage = self.strategies().map(S::usage).sum();
        sum.peak_requested = self.peak_requested.max(sum.requested);
        sum.peak_held = self.peak_held.max(sum.held);
        sum
    }

    /// Visits the strategies' spans in address order. There is no memory to sort them in, so all
    /// strategies are walked for each range of addresses that belongs to a single one. O(spans ·
    /// ranges).
    fn walk(&self, visit: &mut dyn FnMut(Span)) {
        let mut from = 0;
        loop {
            // The strategy with the lowest span from `from` on, and the start of the next
            // strategy's spans.
            let (mut lowest, mut limit) = (None, usize::MAX);
            for claim in self.strategies() {
                let mut start = usize::MAX;
                claim.walk(&mut |span| {
                    if span.start >= from {
                        start = start.min(span.start);
                    }
                });
                match lowest {
                    None => lowest = Some((start, claim)),
                    Some((least, _)) if start < least => {
                        limit = least;
                        lowest = Some((start, claim));
                    }
                    Some((least, _)) if start > least => limit = limit.min(start),
                    // Both have the same memory: the walk misses what an audit then looks for.
                    Some(_) => {}
                }
            }
            let Some((start, claim)) = lowest else { return };
            if start == usize::MAX {
                return;
            }
            claim.walk(&mut |span| {
                if (start..limit).contains(&span.start) {
                    visit(span);
                }
            });
            from = limit;
        }
    }

    fn audit(&self) -> Result<(), Fault> {
        self.strategies().try_for_each(S::audit)?;
        walk::check(self)
    }
}
