//! Before the process as a whole grows, the free memory of all heaps goes back first, once it is more
//! than a share of what is in use: threads that allocate by turns, each in a heap of its own, would keep
//! as many peaks.

use core::sync::atomic::Ordering::Relaxed;

use super::heap::Heap;
use super::{heaps, mapping};

/// Free memory that may stay beside what is in use: an eighth of that, and so many bytes at least.
const SHARE: usize = 8;
const LEAST: usize = 4 << 20;

/// This heap has grown by so many bytes, or as many were mapped beside it. If more is free than the
/// share, twice as much goes back, of each heap in its turn, so that what is free comes down to the share
/// while the process grows. O(bytes + heaps).
#[cold]
pub(super) fn grown(grown: &Heap, bytes: usize) {
    let (mut used, mut most) = (0_usize, 0_usize);
    for heap in heaps::all() {
        // A heap whose figures are being changed may seem to have less than nothing free.
        let in_use = heap.used.load(Relaxed);
        used += in_use;
        most += heap.most.load(Relaxed).max(in_use);
    }
    let free = most - used;
    let (_, mapped, _) = mapping::usage();
    let kept = LEAST.max((used + mapped) / SHARE);
    let mut wanted = free.saturating_sub(kept).min(2 * bytes);
    for _ in heaps::all() {
        if wanted == 0 {
            break;
        }
        let heap = heaps::next_after(grown);
        if heap.most.load(Relaxed) > heap.used.load(Relaxed) {
            wanted = wanted.saturating_sub(heap.give_back(wanted));
        }
    }
}
