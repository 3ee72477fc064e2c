//! The contract every allocation strategy fulfils: [`Strategy`], and what it reports about itself:
//! [`Usage`] and [`Span`]s.
//!
//! A strategy is single-threaded and knows nothing of threads, traces or the operating system; it
//! takes its memory from a [`Source`](crate::source::Source). An arena adds a lock, the global
//! allocator adds threads.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::error::{AllocError, Fault, Freed};

/// A dynamic storage allocation strategy over some source of memory.
///
/// # Zero-sized requests
/// A layout of size 0 is served by a dangling pointer aligned to the layout; it uses no memory, is
/// not counted in [`Usage`], and may be passed back with the same layout.
///
/// # Exhaustion
/// A strategy that cannot serve a request returns an error and is exactly as it was before.
/// Freeing never needs memory, so it cannot fail.
///
/// # Safety
/// An implementer promises that a block returned by [`allocate`](Self::allocate), or by what resizes
/// one, is valid for reads and writes of its whole length, as long as asked or longer, aligned as
/// asked, disjoint from every other block in use and from the strategy's own bookkeeping, and stays so
/// until it is freed — also when the strategy itself is moved; that a block that is resized keeps its
/// contents; that [`has_block`](Self::has_block) is `true` of a block in use alone, by a layout with
/// which it may be freed; and that [`owns`](Self::owns) is `true` for the blocks of this strategy
/// and for those of no other. A caller may rely on all of it.
pub unsafe trait Strategy {
    /// Allocates a block of at least `layout.size()` bytes, aligned to `layout.align()` bytes.
    ///
    /// The returned slice has the length of the whole block, which may exceed the request; the
    /// caller may use all of it.
    ///
    /// # Errors
    /// [`AllocError::Exhausted`] when the source has no more memory that would do;
    /// [`AllocError::UsedSource`] if it was used before the strategy got it.
    fn allocate(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError>;

    /// Frees a block.
    ///
    /// # Safety
    /// `block` was returned by this strategy for `layout` (or resized to it) and was not freed
    /// since.
    unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout);

    /// Changes a block's size to `new_size` bytes without moving it, if that can be done; `None`
    /// leaves the block as it was. The alignment stays. On success the block is known by the new
    /// layout and the slice is its whole usable length.
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

    /// Changes a block's size to `new_size` bytes, moving its contents where it must. On an error
    /// the block is untouched.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate), but a block that shrinks [stays](Self::keep) where it is if
    /// there is no memory to move it.
    ///
    /// # Safety
    /// As for [`resize_in_place`](Self::resize_in_place).
    unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller guarantees what both ask for.
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

    /// Moves a block that cannot be resized where it starts: its contents go to another block, which may
    /// overlap it if a strategy knows how, and it is freed. [`reallocate`](Self::reallocate) calls this.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    ///
    /// # Safety
    /// As for [`resize_in_place`](Self::resize_in_place).
    unsafe fn relocate(
        &mut self,
        block: NonNull<u8>,
        layout: Layout,
        new_size: usize,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller guarantees it.
        unsafe { move_to_another(self, block, layout, new_size) }
    }

