//! The contract of every allocation strategy, [`Strategy`], and its reports: [`Usage`] and
//! [`Span`]s.
//!
//! A strategy is single-threaded. It knows nothing of threads, traces or the operating system, and
//! takes its memory from a [`Source`](crate::source::Source). An arena adds a lock; the global
//! allocator adds threads.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::error::{AllocError, Fault, FreeResult};

/// A dynamic storage allocation strategy over a source of memory.
///
/// # Zero-sized requests
/// A strategy serves a layout of size 0 with a dangling pointer that is aligned for the layout. The
/// pointer uses no memory, is not counted in [`Usage`], and may be freed with the same layout.
///
/// # Exhaustion
/// A strategy that cannot serve a request returns an error and stays unchanged. Freeing never needs
/// memory, so it cannot fail.
///
/// # Time complexity
/// How long allocating, freeing and resizing take depends on the strategy: those that search a list
/// say so, and the [`catalogue`](crate::catalogue) marks them as linear. A resize that moves a
/// block also copies it. [`walk`](Self::walk) visits each span of the heap once, and
/// [`audit`](Self::audit) each at least once.
///
/// # Safety
/// Implementers guarantee all of the following, and callers may rely on it:
/// - A block returned by [`allocate`](Self::allocate), or by a method that resizes one, is valid
///   for reads and writes of its whole length. It is at least as long as requested, aligned as
///   requested, and disjoint from every other block in use and from the strategy's own bookkeeping.
///   All of this holds until the block is freed, even if the strategy itself is moved.
/// - A block that is resized keeps its contents.
/// - [`has_block`](Self::has_block) is `true` only for a block in use and a layout with which it
///   may be freed.
/// - [`owns`](Self::owns) is `true` for the blocks of this strategy, and for no block of another
///   one.
/// - The number of blocks that [`usage`](Self::usage) returns is 0 only if no block is in use.
pub unsafe trait Strategy {
    /// Allocates a block of at least `layout.size()` bytes, aligned to `layout.align()` bytes.
    ///
    /// The returned slice has the length of the whole block, which may exceed the request; the
    /// caller may use all of it.
    ///
    /// # Errors
    /// [`AllocError::Exhausted`] if the source has no suitable memory left;
    /// [`AllocError::UsedSource`] if it was used before the strategy got it;
    /// [`AllocError::NoRegion`] if there is no memory yet.
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError>;

