//! Where a strategy gets its memory from: [`Source`], with [`Region`] (fixed, usable in a `static`)
//! and [`Reserved`] (a reservation of the operating system that grows in place).
//!
//! ```text
//!  low address                                                        high address
//!  |-- extent: pages, blocks --> extend |   not held   | dedicate <-- dedicated --|
//! ```
//! The *extent* holds what is handed out. The *dedicated* memory holds page headers, left headers
//! and tables, away from the pages they describe, so that bookkeeping touches few OS pages
//! (Brent §4). A source over an operating system may also *map* memory for a single block, apart
//! from all this, and give it back on its own (Hasan & Chang §3.2).

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;

use crate::error::AllocError;
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
use crate::os;

mod borrowed;
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
mod mappings;
mod owned;

pub use self::borrowed::Borrowed;
pub(crate) use self::owned::Owned;

/// Bytes below a mapped block that are its strategy's.
pub(crate) const OWNERS: usize = 16;

/// One range of addresses, used from both ends.
///
/// # Safety
/// The memory of [`extend`](Self::extend), [`dedicate`](Self::dedicate) and [`map`](Self::map) lies
/// where they say, aligned and zeroed as they say, is valid for reads and writes, disjoint from
/// everything else, and stays valid and in place until it is given back or the source is dropped, also
/// when the source is moved. An implementer never hands out a byte twice, except
/// after [`retract`](Self::retract). The extent, the dedicated memory and the mappings are what its
/// methods tell, and change by calls of its methods alone: nobody else takes memory from it meanwhile.
pub unsafe trait Source {
    /// Extends the extent upwards by `bytes` bytes and returns where the new part starts: where
    /// the extent ended before. The first call fixes the extent's start at a multiple of `align`
    /// bytes (a power of two); later calls ignore `align`. The memory is not initialised. O(1).
    ///
    /// # Errors
    /// [`AllocError::Exhausted`] if the two ends would meet, or the system has no memory;
    /// [`AllocError::NoRegion`] if there is nothing to take it from.
    fn extend(&mut self, bytes: usize, align: usize) -> Result<NonNull<u8>, AllocError>;

    /// Takes the uppermost `bytes` bytes of the extent back. O(1).
    ///
    /// # Safety
    /// The extent is at least that long, and nothing in those bytes is used any more.
    unsafe fn retract(&mut self, bytes: usize);

    /// Takes memory for bookkeeping of this layout from the upper end, filled with zeros. It is
    /// never given back. O(bytes).
    ///
    /// # Errors
    /// As [`extend`](Self::extend).
    fn dedicate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError>;

    /// Addresses of the extent.
    fn extent(&self) -> Range<usize>;

    /// Addresses of the dedicated memory. It lies above the extent.
    fn dedicated(&self) -> Range<usize>;

    /// Maps memory for a single block of this layout, apart from extent and dedicated memory, and
    /// zeroed; returns the block with all of its length. The 16 bytes below it are the strategy's,
    /// too. A source that has no such memory, as a fixed region, answers as if it had no more:
    /// that is what happens unless an implementer does better.
    ///
    /// # Errors
    /// [`AllocError::Exhausted`] if the system has no memory, or there is no system.
    fn map(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let _ = layout;
        Err(AllocError::Exhausted)
    }

    /// Gives a mapped block back to the system.
    ///
    /// # Safety
    /// The block was mapped by this source, and nothing of it is used any more.
    unsafe fn unmap(&mut self, block: NonNull<u8>) {
        let _ = block;
    }

    /// Calls `visit` for every mapping, in address order, with its addresses and its block's.
    fn mapped(&self, visit: &mut dyn FnMut(Range<usize>, usize)) {
        let _ = visit;
    }

    /// Bytes held: extent, dedicated memory and mappings.
    fn held(&self) -> usize {
        self.extent().len() + self.dedicated().len()
    }
}

/// A fixed region of memory. `const`-constructible, for use in a `static`.
///
/// Invariant: `start` ≤ `end` ≤ `low` ≤ `high`, all offsets from `base`.
#[derive(Debug)]
pub struct Region {
    base: *mut u8,
    /// Where the extent starts; meaningful once `end` is not 0 or something was extended.
    start: usize,
    /// Where the extent ends.
    end: usize,
    /// Where the dedicated memory starts.
    low: usize,
    /// Where the dedicated memory, and the region, ends.
    high: usize,
    opened: bool,
    zeroed: bool,
}

