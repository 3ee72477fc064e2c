//! How many bytes of medium blocks a thread may keep on its lists.

use core::sync::atomic::Ordering::Relaxed;

use super::super::current;
use crate::global::native::heaps::pool;

/// The most bytes on the medium lists of all threads together.
const ALL: usize = 64 << 20;

/// The most bytes on those of one thread.
const OF_THREAD: usize = 16 << 20;

/// The threads of a heap may keep a quarter of the bytes that it has in use, up to this many, or an
/// eighth if that is more.
const QUARTER: usize = 4 << 20;

/// Bytes that a thread may always keep.
pub(super) const LEAST: usize = 2 << 20;

/// Returns the calling thread's budget: its part of the bytes that all threads' lists may hold.
pub(super) fn budget_of_thread() -> usize {
    let threads: usize = pool::all().map(|heap| heap.threads.load(Relaxed) as usize).sum();
    budget_of(threads)
}

/// Returns the budget of each of `threads` threads in bytes.
fn budget_of(threads: usize) -> usize {
    OF_THREAD.min(ALL / threads.max(1))
}

/// Returns the calling thread's share of the bytes that its heap has in use.
pub(super) fn share_of_heap() -> usize {
    // SAFETY: the calling thread has lists, which are never freed.
    let heap = unsafe { &*current::lists() }.heap();
    share_of(heap.used.load(Relaxed), heap.threads.load(Relaxed) as usize)
}

/// Returns the share of each of `threads` threads of a heap that has `used` bytes in use.
fn share_of(used: usize, threads: usize) -> usize {
    let share = (used / 4).min(QUARTER).max(used / 8);
    (share / threads.max(1)).max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Up to four threads keep 16 MiB each; more threads keep 64 MiB together.
    #[test]
    fn threads_have_their_budgets() {
        assert_eq!([0, 1, 4, 8, 64].map(|threads| budget_of(threads) >> 20), [16, 16, 16, 8, 1]);
        assert_eq!(budget_of(5), (64 << 20) / 5);
    }

    /// The threads of a heap together keep a quarter of the bytes in use, 4 MiB at most, or an
    /// eighth; but each may keep 2 MiB.
    #[test]
    fn threads_share_with_their_heap() {
        const MIB: usize = 1 << 20;
        assert_eq!(
            [0, 1, 2, 5].map(|threads| share_of(80 * MIB, threads)),
            [10, 10, 5, 2].map(|mib| mib * MIB)
        );
        assert_eq!(
            [12, 16, 32, 33].map(|mib| share_of(mib * MIB, 1)),
            [3 * MIB, 4 * MIB, 4 * MIB, 33 * MIB / 8]
        );
        assert_eq!([0, 1, 9].map(|threads| share_of(8 * MIB + 3, threads)), [2 * MIB; 3]);
        assert_eq!(share_of(8 * MIB + 4, 1), 2 * MIB + 1);
    }
}
