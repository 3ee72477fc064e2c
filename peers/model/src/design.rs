//! An allocator's work when blocks enter and leave a thread's list.

use std::fmt;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::heap::{Heap, IN_LINE};
use super::machine::{GROUP, Line};
use super::times::Times;

/// Blocks per batch.
pub(crate) const BATCH: usize = 64;

/// Up to this many blocks of a heap are left to its owner without trying its lock.
const FEW: usize = 8;

/// Maximum number of batches in a depot.
const DEPOT: usize = 64;

/// Visits of a heap after which another one is maintained.
const TURN: usize = 16;

/// Number of pages of a heap to which blocks are freed at a time.
const PAGES: usize = 4;

/// The designs that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Design {
    HotLine,
    Waiting,
    Deferring,
    Leaving,
    Depot,
    RemoteLists,
}

impl Design {
    pub(crate) const ALL: [Self; 6] = [
        Self::HotLine,
        Self::Waiting,
        Self::Deferring,
        Self::Leaving,
        Self::Depot,
        Self::RemoteLists,
    ];
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HotLine => "one hot line, frees wait",
            Self::Waiting => "no hot line, frees wait",
            Self::Deferring => "no hot line, frees do not wait",
            Self::Leaving => "the same, a few of another's are left there",
            Self::Depot => "the same with a depot",
            Self::RemoteLists => "a heap for each thread, lists of remote frees",
        })
    }
}

/// Full batches of a group of cores; any of them may take one.
#[derive(Clone, Debug, Default)]
struct Depot {
    line: Line,
    batches: usize,
}

/// The allocator of a simulated machine.
pub(crate) struct Allocator<'a> {
    design: Design,
    times: &'a Times,
    /// One per core. (The real allocator has two; but here there are no more threads than cores.)
    heaps: Vec<Heap>,
    /// The cache line that all slow paths read, and that heaps write from time to time.
    hot: Line,
    depots: Vec<Depot>,
    /// The remote-free lists of each heap's pages.
    pages: Vec<[Line; PAGES]>,
}

impl<'a> Allocator<'a> {
    pub(crate) fn new(design: Design, times: &'a Times, cores: usize) -> Self {
        Self {
            design,
            times,
            heaps: vec![Heap::default(); cores],
            hot: Line::default(),
            depots: vec![Depot::default(); cores.div_ceil(GROUP)],
            pages: vec![Default::default(); cores],
        }
    }

    /// Refills a thread's list with a batch; returns when it is done.
    pub(crate) fn refill(&mut self, core: usize, at: f64) -> f64 {
        let times = self.times;
        if self.design == Design::RemoteLists {
            let collected =
                self.pages[core].iter_mut().fold(at, |at, page| page.exchange(times, core, at));
            return collected + times.visit + times.block * BATCH as f64;
        }
        let depot = &mut self.depots[core / GROUP];
        if self.design == Design::Depot && depot.batches > 0 {
            depot.batches -= 1;
            let taken = depot.line.exchange(times, core, at);
            return taken + times.near * (BATCH as f64 / IN_LINE);
        }
        self.visit(core, at, core, BATCH)
    }

    /// Takes a mixed batch, with blocks of any heaps, from a thread, if the design has such
    /// batches. Returns when it is done.
    pub(crate) fn take_batch(&mut self, core: usize, at: f64) -> Option<f64> {
        let depot = &mut self.depots[core / GROUP];
        if self.design != Design::Depot || depot.batches == DEPOT {
            return None;
        }
        depot.batches += 1;
        Some(depot.line.exchange(self.times, core, at))
    }

    /// Returns blocks of one heap from a thread's list; returns when it is done.
    pub(crate) fn put_back(
        &mut self,
        core: usize,
        at: f64,
        heap: usize,
        blocks: usize,
        random: &mut ChaCha8Rng,
    ) -> f64 {
        if self.design == Design::RemoteLists && heap != core {
            let times = self.times;
            return (0..blocks).fold(at, |at, _| {
                self.pages[heap][random.random_range(0..PAGES)].exchange(times, core, at)
            });
        }
        self.visit(core, at, heap, blocks)
    }

    fn visit(&mut self, core: usize, at: f64, heap: usize, blocks: usize) -> f64 {
        let (times, number, is_other) = (self.times, blocks as f64, heap != core);
        let heap = &mut self.heaps[heap];
        match self.design {
            // No other core visits the heap.
            Design::RemoteLists => at + times.visit + times.block * number,
            Design::HotLine => {
                let seen = self.hot.read(times, core, at);
                let done = heap.visit(times, core, seen, number);
                if heap.visits.is_multiple_of(TURN) {
                    self.hot.exchange(times, core, done)
                } else {
                    done
                }
            }
            Design::Waiting => heap.visit(times, core, at, number),
            Design::Leaving | Design::Depot if blocks <= FEW && is_other => {
                heap.leave(times, core, at, number)
            }
            Design::Deferring | Design::Leaving | Design::Depot => {
                heap.visit_or_wait(times, core, at, number)
            }
        }
    }
}
