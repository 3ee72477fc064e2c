//! Mappings that are committed from both ends as they fill: Windows counts committed memory as
//! taken, touched or not.

use core::ptr::NonNull;

use super::memory::{commit, release, reserve};

/// Smallest number of bytes to commit at a time.
const STEP: usize = 256 << 10;

/// Reserves `len` bytes, which are zeros once they are [backed](Backed::reach); `None` if the
/// system refuses.
pub(crate) fn map_lazily(len: usize) -> Option<NonNull<u8>> {
    NonNull::new(reserve(len)?)
}

/// Gives back a [lazy](map_lazily) mapping.
///
/// # Safety
/// `base` came from [`map_lazily`] with this `len`, and the mapping is no longer used.
pub(crate) unsafe fn unmap(base: NonNull<u8>, len: usize) {
    // SAFETY: the caller guarantees that the mapping is whole and unused.
    unsafe { release(base.as_ptr(), len) };
}

/// How many bytes of a lazy mapping are committed at its start and at its end.
#[derive(Debug)]
pub(crate) struct Backed {
    first: usize,
    last: usize,
}

impl Backed {
    pub(crate) const NONE: Self = Self { first: 0, last: 0 };

    /// Commits the bytes below offset `lower`, and from `upper` to `high`. Returns whether they are
    /// committed.
    ///
    /// # Safety
    /// A lazy mapping starts at `base` and is `high` bytes long.
    pub(crate) unsafe fn reach(
        &mut self,
        base: *mut u8,
        lower: usize,
        upper: usize,
        high: usize,
    ) -> bool {
        // SAFETY: the caller guarantees the mapping, and all of these bytes are in it.
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
