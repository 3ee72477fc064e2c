//! The sources of a strategy's memory: the trait [`Source`], with [`Region`] (fixed memory, usable
//! in a `static`) and [`Reserved`] (a reservation of address space that grows in place).
//!
//! ```text
//!  low address                                                        high address
//!  |-- extent: pages, blocks --> extend |   not held   | dedicate <-- dedicated --|
//! ```
//! Blocks and pages are in the *extent*. Page headers, left headers and tables are in the
//! *dedicated* memory, away from the pages that they describe, so that bookkeeping touches few OS
//! pages (Brent §4). A source over an operating system can also *map* memory for a single block,
//! apart from all this, and unmap it separately (Hasan & Chang §3.2).

use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;

use crate::error::AllocError;
#[cfg(all(feature = "os", any(unix, windows, target_arch = "wasm32")))]
use crate::os;

mod borrowed;
mod fixed;
#[cfg(all(feature = "os", any(unix, windows, target_arch = "wasm32")))]
mod mappings;
mod owned;

pub use self::borrowed::Borrowed;
pub(crate) use self::fixed::FixedSource;
pub(crate) use self::owned::Owned;

/// The number of bytes below a mapped block that belong to the strategy.
pub(crate) const OWNERS: usize = 16;

/// A range of addresses that is used from both ends.
///
/// # Safety
/// Implementers guarantee all of the following:
/// - The memory of [`extend`](Self::extend), [`dedicate`](Self::dedicate) and [`map`](Self::map)
///   has the address, length, alignment and zeros that they document.
/// - It is valid for reads and writes, is disjoint from everything else, and stays valid and in
///   place until it is given back or the source is dropped, even if the source is moved.
/// - Extent and dedicated memory lie in one range of addresses. Nothing of another source is in that
///   range, unless the other source's whole range is in one block of a strategy over this source.
/// - No byte is handed out twice, except after [`retract`](Self::retract).
/// - The methods report extent, dedicated memory and mappings correctly, and these change only by
///   calls of the methods: nothing else takes memory from the source.
/// - A strategy calls its source in the middle of its updates. So no method unwinds, except with a
///   panic of the visitor of [`mapped`](Self::mapped), and none uses the strategy.
pub unsafe trait Source {
    /// Extends the extent upwards by `bytes` bytes, and returns the start of the new part, which is
    /// the extent's old end. The first call places the extent's start at a multiple of `align`
    /// bytes (a power of two); later calls ignore `align`. The memory is not initialised. O(1).
    ///
    /// # Errors
    /// [`AllocError::Exhausted`] if extent and dedicated memory would overlap, or the system has no
    /// memory; [`AllocError::NoRegion`] if the source has no memory at all.
    fn extend(&mut self, bytes: usize, align: usize) -> Result<NonNull<u8>, AllocError>;

    /// Removes the uppermost `bytes` bytes from the extent. O(1).
    ///
    /// # Safety
    /// The extent has at least `bytes` bytes, and its uppermost `bytes` bytes are not used any
    /// more.
    unsafe fn retract(&mut self, bytes: usize);

    /// Takes zeroed memory of this layout for bookkeeping from the upper end, directly below what was
    /// dedicated before, but for the alignment. It is never given back. O(bytes).
    ///
    /// # Errors
    /// As for [`extend`](Self::extend).
    fn dedicate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError>;

    /// Returns the addresses of the extent.
    fn extent(&self) -> Range<usize>;

    /// Returns the addresses of the dedicated memory, which is above the extent.
    fn dedicated(&self) -> Range<usize>;

    /// Maps zeroed memory for a single block of this layout, apart from extent and dedicated
    /// memory, and returns the block with its whole length. The 16 bytes below the block also
    /// belong to the strategy. O(mappings) in the worst case, besides calls of the system. By
    /// default, as for a fixed region, there is no such memory and the call fails.
    ///
    /// # Errors
    /// [`AllocError::Exhausted`] if the system has no memory, or the source cannot map.
    fn map(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let _ = layout;
        Err(AllocError::Exhausted)
    }

    /// Gives a mapped block back to the system.
    ///
    /// # Safety
    /// This source mapped the block, and nothing in it is used any more.
    unsafe fn unmap(&mut self, block: NonNull<u8>) {
        let _ = block;
    }

