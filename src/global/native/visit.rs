//! How long whoever comes by looks after memory: bounded by the calling thread's processor time, so that no single
//! call takes long, however slow the system is at what it is asked to do.

use crate::os;

/// Nanoseconds of processor time in passing.
const IN_PASSING: u64 = 100_000;

/// Nanoseconds in which the system takes a mebibyte back, at the slowest.
const MEBIBYTE: u64 = 100_000;

/// One visit. It begins when it is first asked whether it is over, so that one with nothing to do reads no clock.
#[derive(Debug)]
pub(super) struct Visit {
    takes: u64,
    until: Option<u64>,
}

impl Visit {
    /// By a thread that comes by.
    pub(super) fn in_passing() -> Self {
        Self { takes: IN_PASSING, until: None }
    }

    /// By a thread that gets or frees so many bytes at once, for which about as many go back: those who use large blocks
    /// wait as long as touching them takes.
    pub(super) fn for_bytes(bytes: usize) -> Self {
        Self { takes: ((bytes as u64 * MEBIBYTE) >> 20).max(IN_PASSING), until: None }
    }

    /// By one who came for that.
    pub(super) fn on_purpose() -> Self {
        Self { takes: 10 * IN_PASSING, until: None }
    }

    /// By one who goes on to the end.
    pub(super) fn unbounded() -> Self {
        Self { takes: u64::MAX, until: Some(u64::MAX) }
    }

    /// Whether it is over: a step that was begun is done to its end.
    pub(super) fn is_over(&mut self) -> bool {
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

    /// It begins when it is first asked, and ends by the processor's time.
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
