//! Visits: the time that a thread on its slow path spends on giving memory back. It is bounded by
//! the thread's own processor time, so that no single call takes long however slow the system is.

use crate::os;

/// Processor time of a visit in passing, nanoseconds.
const IN_PASSING: u64 = 100_000;

/// Time in which the system takes back a mebibyte at the slowest, nanoseconds.
const MEBIBYTE: u64 = 100_000;

/// Bytes per millisecond that go back on average where the program may soon want them again: giving
/// them back and touching them again then takes a few hundredths of the time. The system can supply
/// memory some thirty times as fast.
pub(in crate::global::native) const RATE: usize = 64 << 10;

/// Whether a thread that visits a heap also does the upkeep that is due: a step of a purge, idle
/// lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::global::native) enum Upkeep {
    IfDue,
    /// For callers that are part of the upkeep themselves, and at the end of a thread.
    Never,
}

/// One visit. Its time begins at the first call of [`is_over`](Self::is_over), so a visit that
/// finds nothing to do reads no clock.
#[derive(Debug)]
pub(in crate::global::native) struct Visit {
    /// Processor time that the visit may take, nanoseconds.
    takes: u64,
    /// When it is over, by the thread's processor time; `None` until that is asked for the first
    /// time, `u64::MAX` if it never is.
    until: Option<u64>,
}

impl Visit {
    /// A visit on the slow path of a request for a small block.
    pub(in crate::global::native) fn in_passing() -> Self {
        Self { takes: IN_PASSING, until: None }
    }

    /// A visit by a thread that allocates or frees `bytes` at once, while about as many bytes of
    /// free memory go back to the system. It takes about as long as touching the block does.
    pub(in crate::global::native) fn for_bytes(bytes: usize) -> Self {
        Self { takes: ((bytes as u64 * MEBIBYTE) >> 20).max(IN_PASSING), until: None }
    }

    /// A visit that was asked for, as by `maintain`.
    pub(in crate::global::native) fn on_purpose() -> Self {
        Self { takes: 10 * IN_PASSING, until: None }
    }

    /// A visit that ends when nothing is left to do.
    pub(in crate::global::native) fn unbounded() -> Self {
        Self { takes: u64::MAX, until: Some(u64::MAX) }
    }

    /// Returns whether the time is up. A step already begun is finished.
    pub(in crate::global::native) fn is_over(&mut self) -> bool {
        if self.until == Some(u64::MAX) {
            return false;
        }
        let now = os::thread_time();
        now >= *self.until.get_or_insert(now.saturating_add(self.takes))
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// A visit for many bytes lasts in proportion to them, and no visit is shorter than one in
    /// passing.
    #[test]
    fn a_visit_takes_as_long_as_its_bytes() {
        let takes = |bytes| Visit::for_bytes(bytes).takes;
        assert_eq!([takes(0), takes(1000)], [Visit::in_passing().takes; 2]);
        assert_eq!(takes(64 << 20), 32 * takes(2 << 20));
        assert!(takes(2 << 20) > takes(1 << 20));
    }

    /// A visit begins when it is first asked, and ends by processor time.
    #[test]
    fn a_visit_ends() {
        for mut visit in [Visit::in_passing(), Visit::for_bytes(3 << 20), Visit::on_purpose()] {
            let takes = visit.takes;
            let before = os::thread_time();
            assert!(!visit.is_over());
            while !visit.is_over() {}
            assert!(os::thread_time() - before >= takes);
        }
    }
}