    /// Gives a block another layout, of any size and alignment, without moving it, if the block is long
    /// enough and aligned; `None` leaves it as it was. This is called where there is no memory to move the
    /// block to, so it may leave the block in a place that suits the new size badly.
    ///
    /// By default it keeps blocks that can be [resized](Self::resize_in_place), and no block whose
    /// alignment changes.
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
        // SAFETY: the caller guarantees it; a layout's size, rounded up to its alignment, does not overflow.
        unsafe { self.resize_in_place(block, layout, new_layout.size()) }
    }

    /// Whether a block in use starts at `block` that could be known by `layout`. Any pointer and any
    /// layout may be passed; a layout of size 0 has no block.
    fn is_in_use(&self, block: NonNull<u8>, layout: Layout) -> bool {
        layout.size() > 0
            && block.addr().get().is_multiple_of(layout.align())
            && self.has_block(block, layout)
    }

    /// As [`is_in_use`](Self::is_in_use), of a `layout` that is not of size 0 and an address that is
    /// aligned for it. Any pointer may be passed.
    fn has_block(&self, block: NonNull<u8>, layout: Layout) -> bool;

    /// Whether this address lies in memory from which this strategy serves requests: whose block it
    /// is where there are several strategies. Any pointer may be passed; the block of a layout of size
    /// 0 is nobody's.
    fn owns(&self, block: NonNull<u8>) -> bool;

    /// Frees a block after verifying that `block` is the start of one [in use](Self::is_in_use) that
    /// could be known by `layout`; answers [`Freed::Unallocated`] otherwise and changes nothing. Any
    /// pointer may be passed. A strategy whose blocks have owners may answer [`Freed::NotOwner`].
    ///
    /// # Safety
    /// If the answer is [`Freed::Freed`], nobody uses the block any more. No check can tell a block
    /// that is still used from one that is not.
    unsafe fn try_free(&mut self, block: NonNull<u8>, layout: Layout) -> Freed {
        if !self.is_in_use(block, layout) {
            return Freed::Unallocated;
        }
        // SAFETY: a block in use of this layout starts there, which the caller gives up.
        unsafe { self.deallocate(block, layout) };
        Freed::Freed
    }

    /// What is in use and what is held, now and at most. O(1).
    fn usage(&self) -> Usage;

    /// Calls `visit` for every span of the memory held, in address order: blocks, free memory,
    /// bookkeeping and slack. The spans tile what is held: their lengths add up to
    /// [`Usage::held`].
    fn walk(&self, visit: &mut dyn FnMut(Span));

    /// Checks every invariant of the strategy's structures, and that [`walk`](Self::walk) agrees
    /// with [`usage`](Self::usage).
    ///
    /// # Errors
    /// The first invariant found violated, and where.
    fn audit(&self) -> Result<(), Fault>;
}

/// Moves a block's contents to another of `new_size` bytes, and frees it. On an error the block is
/// untouched.
///
/// # Errors
/// As [`Strategy::allocate`].
///
/// # Safety
/// As for [`Strategy::relocate`].
pub(crate) unsafe fn move_to_another<S: Strategy + ?Sized>(
    strategy: &mut S,
    block: NonNull<u8>,
    layout: Layout,
    new_size: usize,
) -> Result<NonNull<[u8]>, AllocError> {
    // SAFETY: the caller promises that the rounded size does not overflow, and `layout` has a valid
    // alignment.
    let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
    let moved = strategy.allocate(new_layout)?;
    // SAFETY: both blocks are in use, hence disjoint, and at least `len` bytes long; the old one is
    // freed once and not used after.
    unsafe {
        let len = layout.size().min(new_size);
        moved.cast::<u8>().copy_from_nonoverlapping(block, len);
        strategy.deallocate(block, layout);
    }
    Ok(moved)
}

/// The block that serves a layout of size 0.
pub(crate) fn empty_block(layout: Layout) -> NonNull<[u8]> {
    let address = core::ptr::without_provenance_mut(layout.align());
    // SAFETY: an alignment is not 0.
    NonNull::slice_from_raw_parts(unsafe { NonNull::new_unchecked(address) }, 0)
}

/// A stretch of memory that a strategy holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Address of its first byte.
    pub start: usize,
    /// Length in bytes, not 0.
    pub len: usize,
    /// What it is used for.
    pub kind: SpanKind,
}

impl Span {
    /// Address behind its last byte.
    #[must_use]
    pub fn end(&self) -> usize {
        self.start + self.len
    }
}

/// What a span is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpanKind {
    /// A block in use.
    Block,
    /// Memory that can serve a request.
    Free,
    /// Bookkeeping: page headers, left headers, size-class tables, tags.
    Header,
    /// Memory that can serve no request as things are: the rest of a page behind its last block,
    /// alignment gaps.
    Slack,
}

/// What a strategy has in use and holds, in bytes and blocks. A strategy of one's own starts from
/// `Usage::default()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Usage {
    /// Bytes requested and not yet freed.
    pub requested: usize,
    /// Bytes of the blocks that serve those requests (requested ≤ block).
    pub block: usize,
    /// Bytes taken from the source: blocks, free memory and bookkeeping.
    pub held: usize,
    /// Blocks in use.
    pub blocks: usize,
    /// The most bytes that were ever requested at one time.
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
    /// Storage efficiency E = requested ÷ held (Brent §5.3); 1 when nothing is held.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        if self.held == 0 { 1.0 } else { self.requested as f64 / self.held as f64 }
    }

    /// Fragmentation = 1 − (most bytes requested ÷ most bytes held), be it at the same time or not.
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
