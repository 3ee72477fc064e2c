//! The paging strategies as defined, slow and simple: the reference for tests of the fast ones.

use std::collections::VecDeque;

/// The LRU stack as a list.
#[derive(Debug, Default)]
pub(super) struct Lru {
    /// The last page referenced is first.
    pub(super) stack: Vec<u64>,
    /// Position at which each counted reference found its page, from 1; `None` for a first
    /// reference.
    pub(super) positions: Vec<Option<usize>>,
}

impl Lru {
    pub(super) fn reference(&mut self, page: u64) {
        let found = self.stack.iter().position(|&other| other == page);
        if let Some(index) = found {
            self.stack.remove(index);
        }
        self.stack.insert(0, page);
        self.positions.push(found.map(|index| index + 1));
    }

    pub(super) fn faults(&self, working_set: usize) -> u64 {
        let hit = |position: &&Option<usize>| position.is_some_and(|place| place <= working_set);
        (self.positions.len() - self.positions.iter().filter(hit).count()) as u64
    }
}

/// Second chance as a queue: the oldest page leaves, unless it is marked; then it goes to the end
/// without its mark.
#[derive(Debug)]
pub(super) struct Clock {
    pub(super) size: usize,
    pub(super) faults: u64,
    queue: VecDeque<(u64, bool)>,
}

impl Clock {
    pub(super) fn new(size: usize) -> Self {
        Self { size, faults: 0, queue: VecDeque::new() }
    }

    pub(super) fn reference(&mut self, page: u64) {
        if let Some((_, marked)) = self.queue.iter_mut().find(|(other, _)| *other == page) {
            *marked = true;
            return;
        }
        self.faults += 1;
        while self.queue.len() == self.size {
            if let Some((oldest, true)) = self.queue.pop_front() {
                self.queue.push_back((oldest, false));
            }
        }
        self.queue.push_back((page, true));
    }
}