    /// Frees a block.
    ///
    /// # Safety
    /// This strategy returned `block` for `layout`, or resized it to `layout`, and the block was
    /// not freed since.
    unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout);

    /// Changes a block's size to `new_size` bytes without moving the block. The alignment stays the
    /// same. Returns the block with its whole usable length; its layout is the new one from then
    /// on. Returns `None`, and changes nothing, if the block cannot be resized in place.
    ///
    /// # Safety
    /// As for [`deallocate`](Self::deallocate); `new_size`, rounded up to the alignment, does not
    /// overflow `isize`.
    unsafe fn resize_in_place(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Option<NonNull<[u8]>>;

    /// Changes a block's size to `new_size` bytes, and moves the block if necessary. On an error
    /// the block is unchanged.
    ///
    /// # Errors
    /// As for [`allocate`](Self::allocate). But a block that shrinks [stays](Self::keep) where it
    /// is if there is no memory to move it.
    ///
    /// # Safety
    /// As for [`resize_in_place`](Self::resize_in_place).
    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller guarantees what the methods require, and that the new size, rounded
        // up, does not overflow.
        unsafe {
            match self.resize_in_place(block, layout, new_size) {
                Some(resized) => Ok(resized),
                None => self.relocate(block, layout, new_size).or_else(|error| {
                    let new_layout = Layout::from_size_align_unchecked(new_size, layout.align());
                    self.keep(block, layout, new_layout).ok_or(error)
                }),
            }
        }
    }

    /// Moves a block that cannot be resized in place: moves its contents to another block and frees
    /// it. Some strategies let the new block overlap the old one. [`reallocate`](Self::reallocate)
    /// calls this method.
    ///
    /// # Errors
    /// As for [`allocate`](Self::allocate).
    ///
    /// # Safety
    /// As for [`resize_in_place`](Self::resize_in_place).
    unsafe fn relocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller gives the same guarantees.
        unsafe { move_to_another(self, block, layout, new_size) }
    }

    /// Changes a block's layout, to one of any size and alignment, without moving the block.
    /// Returns `None`, and changes nothing, unless the block is long enough and aligned. This
    /// method is called if there is no memory to move the block to, so it may leave the block in a
    /// place that suits the new size badly.
    ///
    /// By default, [resizes](Self::resize_in_place) the block, and returns `None` if the alignment
    /// changes.
    ///
    /// # Safety
    /// As for [`deallocate`](Self::deallocate).
    unsafe fn keep(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_layout: Layout,
    ) -> Option<NonNull<[u8]>> {
        if layout.align() != new_layout.align() {
            return None;
        }
        // SAFETY: the caller gives the same guarantees; a layout's size, rounded up to its
        // alignment, does not overflow.
        unsafe { self.resize_in_place(block, layout, new_layout.size()) }
    }

    /// Returns whether a block in use that fits `layout` starts at `block`. Any pointer and any
    /// layout are allowed; no block fits a layout of size 0. A strategy with tags or headers among
    /// its blocks walks the blocks below: O(n).
    fn is_in_use(&self, block: NonNull<u8>, layout: Layout) -> bool {
        layout.size() > 0
            && block.addr().get().is_multiple_of(layout.align())
            && self.has_block(block, layout)
    }

    /// Like [`is_in_use`](Self::is_in_use), for a `layout` whose size is not 0 and a `block` that
    /// is aligned for it. Any pointer is allowed.
    fn has_block(&self, block: NonNull<u8>, layout: Layout) -> bool;

    /// Returns the bytes of the memory around this address from which this strategy serves requests,
    /// more than any block there has; `None` if it serves none there. This tells which of several
    /// strategies allocated a block: since one may have a block of another as its memory, the one
    /// with the fewest bytes. Any pointer is allowed. No strategy has the pointer for a layout of
    /// size 0.
    fn serves_around(&self, block: NonNull<u8>) -> Option<usize>;

    /// Returns whether this address is in memory from which this strategy [serves
    /// requests](Self::serves_around). Any pointer is allowed.
    fn owns(&self, block: NonNull<u8>) -> bool {
        self.serves_around(block).is_some()
    }

    /// Frees a block after checking that a block [in use](Self::is_in_use) that fits `layout`
    /// starts at `block`. Otherwise returns [`FreeResult::Unallocated`] and changes nothing. Any
    /// pointer is allowed. A strategy whose blocks have owners may return [`FreeResult::NotOwner`].
    ///
    /// # Safety
    /// If the result is [`FreeResult::Freed`], the block is not used any more. No check can tell
    /// whether a block is still used.
    unsafe fn try_free(&mut self, block: NonNull<u8>, layout: Layout) -> FreeResult {
        if !self.is_in_use(block, layout) {
            return FreeResult::Unallocated;
        }
        // SAFETY: a block in use that fits this layout starts there, and the caller does not use it
        // any more.
        unsafe { self.deallocate(block, layout) };
        FreeResult::Freed
    }

    /// Returns the memory in use and held, now and at the peak. O(1).
    fn usage(&self) -> Usage;

    /// Calls `visit` for every span of the memory held, in address order: blocks, free memory,
    /// bookkeeping and slack. The spans are disjoint and cover all memory held: their lengths add
    /// up to [`Usage::held`].
    fn walk(&self, visit: &mut dyn FnMut(Span));

    /// Checks every invariant of the strategy's structures, and that [`walk`](Self::walk) agrees
    /// with [`usage`](Self::usage).
    ///
    /// # Errors
    /// The first violated invariant, and the address of the structure that violates it.
    fn audit(&self) -> Result<(), Fault>;
}

/// Copies a block's contents to a new block of `new_size` bytes, and frees the old block. On an
/// error the block is unchanged.
///
/// # Errors
/// As for [`Strategy::allocate`].
///
/// # Safety
/// As for [`Strategy::relocate`].
pub(crate) unsafe fn move_to_another<S: Strategy + ?Sized>(
    strategy: &mut S,
    block: NonNull<u8>,
    layout: Layout,
    new_size: usize,
) -> Result<NonNull<[u8]>, AllocError> {
    // SAFETY: the caller guarantees that the rounded size does not overflow, and `layout` has a
    // valid alignment.
    let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
    let moved = strategy.allocate(new_layout)?;
    // SAFETY: both blocks are in use, hence disjoint, and at least `len` bytes long; the old one is
    // freed once and not used afterwards.
    unsafe {
        let len = layout.size().min(new_size);
        moved.cast::<u8>().copy_from_nonoverlapping(block, len);
        strategy.deallocate(block, layout);
    }
    Ok(moved)
}

