//! Mappings that take memory as they grow into it, from both ends: what is committed counts as taken on Windows, touched
//! or not.

use core::ptr::NonNull;

use super::memory::{commit, release, reserve};

/// Bytes that become accessible at one time, at least.
const STEP: usize = 256 << 10;

/// Reserves `len` bytes that are zeros once they are [backed](Backed::reach); `None` if the system refuses.
pub(crate) fn map_lazily(len: usize) -> Option<NonNull<u8>> {
    NonNull::new(reserve(len)?)
}

/// Takes a [lazy](map_lazily) mapping back.
///
/// # Safety
/// `base` was mapped so with `len` bytes, and nothing uses it any more.
pub(crate) unsafe fn unmap(base: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { release(base.as_ptr(), len) };
}

/// How much of a lazy mapping has memory: its first bytes, and its last.
#[derive(Debug)]
pub(crate) struct Backed {
    first: usize,
    last: usize,
}

impl Backed {
    pub(crate) const NONE: Self = Self { first: 0, last: 0 };

    /// Sees to it that there is memory below the offset `lower`, and from `upper` to `high`. Whether there is.
    ///
    /// # Safety
    /// A lazy mapping starts at `base`, and reaches to `high`.
    pub(crate) unsafe fn reach(
        &mut self,
        base: *mut u8,
        lower: usize,
        upper: usize,
        high: usize,
    ) -> bool {
        // SAFETY: all of it lies in the mapping.
        unsafe {
            if lower > self.first {
                let to = lower.next_multiple_of(STEP).min(high);
                if !commit(base.wrapping_add(self.first), to - self.first) {
                    return false;
                }
                self.first = to;
            }
            if high - upper > self.last {
                let last = (high - upper).next_multiple_of(STEP).min(high);
                if !commit(base.wrapping_add(high - last), last - self.last) {
                    return false;
                }
                self.last = last;
            }
            true
        }
    }
}
