//! Cores, and the cache lines that move between them.
//!
//! A line is written by one core at a time, and read by all cores that have fetched it since.
//! Fetching takes as long as the distance requires, and fetches of one line are serialised. Times
//! are nanoseconds since the start.

use super::times::Times;

/// Cores that share a cache.
pub(crate) const GROUP: usize = 8;

/// Cores per socket.
const SOCKET: usize = 96;

/// Returns how long a line takes from one core to another.
pub(crate) fn transfer(times: &Times, from: usize, to: usize) -> f64 {
    match () {
        () if from == to => 0.0,
        () if from / GROUP == to / GROUP => times.near,
        () if from / SOCKET == to / SOCKET => times.far,
        () => times.remote,
    }
}

/// A cache line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    owner: usize,
    /// The other cores with a copy, for reading.
    readers: Vec<usize>,
    /// When it can be fetched again.
    free_at: f64,
}

impl Line {
    /// Reads the line on a core; returns when it is done.
    pub(crate) fn read(&mut self, times: &Times, core: usize, at: f64) -> f64 {
        if core == self.owner || self.readers.contains(&core) {
            return at;
        }
        self.readers.push(core);
        self.fetch(transfer(times, self.owner, core), at)
    }

    /// Writes the line on a core; returns when it is done. All other copies are invalidated, the
    /// farthest last.
    pub(crate) fn write(&mut self, times: &Times, core: usize, at: f64) -> f64 {
        let mut way = transfer(times, self.owner, core);
        for reader in self.readers.drain(..) {
            way = way.max(transfer(times, reader, core));
        }
        self.owner = core;
        if way == 0.0 { at } else { self.fetch(way, at) }
    }

    /// Like [`write`](Self::write), with an atomic exchange.
    pub(crate) fn exchange(&mut self, times: &Times, core: usize, at: f64) -> f64 {
        self.write(times, core, at) + times.atomic
    }

    fn fetch(&mut self, way: f64, at: f64) -> f64 {
        self.free_at = self.free_at.max(at) + way;
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::RECORDED;

    #[test]
    fn a_line_that_is_only_read_is_fetched_once() {
        let mut line = Line::default();
        assert_eq!(line.read(&RECORDED, 3, 10.0), 10.0 + RECORDED.near);
        assert_eq!(line.read(&RECORDED, 3, 500.0), 500.0);
        assert_eq!(line.read(&RECORDED, 200, 500.0), 500.0 + RECORDED.remote);
        // A write invalidates all other copies.
        assert_eq!(line.write(&RECORDED, 0, 1_000.0), 1_000.0 + RECORDED.remote);
        assert_eq!(line.read(&RECORDED, 3, 2_000.0), 2_000.0 + RECORDED.near);
    }

    #[test]
    fn fetches_of_a_line_are_serialised() {
        let mut line = Line::default();
        for fetch in 1..5 {
            let done = line.exchange(&RECORDED, 8 * fetch, 0.0);
            assert_eq!(done, fetch as f64 * RECORDED.far + RECORDED.atomic);
        }
    }
}