/// Returns the block that serves a layout of size 0.
pub(crate) fn empty_block(layout: Layout) -> NonNull<[u8]> {
    let address = core::ptr::without_provenance_mut(layout.align());
    // SAFETY: an alignment is not 0.
    NonNull::slice_from_raw_parts(unsafe { NonNull::new_unchecked(address) }, 0)
}

/// A range of memory that a strategy holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Address of its first byte.
    pub start: usize,
    /// Length in bytes, not 0.
    pub len: usize,
    /// The use of the span.
    pub kind: SpanKind,
}

impl Span {
    /// Returns the address behind the last byte.
    #[must_use]
    pub fn end(&self) -> usize {
        self.start.saturating_add(self.len)
    }
}

/// The uses of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpanKind {
    /// A block in use.
    Block,
    /// Memory that can serve a request.
    Free,
    /// Bookkeeping: page headers, left headers, size-class tables, tags.
    Header,
    /// Memory that cannot serve a request at present: the rest of a page behind its last block,
    /// alignment gaps.
    Slack,
}

/// The memory that a strategy has in use and holds, in bytes and blocks. A strategy of your own can
/// start from `Usage::default()` and set the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Usage {
    /// Bytes requested and not yet freed. Inexact after a checked free with another layout than the
    /// one that the block was requested with, but never more than the bytes of the blocks.
    pub requested: usize,
    /// Bytes of the blocks that serve those requests.
    pub block: usize,
    /// Bytes taken from the source: blocks, free memory and bookkeeping.
    pub held: usize,
    /// Blocks in use.
    pub blocks: usize,
    /// The most bytes that were ever requested at one time. Inexact as well after such a free, but
    /// never more than the most bytes held.
    pub peak_requested: usize,
    /// The most bytes that were ever held.
    pub peak_held: usize,
    /// Blocks allocated since the beginning.
    pub allocations: u64,
    /// Blocks freed since the beginning.
    pub frees: u64,
}

/// Adds up the usage of several strategies. The peaks are added up as well, though the strategies
/// may have reached them at different times. A sum that would overflow is the type's maximum.
impl core::iter::Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(usages: I) -> Self {
        usages.fold(Self::default(), |sum, usage| Self {
            requested: sum.requested.saturating_add(usage.requested),
            block: sum.block.saturating_add(usage.block),
            held: sum.held.saturating_add(usage.held),
            blocks: sum.blocks.saturating_add(usage.blocks),
            peak_requested: sum.peak_requested.saturating_add(usage.peak_requested),
            peak_held: sum.peak_held.saturating_add(usage.peak_held),
            allocations: sum.allocations.saturating_add(usage.allocations),
            frees: sum.frees.saturating_add(usage.frees),
        })
    }
}

impl Usage {
    /// Returns the storage efficiency E = requested ÷ held (Brent §5.3); 1 if nothing is held.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        if self.held == 0 { 1.0 } else { self.requested as f64 / self.held as f64 }
    }

    /// Returns the fragmentation, 1 − (most bytes requested ÷ most bytes held); 0 if nothing was
    /// ever held. The two peaks need not have been at the same time.
    #[must_use]
    pub fn fragmentation(&self) -> f64 {
        if self.peak_held == 0 {
            0.0
        } else {
            1.0 - self.peak_requested as f64 / self.peak_held as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_usages_saturates() {
        let most = Usage {
            requested: usize::MAX,
            block: usize::MAX,
            held: usize::MAX,
            blocks: usize::MAX,
            peak_requested: usize::MAX,
            peak_held: usize::MAX,
            allocations: u64::MAX,
            frees: u64::MAX,
        };
        let little = Usage { requested: 1, block: 2, held: 3, blocks: 4, ..Usage::default() };
        assert_eq!([most, most].into_iter().sum::<Usage>(), most);
        assert_eq!([most, little].into_iter().sum::<Usage>(), most);
        let sum = [little, little].into_iter().sum::<Usage>();
        assert_eq!((sum.requested, sum.block, sum.held, sum.blocks), (2, 4, 6, 8));
    }
}
