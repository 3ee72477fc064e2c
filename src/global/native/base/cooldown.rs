//! The time that must pass before something is done again.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

/// The longest time, in milliseconds: twelve days.
const LONGEST: u32 = 1 << 30;

/// The time in milliseconds from which on something may be done again, cut to the bits of a word; 0
/// if it was never done. Where a word has 32 bits the clock wraps, so an end more than [`LONGEST`]
/// ahead counts as past.
#[derive(Debug)]
pub(in crate::global::native) struct Cooldown(AtomicUsize);

impl Cooldown {
    /// Returns a cooldown that is over.
    pub(in crate::global::native) const fn over() -> Self {
        Self(AtomicUsize::new(0))
    }

    /// Returns the milliseconds that are left at the time `now`; 0 if it is over.
    pub(in crate::global::native) fn left(&self, now: u64) -> u32 {
        left(self.0.load(Relaxed), now)
    }

    /// Begins again, with `millis` milliseconds, at most [`LONGEST`], if it is over at the time
    /// `now`. Returns whether it did. If several threads call this at once, one of them begins it.
    pub(in crate::global::native) fn begin_again(&self, now: u64, millis: u32) -> bool {
        let end = self.0.load(Relaxed);
        let new_end = (now as usize).wrapping_add(millis.min(LONGEST) as usize).max(1);
        left(end, now) == 0 && self.0.compare_exchange(end, new_end, Relaxed, Relaxed).is_ok()
    }
}

/// Returns the milliseconds from `now` to `end`, 0 if that is past.
fn left(end: usize, now: u64) -> u32 {
    let left = end.wrapping_sub(now as usize);
    if end == 0 || left > LONGEST as usize { 0 } else { left as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cooldown is over when its time has passed, also where the clock wraps; until then it does
    /// not begin again.
    #[test]
    fn a_cooldown_passes() {
        for start in [0, 1, 7, 1 << 31, u32::MAX - 50, u32::MAX] {
            let start = (3_u64 << 32) + u64::from(start);
            let cooldown = Cooldown::over();
            assert!(cooldown.begin_again(start, 100));
            assert!(cooldown.left(start).abs_diff(100) <= 1, "0 stands for no time");
            assert!(!cooldown.begin_again(start + 98, 100));
            assert!(cooldown.begin_again(start + 101, u32::MAX));
            assert!(cooldown.left(start + 101).abs_diff(LONGEST) <= 1);
        }
    }

    /// A time up to the longest ahead is waited for; one further ahead is past.
    #[test]
    fn a_time_is_ahead_or_past() {
        let ahead = [0, 1, LONGEST as usize, LONGEST as usize + 1, usize::MAX];
        let left = ahead.map(|ahead| left(7_usize.wrapping_add(ahead), 7));
        assert_eq!(left, [0, 1, LONGEST, 0, 0]);
        assert_eq!(self::left(5, 86_400_000), 0, "a day later");
    }

    /// A cooldown is over however long ago it passed. (Regression: 25 to 49 days later it was not.)
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_cooldown_stays_over() {
        let cooldown = Cooldown::over();
        for days in [1, 12, 26, 38, 49, 50, 400] {
            assert!(cooldown.begin_again(days * 86_400_000, 100));
            for later in [1, 13, 25, 30, 40, 49, 75] {
                assert_eq!(cooldown.left((days + later) * 86_400_000), 0, "{later} days later");
            }
        }
    }

    /// What was never done may be done at once, however long the system has been running.
    /// (Regression: while the lower 32 bits of the clock were above 2^31, as after 25 to 49 days,
    /// new processes put back no idle blocks, and gave nothing back at the rate, until it wrapped.)
    #[test]
    fn a_cooldown_is_over_at_first() {
        for now in [0, 1, 1 << 30, 3_000_000_000, (1 << 32) - 1, 1 << 40] {
            assert_eq!(Cooldown::over().left(now), 0, "{now}");
            assert!(Cooldown::over().begin_again(now, 1000), "{now}");
        }
    }
}