    /// Calls `visit` for every mapping in address order, with the mapping's addresses and its
    /// block's address.
    fn mapped(&self, visit: &mut dyn FnMut(Range<usize>, usize)) {
        let _ = visit;
    }

    /// Returns the bytes held: extent, dedicated memory and mappings.
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
    /// Start of the extent; meaningful only if `opened`.
    start: usize,
    /// End of the extent.
    end: usize,
    /// Start of the dedicated memory.
    low: usize,
    /// End of the dedicated memory, and of the region.
    high: usize,
    /// Where the memory is known to be zeros outside of extent and dedicated memory: from this
    /// offset on. What [`retract`](Source::retract) gave back is below it.
    zeros: usize,
    opened: bool,
}

// SAFETY: a region owns its memory exclusively, and the memory is not tied to a thread.
unsafe impl Send for Region {}

impl Region {
    /// Returns the region of `len` bytes at `base`.
    ///
    /// # Safety
    /// The memory is valid for reads and writes as long as the region or anything allocated from it
    /// is used, and nothing else uses it. As any memory of Rust, it has at most `isize::MAX` bytes,
    /// and ends below the last byte of the address space.
    #[must_use]
    pub const unsafe fn new(base: *mut u8, len: usize) -> Self {
        Self { base, start: 0, end: 0, low: len, high: len, zeros: len, opened: false }
    }

    /// Returns a region that consists of `memory`.
    #[must_use]
    pub const fn from_static(memory: &'static mut [MaybeUninit<u8>]) -> Self {
        let len = memory.len();
        // SAFETY: the exclusive borrow for `'static` guarantees what `new` requires.
        unsafe { Self::new(memory.as_mut_ptr().cast(), len) }
    }

    /// Returns the region of `len` bytes at `base`, whose memory is known to be zeros where it is
    /// dedicated.
    ///
    /// # Safety
    /// As for [`new`](Self::new), except that the memory must be valid only from when it is handed
    /// out.
    #[cfg(all(feature = "os", any(unix, windows, target_arch = "wasm32")))]
    pub(crate) const unsafe fn zeroed(base: *mut u8, len: usize) -> Self {
        Self { base, start: 0, end: 0, low: len, high: len, zeros: 0, opened: false }
    }

    /// Returns the addresses of the whole region.
    #[must_use]
    pub fn addresses(&self) -> Range<usize> {
        self.base.addr()..self.base.addr() + self.high
    }

    /// Returns the length of the whole region in bytes.
    pub(crate) const fn len(&self) -> usize {
        self.high
    }

    /// Tells the region that it was moved to `base` with its contents. A region of 0 bytes also
    /// gets the length `len`.
    ///
    /// # Safety
    /// As for [`new`](Self::new); the region's length is `len` or 0.
    #[inline(always)]
    pub(crate) unsafe fn rebase(&mut self, base: *mut u8, len: usize) {
        self.base = base;
        if self.high == 0 {
            (self.low, self.high, self.zeros) = (len, len, len);
        }
    }

    fn at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset <= self.high);
        // SAFETY: the offset is within the region, which does not wrap around. A region's memory is
        // valid, so its address is not 0.
        unsafe { NonNull::new_unchecked(self.base.add(offset)) }
    }
}

// SAFETY: by the invariant, the extent and the dedicated memory are disjoint parts of the region,
// which `new`'s caller gave up exclusively. Both only grow, except by `retract`.
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
        self.zeros = self.zeros.max(self.end);
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
                // Not the whole: memory that is zeros already stays untouched.
                let other = self.zeros.saturating_sub(low).min(layout.size());
                // SAFETY: `low + size` is at most the old `low`, so the bytes are within the
                // region, and were in neither part of it.
                unsafe { memory.write_bytes(0, other) };
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

// SAFETY: every call is forwarded to a `Source`, which stays in place in its box.
#[cfg(feature = "std")]
unsafe impl<S: Source + ?Sized> Source for Box<S> {
    fn extend(&mut self, bytes: usize, align: usize) -> Result<NonNull<u8>, AllocError> {
        (**self).extend(bytes, align)
    }

