//! Before the process as a whole grows, the free memory of all heaps goes back first, once it is more
//! than a share of what is in use: threads that allocate by turns, each in a heap of its own, would keep
//! as many peaks.
//!
//! | free memory, beside what is in use | goes back |
//! |---|---|
//! | up to an eighth, or 4 MiB | never |
//! | up to a sixth, or 16 MiB | at [`RATE`] on average: most of it is soon wanted again |
//! | more | at once |

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use super::apart::Apart;
use super::heap::Heap;
use super::visit::Visit;
use super::{heaps, mapping};
use crate::os;

/// Free memory that may stay beside what is in use: an eighth of that, and so many bytes at least.
const SHARE: usize = 8;
const LEAST: usize = 4 << 20;

/// Free memory above which the rate does not matter: a sixth of what is in use, and so many bytes at least.
const LARGE_SHARE: usize = 6;
const LARGE: usize = 16 << 20;

/// Bytes for each millisecond that go back on average: giving them back and faulting them in again takes a few
/// hundredths of the time.
const RATE: usize = 64 << 10;

/// Heaps of which the figures are read for each mebibyte that the process grows by.
const READ: usize = 32;

/// Bytes that the process has grown by since the heaps were last looked at.
static GROWTH: Apart<AtomicUsize> = Apart::new(AtomicUsize::new(0));

/// When memory may go back again at the rate. Milliseconds, the lower bits.
static AGAIN: Apart<AtomicU32> = Apart::new(AtomicU32::new(0));

/// This heap has grown by so many bytes, or as many were mapped beside it. If more is free than may stay, twice as
/// much goes back, of each heap in its turn, so that what is free comes down to the share while the process grows.
/// Whether any does. O(bytes + heaps); O(bytes) on average.
#[cold]
pub(super) fn grown(grown: &Heap, bytes: usize) -> bool {
    if GROWTH.fetch_add(bytes, Relaxed) + bytes < (heaps::all().len() / READ) << 20 {
        return false;
    }
    let grown_by = GROWTH.swap(0, Relaxed);
    let (mut used, mut most) = (0_usize, 0_usize);
    for heap in heaps::all() {
        // A heap whose figures are being changed may seem to have less than nothing free.
        let in_use = heap.used.load(Relaxed);
        used += in_use;
        most += heap.most.load(Relaxed).max(in_use);
    }
    let (_, mapped, _) = mapping::usage();
    let (mut wanted, is_large) = surplus(most - used, used + mapped, grown_by);
    if wanted == 0 || !is_time(&AGAIN, os::now() as u32, wanted) && !is_large {
        return false;
    }
    let mut visit = Visit::for_bytes(grown_by);
    let mut any = false;
    for _ in heaps::all() {
        if wanted == 0 {
            break;
        }
        let heap = heaps::next_after(grown);
        if heap.most.load(Relaxed) > heap.used.load(Relaxed) {
            let bytes = heap.give_back(wanted, &mut visit);
            (wanted, any) = (wanted.saturating_sub(bytes), any || bytes > 0);
        }
    }
    any
}

/// How much of the free memory is to go back beside what is in use, and whether at once.
fn surplus(free: usize, in_use: usize, grown_by: usize) -> (usize, bool) {
    let wanted = free.saturating_sub(LEAST.max(in_use / SHARE)).min(2 * grown_by);
    (wanted, free > LARGE.max(in_use / LARGE_SHARE))
}

/// Whether so many bytes may go back at a time by the rate, which then counts them.
fn is_time(again: &AtomicU32, now: u32, bytes: usize) -> bool {
    // A time that lies far ahead is long past, one of before the count began anew.
    let wait = again.load(Relaxed).wrapping_sub(now);
    let is_time = wait == 0 || wait > u32::MAX / 2;
    if is_time {
        // Who sets it at the same time counts for both.
        again.store(now.wrapping_add((bytes / RATE) as u32), Relaxed);
    }
    is_time
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory goes back at the rate, whatever is asked for and whenever; also where the milliseconds begin anew.
    #[test]
    fn memory_goes_back_at_the_rate() {
        for start in [0, 1_000, u32::MAX - 500] {
            let again = AtomicU32::new(start);
            let mut gone = 0;
            for at in 0..1_000 {
                let bytes = (1 + at as usize % 7) << 20;
                if is_time(&again, start.wrapping_add(at), bytes) {
                    gone += bytes;
                }
            }
            assert!((1_000 * RATE..=1_000 * RATE + (7 << 20)).contains(&gone), "{gone} bytes");
        }
    }

    /// The table above: what may stay, what goes back by and by, and what at once; twice the growth at most.
    #[test]
    fn free_memory_goes_back_beyond_a_share() {
        const MIB: usize = 1 << 20;
        // In use; what may stay; what may stay longer.
        for (in_use, stays, longer) in [(0, 4, 16), (32, 4, 16), (80, 10, 16), (240, 30, 40)] {
            let surplus = |free, grown| surplus(free, in_use * MIB, grown);
            assert_eq!(surplus(0, MIB), (0, false));
            assert_eq!(surplus(stays * MIB, MIB), (0, false));
            assert_eq!(surplus(stays * MIB + 1, MIB), (1, false));
            assert_eq!(surplus(stays * MIB + 5 * MIB, 100 * MIB), (5 * MIB, false));
            assert_eq!(surplus(longer * MIB, MIB), (2 * MIB, false));
            assert_eq!(surplus(longer * MIB + 1, 3 * MIB), (6 * MIB, true));
            assert_eq!(surplus(1000 * MIB, 1000 * MIB), ((1000 - stays) * MIB, true));
        }
    }

    /// A time up to half of all milliseconds ahead is waited for; one further ahead is past.
    #[test]
    fn a_time_is_ahead_or_past() {
        let is_time_at = |ahead: u32| is_time(&AtomicU32::new(7_u32.wrapping_add(ahead)), 7, 1);
        assert_eq!(
            [0, 1, u32::MAX / 2, u32::MAX / 2 + 1, u32::MAX].map(is_time_at),
            [true, false, false, true, true]
        );
    }

    /// A process in which nothing went back for a day may give memory back.
    #[test]
    fn a_rest_does_not_delay() {
        let again = AtomicU32::new(5);
        assert!(is_time(&again, 86_400_000, 1 << 20));
    }
}
