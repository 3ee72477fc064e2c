//! A heap: its lock, its bookkeeping, and its deferred frees.

use super::machine::{Line, transfer};
use super::times::Times;

/// Cache lines of a heap that every visit reads and writes.
const LINES: f64 = 4.0;

/// Number of blocks whose bits or list entries share a cache line.
pub(crate) const IN_LINE: f64 = 8.0;

/// Maximum number of deferred blocks.
const WAITING: f64 = 1024.0;

#[derive(Clone, Debug, Default)]
pub(crate) struct Heap {
    lock: Line,
    /// The time until which the lock is held.
    held_until: f64,
    /// The core that last held the lock: the bookkeeping is in its cache.
    last: usize,
    /// The cache line of the ring of deferred frees, the number of blocks in it, and the core that
    /// last added to it.
    ring: Line,
    waiting: f64,
    deferred_by: usize,
    /// Number of visits.
    pub(crate) visits: usize,
}

impl Heap {
    /// Takes or returns blocks under the lock; returns when it is done.
    pub(crate) fn visit(&mut self, times: &Times, core: usize, at: f64, blocks: f64) -> f64 {
        let has_lock = self.lock.exchange(times, core, at);
        self.hold(times, core, has_lock, blocks)
    }

    /// Like [`visit`](Self::visit), unless the lock is held: then defers the frees.
    pub(crate) fn visit_or_wait(
        &mut self,
        times: &Times,
        core: usize,
        at: f64,
        blocks: f64,
    ) -> f64 {
        let tried = self.lock.exchange(times, core, at);
        if self.held_until <= tried {
            return self.hold(times, core, tried, blocks);
        }
        self.leave(times, core, tried, blocks)
    }

    /// Defers blocks for the next visitor, unless too many are deferred already. Returns when it is
    /// done.
    pub(crate) fn leave(&mut self, times: &Times, core: usize, at: f64, blocks: f64) -> f64 {
        if self.waiting + blocks > WAITING {
            return self.visit(times, core, at, blocks);
        }
        // The entries were last read by the last holder of the lock.
        let way = transfer(times, self.last, core);
        self.waiting += blocks;
        self.deferred_by = core;
        self.ring.exchange(times, core, at) + (blocks / IN_LINE).ceil() * way
    }

    fn hold(&mut self, times: &Times, core: usize, at: f64, blocks: f64) -> f64 {
        // A waiting core sees the release through the lock's cache line.
        let start = if self.held_until > at {
            self.held_until + transfer(times, self.last, core)
        } else {
            at
        };
        let way = transfer(times, self.last, core);
        let waiting = std::mem::take(&mut self.waiting);
        let waited = (waiting / IN_LINE).ceil() * transfer(times, self.deferred_by, core);
        let work = times.visit + times.block * (blocks + waiting) + LINES * way + waited;
        self.last = core;
        self.visits += 1;
        self.held_until = start + work;
        self.held_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::RECORDED;

    #[test]
    fn visits_are_serialised() {
        let mut heap = Heap::default();
        let first = heap.visit(&RECORDED, 0, 0.0, 64.0);
        let expected = RECORDED.atomic + RECORDED.visit + 64.0 * RECORDED.block;
        assert!((first - expected).abs() < 1e-6, "{first} {expected}");
        let second = heap.visit(&RECORDED, 1, 0.0, 64.0);
        assert!(second > 2.0 * first, "{second}");
    }

    /// A core that frees continues while another holds the lock; the next visitor does the work.
    #[test]
    fn frees_are_deferred_instead_of_waiting() {
        let mut heap = Heap::default();
        let busy_until = heap.visit(&RECORDED, 0, 0.0, 1_000.0);
        let gone_on = heap.visit_or_wait(&RECORDED, 9, 1.0, 16.0);
        assert!(gone_on < busy_until / 2.0, "{gone_on} {busy_until}");
        let next = heap.visit(&RECORDED, 0, 2.0 * busy_until, 1.0) - 2.0 * busy_until;
        assert!(next > RECORDED.visit + 17.0 * RECORDED.block, "{next}");
        assert_eq!(heap.visits, 2);
    }
}
