//! Memory that goes back at once while a program frees its larger blocks: such a program may stand
//! still afterwards, and then nobody would give the memory back after the purge delay.

use crate::global::native::base::visit::RATE;
use crate::os;

/// Larger blocks freed in one decline, bytes, before memory goes back at once.
const AT_ONCE: usize = 64 << 20;

/// A decline ends when the bytes in use rise this far above their lowest.
const RISE: usize = 1 << 20;

/// A decline in the bytes in use. Memory goes back at once when the blocks freed in it amount to
/// [`AT_ONCE`] and to more than is still in use, and again each time the bytes in use have halved.
/// After a decline in which memory went back, the next to do so waits for the purge delay, or
/// longer if much went back, since a program may free and allocate in turns.
#[derive(Debug)]
pub(in crate::global::native) struct Decline {
    /// The fewest bytes in use since the decline began.
    low: usize,
    /// Bytes of larger blocks freed by which `low` fell. A block that is soon replaced by one of
    /// the same size does not lower it.
    freed: usize,
    /// Memory goes back once fewer bytes are in use than this: half of those in use the last time.
    next_below: usize,
    /// Whether memory goes back in this decline.
    goes_back: bool,
    /// Whether a visit was too short for the memory that goes back in it.
    pub(super) has_remainder: bool,
    /// When memory last went back in a decline, milliseconds; 0 if it never did.
    last_at: u64,
    /// The bytes given back in all when that decline first gave memory back.
    purged_before: u64,
}

impl Decline {
    pub(in crate::global::native) const NONE: Self = Self {
        low: 0,
        freed: 0,
        next_below: usize::MAX,
        goes_back: false,
        has_remainder: false,
        last_at: 0,
        purged_before: 0,
    };

    /// Records the bytes in use.
    #[inline]
    pub(in crate::global::native) fn note(&mut self, used: usize) {
        if used > self.low + RISE {
            let &mut Self { last_at, purged_before, .. } = self;
            *self = Self { low: used, last_at, purged_before, ..Self::NONE };
        }
        self.low = self.low.min(used);
    }

    /// Records that larger blocks of `bytes` were freed, which leaves `used` in use, and returns
    /// whether memory goes back now. `purged` bytes went back in all.
    pub(in crate::global::native) fn note_freed(
        &mut self,
        used: usize,
        bytes: usize,
        purged: u64,
        delay: u32,
    ) -> bool {
        let fallen = self.low.saturating_sub(used).min(bytes);
        self.low -= fallen;
        self.freed += fallen;
        if used >= self.next_below || self.freed < AT_ONCE.max(used) {
            return false;
        }
        let now = os::now();
        if !self.goes_back {
            if now < self.next_at(purged, delay) {
                self.next_below = used.saturating_sub(RISE);
                return false;
            }
            (self.goes_back, self.purged_before) = (true, purged);
        }
        (self.next_below, self.last_at) = (used / 2, now);
        true
    }

    /// Returns the bytes that may still go back in this decline: twice those freed, less those that
    /// went back.
    pub(in crate::global::native) fn left(&self, purged: u64) -> usize {
        (2 * self.freed).saturating_sub((purged - self.purged_before) as usize)
    }

