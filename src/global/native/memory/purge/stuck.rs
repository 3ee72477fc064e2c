//! Free memory that a walk could not give back, since it shares OS pages with blocks in use.

use crate::os;

/// The stuck bytes of the last walk: free, resident, and in OS pages that blocks in use occupy in
/// part. They can go back once the rest of those OS pages is free.
/// [`Purge::most_resident`](super::Purge) leaves them out; otherwise one walk would follow the
/// other.
#[derive(Debug)]
pub(super) struct Stuck {
    /// Number of stuck bytes.
    pub(super) bytes: usize,
    /// Bytes that the heap had in use when the walk ended.
    pub(super) used: usize,
    /// Time of the next try, if a block was freed since then, milliseconds.
    pub(super) next_try_at: u64,
    /// Successive walks that gave back little of it. Each doubles the wait before the next.
    pub(super) in_vain: u32,
}

impl Stuck {
    /// The state before the first walk.
    pub(super) const NONE: Self = Self { bytes: 0, used: 0, next_try_at: 0, in_vain: 0 };

    /// The wait is the purge delay, doubled at most this often.
    const DOUBLED: u32 = 6;

    /// Returns the bytes that can probably go back by now: all of them if a quarter of the bytes
    /// then in use has been freed, else none.
    pub(super) fn loose_bytes(&self, used: usize) -> usize {
        if used < self.used - self.used / 4 { self.bytes } else { 0 }
    }

    /// Records that a walk left `bytes` stuck and gave `given` bytes back.
    pub(super) fn note_walk(&mut self, bytes: usize, used: usize, given: usize, delay: u32) {
        let is_in_vain = given < bytes / 8;
        let in_vain = if is_in_vain { (self.in_vain + 1).min(Self::DOUBLED) } else { 0 };
        let next_try_at = os::now() + (u64::from(delay) << in_vain);
        *self = Self { bytes, used, next_try_at, in_vain };
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// A walk that gives back less than an eighth of the stuck bytes doubles the wait, up to 64
    /// times the purge delay.
    #[test]
    fn a_walk_in_vain_is_tried_again_later() {
        let mut stuck = Stuck::NONE;
        let mut met = |given, doubled: u32| {
            let before = os::now();
            stuck.note_walk(800, 4_000, given, 1_000);
            let delay = 1_000 << doubled;
            let expected = before + delay..=os::now() + delay;
            assert!(expected.contains(&stuck.next_try_at), "{given}, {doubled}");
            assert_eq!((stuck.bytes, stuck.used, stuck.in_vain), (800, 4_000, doubled));
        };
        met(100, 0);
        for doubled in [1, 2, 3, 4, 5, 6, 6, 6] {
            met(99, doubled);
        }
        met(100, 0);
        met(0, 1);
        met(5_000, 0);
        assert_eq!([3_001, 3_000, 2_999, 0].map(|used| stuck.loose_bytes(used)), [0, 0, 800, 800]);
        assert_eq!(Stuck::NONE.loose_bytes(0), 0);
    }
}
