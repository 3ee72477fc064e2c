//! The programs' behaviour: threads, one per core, that only allocate and free.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::design::{Allocator, BATCH, Design};
use super::times::Times;

/// Which blocks each thread frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Load {
    /// Each thread frees its own.
    Alone,
    /// Every second thread frees the blocks of the one before it.
    Pairs,
    /// Each thread frees blocks of all others.
    AllToAll,
    /// Half of the threads free blocks of the other half.
    Across,
}

impl Load {
    pub(crate) const ALL: [Self; 4] = [Self::Alone, Self::Pairs, Self::AllToAll, Self::Across];
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alone => "each thread frees its own blocks",
            Self::Pairs => "pairs of threads, one of which frees",
            Self::AllToAll => "all threads free each other's blocks",
            Self::Across => "half of the threads free blocks that the others allocated",
        })
    }
}

/// A point of a curve.
#[derive(Debug, Serialize)]
pub(crate) struct Point {
    pub(crate) load: Load,
    pub(crate) design: Design,
    pub(crate) cores: usize,
    /// Operations per core and microsecond.
    pub(crate) operations: f64,
}

/// Minimum and maximum simulated nanoseconds, and how many of them are skipped because caches are
/// cold.
const LEAST: f64 = 600_000.0;
const MOST: f64 = 20_000_000.0;
const WARM: f64 = 100_000.0;

/// Number of batches per core that suffice.
const ENOUGH: usize = 20;

/// Maximum number of batches in transit to a freeing thread.
const ON_THE_WAY: usize = 16;

/// The time when a core continues.
#[derive(PartialEq)]
struct Event {
    at: f64,
    core: usize,
}

impl Eq for Event {}
impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.total_cmp(&other.at).then(self.core.cmp(&other.core))
    }
}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the operations per core and microsecond.
pub(crate) fn simulate(times: &Times, load: Load, design: Design, cores: usize) -> f64 {
    let mut machine = Machine {
        times,
        load,
        allocator: Allocator::new(design, times, cores),
        leaving: vec![Vec::new(); cores],
        on_the_way: vec![VecDeque::new(); cores],
        random: ChaCha8Rng::seed_from_u64(17),
        operations: 0,
    };
    // Cores do not all start at the same time.
    let mut events: BinaryHeap<_> =
        (0..cores).map(|core| Reverse(Event { at: core as f64 * 7.0, core })).collect();
    let mut end = WARM;
    while let Some(Reverse(Event { at, core })) = events.pop() {
        end = at;
        let enough = machine.operations >= ENOUGH * BATCH * cores;
        if at >= MOST || at >= LEAST && enough {
            break;
        }
        let at = machine.step(core, at);
        events.push(Reverse(Event { at, core }));
    }
    machine.operations as f64 / cores as f64 / ((end - WARM) / 1_000.0)
}

struct Machine<'a> {
    times: &'a Times,
    load: Load,
    allocator: Allocator<'a>,
    /// For each core, the blocks that leave its list next: the heap, and their number.
    leaving: Vec<Vec<(usize, usize)>>,
    /// When the batches in transit were sent: by each pair's first core, or all of them at index 0.
    on_the_way: Vec<VecDeque<f64>>,
    random: ChaCha8Rng,
    operations: usize,
}