    /// Returns when the next decline may give memory back, milliseconds.
    fn next_at(&self, purged: u64, delay: u32) -> u64 {
        let wait = ((purged - self.purged_before) / RATE as u64).max(delay.into());
        if self.last_at > 0 { self.last_at + wait } else { 0 }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// A purge delay that does not end within a test.
    const LONG: u32 = 1 << 24;

    /// Nothing goes back at once before 64 MiB, and more than is in use, were freed in one decline;
    /// then again each time the bytes in use have halved, down to none.
    #[test]
    fn a_decline_gives_back_each_time_it_halves() {
        for (most, expected) in [
            (100 * MIB, &[36, 17, 8, 3, 1, 0][..]),
            (300 * MIB, &[150, 74, 36, 17, 8, 3, 1, 0]),
            (63 * MIB, &[]),
        ] {
            let mut decline = Decline::NONE;
            decline.note(most);
            let mut gives_back = |&used: &usize| {
                let goes_back = decline.note_freed(used, MIB, 0, LONG);
                decline.note(used);
                goes_back
            };
            let steps = (0..most / MIB).rev().map(|left| left * MIB);
            let found: Vec<_> = steps.filter(&mut gives_back).map(|used| used / MIB).collect();
            assert_eq!(found, expected, "{most}");
            // With little in use, and little freed, nothing goes back.
            assert!(![MIB / 2, 0, MIB, 0].iter().any(gives_back));
        }
    }

    /// At most twice the freed bytes may go back, less those that went back since the decline
    /// began. The next decline waits for as long as these bytes call for.
    #[test]
    fn what_went_back_before_a_decline_does_not_count() {
        let decline = Decline { freed: 5, purged_before: 100, last_at: 1_000, ..Decline::NONE };
        assert_eq!([100, 103, 110, 111].map(|purged| decline.left(purged)), [10, 7, 0, 0]);
        let next_at = |purged| decline.next_at(100 + purged * RATE as u64, 50);
        assert_eq!([0, 50, 51, 90].map(next_at), [1_050, 1_050, 1_051, 1_090]);
        assert_eq!(Decline { last_at: 0, ..decline }.next_at(1 << 40, 50), 0, "there was none");
    }

    /// Blocks that are freed and replaced are no decline, however many: memory given back for them
    /// was touched again at once, at a hundred times the cost of all else.
    #[test]
    fn blocks_that_are_replaced_are_no_decline() {
        for bytes in [64 << 10, RISE] {
            let mut decline = Decline::NONE;
            decline.note(200 * MIB);
            for _ in 0..10_000 {
                assert!(!decline.note_freed(200 * MIB - bytes, bytes, 0, LONG));
                decline.note(200 * MIB - bytes);
                decline.note(200 * MIB);
            }
        }
    }

    /// A decline ends when a mebibyte more is in use than at its lowest. The next gives memory back
    /// after the purge delay, or after a millisecond for each 64 KiB that went back.
    #[test]
    fn the_next_decline_waits() {
        let purged = 65 * MIB as u64;
        for (delay, least) in [(LONG, LONG.into()), (0, purged / RATE as u64)] {
            let mut decline = Decline::NONE;
            decline.note(85 * MIB);
            assert!(decline.note_freed(21 * MIB, 64 * MIB, 7, delay));
            decline.note(21 * MIB + RISE);
            assert!(decline.note_freed(10 * MIB, 11 * MIB, 7 + 5, delay), "it is the same");
            let (now, next_at) = (os::now(), decline.next_at(7 + purged, delay));
            assert!(next_at <= now + least && next_at + 60_000 > now + least);
            decline.note(10 * MIB + RISE + 1);
            assert!(!decline.note_freed(MIB, 10 * MIB, 7 + purged, delay), "it is another");
            decline.note(200 * MIB);
            assert!(!decline.note_freed(100 * MIB, 100 * MIB, 7 + purged, delay), "it has to wait");
            // It asks the clock again a mebibyte later, and starts to count anew. (With no purge
            // delay: the machine may be up for less than the long one.)
            decline.last_at = now - purged / RATE as u64;
            assert!(!decline.note_freed(99 * MIB, MIB, 7 + purged, 0));
            assert!(decline.note_freed(99 * MIB - 1, 1, 7 + purged, 0));
            assert_eq!(
                (decline.purged_before, decline.next_below),
                (7 + purged, (99 * MIB - 1) / 2)
            );
            // Small blocks freed meanwhile lower the bytes in use, and count for nothing.
            decline.note(MIB);
            assert!(decline.note_freed(0, MIB, 7 + purged, delay));
        }
    }
}