    unsafe fn retract(&mut self, bytes: usize) {
        // SAFETY: the caller gives the same guarantees.
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
        // SAFETY: the caller gives the same guarantees.
        unsafe { (**self).unmap(block) };
    }

    fn mapped(&self, visit: &mut dyn FnMut(Range<usize>, usize)) {
        (**self).mapped(visit);
    }

    fn held(&self) -> usize {
        (**self).held()
    }
}

/// Address space reserved from the operating system. Only memory that is touched is used. The
/// reservation is made at the first use. It and the mappings are given back when the source is
/// dropped.
#[cfg(all(feature = "os", any(unix, windows, target_arch = "wasm32")))]
#[derive(Debug)]
pub struct Reserved {
    capacity: usize,
    region: Region,
    backed: os::Backed,
    mappings: mappings::Mappings,
}

#[cfg(all(feature = "os", any(unix, windows, target_arch = "wasm32")))]
impl Reserved {
    /// Returns a reservation of at most `capacity` bytes for extent and bookkeeping together.
    #[must_use]
    pub const fn new(capacity: usize) -> Self {
        // Pointers into one allocation are at most this far apart. A 32-bit system may reserve
        // more.
        let most = isize::MAX as usize;
        let capacity = if capacity < most { capacity } else { most };
        // SAFETY: a region of 0 bytes hands out no memory.
        let region = unsafe { Region::new(core::ptr::null_mut(), 0) };
        Self { capacity, region, backed: os::Backed::NONE, mappings: mappings::Mappings::new() }
    }

    /// Makes the reservation if there is none yet. Ensures that `lower` more bytes at the lower end
    /// of the unused part, and `upper` more bytes at its upper end, have memory.
    fn reserve(&mut self, lower: usize, upper: usize) -> Result<&mut Region, AllocError> {
        if self.region.base.is_null() {
            let base = os::map_lazily(self.capacity).ok_or(AllocError::Exhausted)?;
            // SAFETY: only this source uses the mapping, until `drop` unmaps it.
            self.region = unsafe { Region::zeroed(base.as_ptr(), self.capacity) };
        }
        let Region { base, end, low, high, .. } = self.region;
        let lower = end.saturating_add(lower).min(low);
        let upper = low.saturating_sub(upper).max(lower);
        // SAFETY: these are the bounds of the mapping made above.
        let is_backed = unsafe { self.backed.reach(base, lower, upper, high) };
        if is_backed { Ok(&mut self.region) } else { Err(AllocError::Exhausted) }
    }
}

// SAFETY: `Region` is a `Source`, over a mapping that stays in place until the source is dropped.
#[cfg(all(feature = "os", any(unix, windows, target_arch = "wasm32")))]
unsafe impl Source for Reserved {
    fn extend(&mut self, bytes: usize, align: usize) -> Result<NonNull<u8>, AllocError> {
        // Only the first piece is aligned. A request that cannot fit needs no memory.
        let Region { base, end, low, opened, .. } = self.region;
        if !base.is_null() && bytes > low - end {
            return Err(AllocError::Exhausted);
        }
        let before = if opened { 0 } else { align };
        self.reserve(bytes.saturating_add(before), 0)?.extend(bytes, align)
    }

    unsafe fn retract(&mut self, bytes: usize) {
        // SAFETY: the caller gives the same guarantees.
        unsafe { self.region.retract(bytes) };
    }

    fn dedicate(&mut self, layout: Layout) -> Result<NonNull<u8>, AllocError> {
        let Region { base, end, low, .. } = self.region;
        if !base.is_null() && layout.size() > low - end {
            return Err(AllocError::Exhausted);
        }
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
        // SAFETY: the caller gives the same guarantees.
        unsafe { self.mappings.unmap(block) };
    }

    fn mapped(&self, visit: &mut dyn FnMut(Range<usize>, usize)) {
        self.mappings.each(visit);
    }

    fn held(&self) -> usize {
        self.region.held() + self.mappings.held()
    }
}

#[cfg(all(feature = "os", any(unix, windows, target_arch = "wasm32")))]
impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(base) = NonNull::new(self.region.base) {
            // SAFETY: `reserve` mapped exactly this memory. A block that is still used violates the
            // contract of the strategy that owns the source.
            unsafe { os::unmap(base, self.capacity) };
        }
    }
}
