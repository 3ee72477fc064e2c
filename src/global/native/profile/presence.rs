//! Tells, mostly with one load, whether a block may have been sampled: a table that counts the
//! sampled blocks for each hash of an address.
//!
//! A block's count rises before its owner gets the block, and falls only after the block was taken
//! out of the book. A thread that frees a block owns it, so a count of 0 means that the block is
//! not in the book.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32};

use crate::global::native::base::apart::Apart;
use crate::os;
use crate::words::scatter;

/// Number of counts, a power of two.
const COUNTS: usize = 1 << 15;

/// The counts; null before the first profile.
static PRESENT: Apart<AtomicPtr<AtomicU32>> = Apart::new(AtomicPtr::new(ptr::null_mut()));

/// Allocates the counts at the first call. Returns whether they exist. Must be called by one thread
/// at a time.
pub(super) fn open() -> bool {
    if PRESENT.load(Relaxed).is_null()
        && let Some(counts) = os::allocate(COUNTS * size_of::<AtomicU32>())
    {
        PRESENT.store(counts.cast(), Release);
    }
    !PRESENT.load(Relaxed).is_null()
}

/// Returns the count that a block shares with all others of its hash.
fn count_of(block: usize) -> Option<&'static AtomicU32> {
    let counts = PRESENT.load(Acquire);
    let index = scatter::place(block / 16, COUNTS);
    // SAFETY: the mapping has `COUNTS` counts, which start as zeros, and it is never released.
    (!counts.is_null()).then(|| unsafe { &*counts.add(index) })
}

/// Returns whether a block may be in the book. If it returns `false`, the block is not there.
#[inline]
pub(super) fn may_have(block: usize) -> bool {
    count_of(block).is_some_and(|count| count.load(Relaxed) > 0)
}

/// Counts a block that is added to the book.
pub(super) fn add(block: usize) {
    if let Some(count) = count_of(block) {
        count.fetch_add(1, Relaxed);
    }
}

/// Uncounts a block that has left the book.
pub(super) fn remove(block: usize) {
    if let Some(count) = count_of(block) {
        count.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_there_until_it_is_removed() {
        assert!(open() && open());
        let blocks = (0..1000).map(|n| usize::MAX / 2 + n * 4096);
        blocks.clone().for_each(add);
        assert!(blocks.clone().all(may_have));
        // Few others seem to be there.
        let others = blocks.clone().filter(|block| may_have(block + 16)).count();
        assert!(others < 200, "{others} of 1000");
        blocks.clone().for_each(remove);
        assert!(!blocks.clone().any(may_have));
    }
}
