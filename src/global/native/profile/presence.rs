//! Whether a block may have been sampled, mostly told by one load: a count of sampled blocks for each hash of an address.
//!
//! A block's count is above 0 before its owner has it, and until it was taken out of the book. Who frees a block has it, so
//! what is 0 then is 0.

use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32};

use super::super::apart::Apart;
use crate::os;

const COUNTS: usize = 1 << 15;

static PRESENT: Apart<AtomicPtr<AtomicU32>> = Apart::new(AtomicPtr::new(ptr::null_mut()));

/// Makes the counts, once; whether there is memory for them. To be called by one thread at a time.
pub(super) fn open() -> bool {
    if PRESENT.load(Relaxed).is_null()
        && let Some(counts) = os::allocate(COUNTS * size_of::<AtomicU32>())
    {
        PRESENT.store(counts.cast(), Release);
    }
    !PRESENT.load(Relaxed).is_null()
}

fn count_of(block: usize) -> Option<&'static AtomicU32> {
    let counts = PRESENT.load(Acquire);
    let hash = (block / 16).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as usize);
    let index = hash >> (usize::BITS - COUNTS.trailing_zeros());
    // SAFETY: the mapping has this many counts, zeros at first, and is never released.
    (!counts.is_null()).then(|| unsafe { &*counts.add(index) })
}

/// Whether a block may be in the book.
#[inline]
pub(super) fn may_have(block: usize) -> bool {
    count_of(block).is_some_and(|count| count.load(Relaxed) > 0)
}

/// A block comes into the book.
pub(super) fn add(block: usize) {
    if let Some(count) = count_of(block) {
        count.fetch_add(1, Relaxed);
    }
}

/// A block that was in the book is no more.
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
        blocks.clone().for_each(remove);
        assert!(!blocks.clone().any(may_have));
    }
}