// SAFETY: a region owns its memory exclusively; no part of it is tied to a thread.
unsafe impl Send for Region {}

impl Region {
    /// The region of `len` bytes at `base`.
    ///
    /// # Safety
    /// The memory is valid for reads and writes as long as the region, and whatever was allocated
    /// from it, is used, and nobody else uses it.
    #[must_use]
    pub const unsafe fn new(base: *mut u8, len: usize) -> Self {
        Self { base, start: 0, end: 0, low: len, high: len, opened: false, zeroed: false }
    }

    /// The region that is this memory.
    #[must_use]
    pub const fn from_static(memory: &'static mut [MaybeUninit<u8>]) -> Self {
        let len = memory.len();
        // SAFETY: the exclusive borrow for `'static` is the promise `new` asks for.
        unsafe { Self::new(memory.as_mut_ptr().cast(), len) }
    }

    /// The region of `len` bytes at `base`, which holds zeros wherever memory is dedicated.
    ///
    /// # Safety
    /// As for [`new`](Self::new), but that the memory need only be valid once it is handed out.
    #[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
    pub(crate) const unsafe fn zeroed(base: *mut u8, len: usize) -> Self {
        Self { base, start: 0, end: 0, low: len, high: len, opened: false, zeroed: true }
    }

    /// The addresses of all of it.
    #[must_use]
    pub fn addresses(&self) -> Range<usize> {
        self.base.addr()..self.base.addr() + self.high
    }

    /// Bytes of all of it.
    pub(crate) const fn len(&self) -> usize {
        self.high
    }

    /// All of the region, with what it holds, was moved to `base`. One of no bytes becomes `len` bytes long.
    ///
    /// # Safety
    /// As for [`new`](Self::new); the region has this length or none.
    #[inline(always)]
    pub(crate) unsafe fn rebase(&mut self, base: *mut u8, len: usize) {
        self.base = base;
        if self.high == 0 {
            (self.low, self.high) = (len, len);
        }
    }

    fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset <= self.high);
        // SAFETY: the offset lies within the region, which does not wrap around; a region handed
        // to `new` is valid memory, hence not at address 0.
        unsafe { NonNull::new_unchecked(self.base.add(offset)) }
    }
}

// SAFETY: by the invariant the extent and the dedicated memory are disjoint parts of the region,
// which `new`'s caller gave exclusively; both only grow, but for `retract`.
unsafe impl Source for Region {
    fn extend(&mut self, bytes: usize, align: usize) -> Result<NonNull<u8>, AllocError> {
        if self.base.is_null() {
            return Err(AllocError::NoRegion);
        }
        if !align.is_power_of_two() {
            return Err(AllocError::Exhausted);
        }
        let from = if self.opened { self.end } else { self.base.align_offset(align) };
        let to = from.checked_add(bytes).ok_or(AllocError::Exhausted)?;
        if to > self.low {
            return Err(AllocError::Exhausted);
        }
        if !self.opened {
            self.opened = true;
            self.start = from;
        }
        self.end = to;
        Ok(self.at(from))
    }

    unsafe fn retract(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.end - self.start);
        self.end -= bytes;
    }

    fn dedicate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        if self.base.is_null() {
            return Err(AllocError::NoRegion);
        }
        let top = self.base.addr() + self.low;
        let wanted = top.checked_sub(layout.size()).ok_or(AllocError::Exhausted)?;
        let low = (wanted & !(layout.align() - 1)).checked_sub(self.base.addr());
        match low {
            Some(low) if low >= self.end => {
                self.low = low;
                let memory = self.at(low);
                if !self.zeroed {
                    // SAFETY: `low + size` is at most the old `low`: the bytes lie within the
                    // region and were in neither part of it.
                    unsafe { memory.write_bytes(0, layout.size()) };
                }
                Ok(memory)
            }
            _ => Err(AllocError::Exhausted),
        }
    }

    fn extent(&self) -> Range<usize> {
        self.base.addr() + self.start..self.base.addr() + self.end
    }

    fn dedicated(&self) -> Range<usize> {
        self.base.addr() + self.low..self.base.addr() + self.high
    }
}