impl Machine<'_> {
    /// Runs a core's next step; returns when it is done. A step takes one lock, or one list, so
    /// that other cores' work is seen in between.
    fn step(&mut self, core: usize, at: f64) -> f64 {
        if let Some((heap, blocks)) = self.leaving[core].pop() {
            return self.allocator.put_back(core, at, heap, blocks, &mut self.random);
        }
        match self.load {
            Load::Alone => {
                let at = self.use_lists(2 * BATCH, at);
                let at = self.allocator.refill(core, at);
                self.free_batch(core, at, |_| vec![(core, BATCH)])
            }
            Load::AllToAll => {
                let cores = self.leaving.len();
                let at = self.use_lists(2 * BATCH, at);
                let at = self.allocator.refill(core, at);
                self.free_batch(core, at, |random| of_any(cores, core, random))
            }
            Load::Pairs if core.is_multiple_of(2) => self.send(core, core, 1, at),
            Load::Pairs => self.receive(core, core - 1, at, |_| vec![(core - 1, BATCH)]),
            Load::Across => {
                let senders = self.leaving.len() / 2;
                if core < senders {
                    return self.send(core, 0, senders, at);
                }
                self.receive(core, 0, at, |random| of_any(senders, core, random))
            }
        }
    }

    /// Allocates and sends a batch, unless `ON_THE_WAY` batches for each of `threads` threads are
    /// in transit.
    fn send(&mut self, core: usize, way: usize, threads: usize, at: f64) -> f64 {
        if self.on_the_way[way].len() >= ON_THE_WAY * threads {
            return at + self.pause();
        }
        let at = self.allocator.refill(core, at);
        let at = self.use_lists(BATCH, at);
        self.on_the_way[way].push_back(at);
        at
    }

    /// Receives and frees a batch, if one was sent.
    fn receive(
        &mut self,
        core: usize,
        way: usize,
        at: f64,
        heaps: impl FnOnce(&mut ChaCha8Rng) -> Vec<(usize, usize)>,
    ) -> f64 {
        if self.on_the_way[way].front().is_none_or(|&sent| sent > at) {
            return at + self.pause();
        }
        self.on_the_way[way].pop_front();
        let at = self.use_lists(BATCH, at);
        self.free_batch(core, at, heaps)
    }

    /// Counts operations served by the thread's lists.
    fn use_lists(&mut self, operations: usize, at: f64) -> f64 {
        if at >= WARM {
            self.operations += operations;
        }
        at + operations as f64 * self.times.operation
    }

    /// Returns the time until a thread checks again whether the other is ready.
    fn pause(&self) -> f64 {
        BATCH as f64 * self.times.operation / 4.0
    }

    /// Frees a batch from a list, as a whole, or block by block to these heaps, step by step.
    fn free_batch(
        &mut self,
        core: usize,
        at: f64,
        heaps: impl FnOnce(&mut ChaCha8Rng) -> Vec<(usize, usize)>,
    ) -> f64 {
        self.allocator.take_batch(core, at).unwrap_or_else(|| {
            self.leaving[core] = heaps(&mut self.random);
            at
        })
    }
}

/// Returns a batch with blocks of the first `heaps` heaps: the number from each.
fn of_any(heaps: usize, core: usize, random: &mut ChaCha8Rng) -> Vec<(usize, usize)> {
    let mut blocks = vec![0; heaps];
    (0..BATCH).for_each(|_| blocks[random.random_range(0..heaps)] += 1);
    let mut leaving: Vec<_> =
        blocks.into_iter().enumerate().filter(|&(_, blocks)| blocks > 0).collect();
    // Rotate the order, or threads would queue behind each other.
    let first = core % leaving.len();
    leaving.rotate_left(first);
    leaving
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::times::RECORDED;

    /// Threads that share nothing do not slow each other down, except by a line that all read and
    /// some write.
    #[test]
    fn separate_threads_scale_except_for_a_hot_line() {
        for design in Design::ALL {
            let at = |cores| simulate(&RECORDED, Load::Alone, design, cores);
            let slower = at(2) / at(64);
            match design {
                Design::HotLine => assert!(slower > 2.0, "{slower}"),
                // The line is shared only within a group.
                Design::Depot => assert!(slower < 3.0, "{slower}"),
                _ => assert!((0.99..1.01).contains(&slower), "{design}: {slower}"),
            }
        }
    }

    /// No design is faster than its lists.
    #[test]
    fn no_design_is_faster_than_its_lists() {
        for load in Load::ALL {
            for design in Design::ALL {
                let operations = simulate(&RECORDED, load, design, 4);
                assert!(operations > 0.1 && operations < 1_000.0 / RECORDED.operation);
            }
        }
    }

    #[test]
    fn a_simulation_can_be_repeated() {
        let run = || simulate(&RECORDED, Load::AllToAll, Design::Deferring, 32);
        assert_eq!(run().to_bits(), run().to_bits());
    }
}