// SAFETY: all is passed on to a source that keeps the promises, which stays where it is in its box.
#[cfg(feature = "std")]
unsafe impl<S: Source + ?Sized> Source for Box<S> {
    fn extend(&mut self, bytes: usize, align: usize) -> Result<NonNull<u8>, AllocError> {
        (**self).extend(bytes, align)
    }

    unsafe fn retract(&mut self, bytes: usize) {
        // SAFETY: passed on.
        unsafe { (**self).retract(bytes) };
    }

    fn dedicate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        (**self).dedicate(layout)
    }

    fn extent(&self) -> Range<usize> {
        (**self).extent()
    }

    fn dedicated(&self) -> Range<usize> {
        (**self).dedicated()
    }

    fn map(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        (**self).map(layout)
    }

    unsafe fn unmap(&mut self, block: NonNull<u8>) {
        // SAFETY: passed on.
        unsafe { (**self).unmap(block) };
    }

    fn mapped(&self, visit: &mut dyn FnMut(Range<usize>, usize)) {
        (**self).mapped(visit);
    }

    fn held(&self) -> usize {
        (**self).held()
    }
}

/// Address space reserved from the operating system. Only what is touched takes memory.
/// It is reserved at the first use and given back when the source is dropped, and so are mappings.
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
#[derive(Debug)]
pub struct Reserved {
    capacity: usize,
    region: Region,
    backed: os::Backed,
    mappings: mappings::Mappings,
}

#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
impl Reserved {
    /// A reservation of at most `capacity` bytes, extent and bookkeeping together.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        // Pointers into the same memory lie no further apart; with 32 bits the system may have more at a time.
        let most = isize::MAX as usize;
        let capacity = if capacity < most { capacity } else { most };
        // SAFETY: a region of no bytes hands out nothing.
        let region = unsafe { Region::new(core::ptr::null_mut(), 0) };
        Self { capacity, region, backed: os::Backed::NONE, mappings: mappings::Mappings::new() }
    }

    /// Makes the reservation if it was not made yet, and sees to it that there is memory for so many bytes more at
    /// the lower end of what is free, or at the upper one.
    fn reserve(&mut self, lower: usize, upper: usize) -> Result<&mut Region, AllocError> {
        if self.region.base.is_null() {
            let base = os::map_lazily(self.capacity).ok_or(AllocError::Exhausted)?;
            // SAFETY: the mapping is ours alone until `drop` unmaps it.
            self.region = unsafe { Region::zeroed(base.as_ptr(), self.capacity) };
        }
        let Region { base, end, low, high, .. } = self.region;
        let lower = end.saturating_add(lower).min(low);
        let upper = low.saturating_sub(upper).max(lower);
        // SAFETY: these are the ends of what was mapped above.
        let is_backed = unsafe { self.backed.reach(base, lower, upper, high) };
        if is_backed { Ok(&mut self.region) } else { Err(AllocError::Exhausted) }
    }
}

// SAFETY: a region over a mapping that stays in place until the source is dropped.
#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
unsafe impl Source for Reserved {
    fn extend(&mut self, bytes: usize, align: usize) -> Result<NonNull<u8>, AllocError> {
        self.reserve(bytes.saturating_add(align), 0)?.extend(bytes, align)
    }

    unsafe fn retract(&mut self, bytes: usize) {
        // SAFETY: passed on.
        unsafe { self.region.retract(bytes) };
    }

    fn dedicate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        self.reserve(0, layout.size().saturating_add(layout.align()))?.dedicate(layout)
    }

    fn extent(&self) -> Range<usize> {
        self.region.extent()
    }

    fn dedicated(&self) -> Range<usize> {
        self.region.dedicated()
    }

    fn map(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.mappings.map(layout)
    }

    unsafe fn unmap(&mut self, block: NonNull<u8>) {
        // SAFETY: passed on.
        unsafe { self.mappings.unmap(block) };
    }

    fn mapped(&self, visit: &mut dyn FnMut(Range<usize>, usize)) {
        self.mappings.each(visit);
    }

    fn held(&self) -> usize {
        self.region.held() + self.mappings.held()
    }
}

#[cfg(all(feature = "std", any(unix, windows, target_arch = "wasm32")))]
impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(base) = NonNull::new(self.region.base) {
            // SAFETY: `reserve` mapped exactly this; whoever still uses a block broke the
            // contract of the strategy that owns the source.
            unsafe { os::unmap(base, self.capacity) };
        }
    }
}
