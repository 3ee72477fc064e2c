//! TRIDIAG (Brent §3.1): a list-processing program that simulates a systolic array.
//!
//! The paper's program "simulates the tridiagonalization of a symmetric matrix on a systolic
//! array"; its blocks hold "a small integer and a pointer to another block"; for a matrix of order
//! 128 it makes 1,803,213 allocations and 1,789,653 frees, and at most 545,777 blocks are in use;
//! storage "builds up to a peak and never reaches even approximate equilibrium". More is not known.
//! This is a program of that kind with those counts:
//!
//! ```text
//!            column k … n−1 | right-hand sides      Each processor has a queue of rotations that
//!  row p−1   □→□→□→□→□→□→□→ | □→□→□→□→□→            wait for it: a list of blocks, each with the
//!  row p     □→□→□→□→□→□→□→ | □→□→□→□→□→            rotation's stage. A rotation of rows p−1 and p
//!            a rotation of stage k travels right    is entered in all queues of those rows, from
//!                                                   column k on.
//! ```
//! Givens rotations make the columns tridiagonal one after another: stage k annihilates the n−k−2
//! lower elements of column k, from below, each by a rotation of two rows (the columns' part is the
//! rows' part mirrored, and not stored). One part of the program enters rotations in the queues,
//! stage after stage, until as many blocks are in use as the paper's peak; then the processors, one
//! after the other, do the rotations of all stages that are complete, take them off their queues
//! and free their blocks; and so on. At the end the results are written to a list, which stays.
//! The number of right-hand sides makes the frees the paper's.

use pagewise::Strategy;
use pagewise_replay::paging::Paging;

use super::memory::{Block, Counts, Memory};

/// Bytes of a block: a pointer and a small integer, 6 on the paper's machine. Block and page are
/// doubled, since our strategies align blocks to words; c = 85 stays.
pub(crate) const NODE: usize = 12;
/// Bytes of a page: 512, doubled.
pub(crate) const PAGE: usize = 1024;

const NEXT: usize = 0;
const STAGE: usize = 1;

/// The paper's counts.
pub(crate) const COUNTS: Counts =
    Counts { allocations: 1_803_213, frees: 1_789_653, peak: 545_777 };

/// The parameters of a simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Problem {
    /// Order of the matrix.
    pub(crate) order: usize,
    /// The counts that the program must reach.
    pub(crate) counts: Counts,
}

/// The paper's problem.
pub(crate) const PAPER: Problem = Problem { order: 128, counts: COUNTS };

/// A processor's queue.
#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    ends: Option<(Block, Block)>,
}

/// Runs TRIDIAG over a strategy. Returns the virtual size in pages, the counts, and the paging.
///
/// # Errors
/// If the strategy has no memory.
pub(crate) fn run<P: Paging>(
    problem: &Problem,
    strategy: Box<dyn Strategy + '_>,
    paging: P,
) -> anyhow::Result<(u64, Counts, P)> {
    let mut memory = Memory::new(strategy, NODE, PAGE, paging);
    let mut array = Array::new(problem);
    let mut visits = array.visits().into_iter().peekable();
    while visits.peek().is_some() || memory.counts().live() > 0 {
        while memory.counts().live() < problem.counts.peak
            && let Some(visit) = visits.next()
        {
            array.enter(&mut memory, visit)?;
        }
        let under_way = visits.peek().map_or(problem.order, |visit| visit.stage);
        array.work(&mut memory, under_way as u32);
    }
    let mut results = Queue::default();
    for result in memory.counts().allocations..problem.counts.allocations {
        results.append(&mut memory, result as u32)?;
    }
    Ok((memory.virtual_size(), memory.counts(), memory.into_paging()))
}

/// An entry of a rotation in a processor's queue.
#[derive(Clone, Copy, Debug)]
struct Visit {
    stage: usize,
    row: usize,
    column: usize,
}

/// The processors: n rows; n columns of the matrix, then the right-hand sides.
struct Array {
    order: usize,
    columns: usize,
    /// Total number of visits.
    visits: usize,
    /// Row by row.
    queues: Vec<Queue>,
}

impl Array {
    /// Adds as many right-hand sides as make the visits equal the problem's frees; the last one
    /// perhaps only for some of the rotations.
    fn new(problem: &Problem) -> Self {
        let order = problem.order;
        let rotations: usize = (0..order - 2).map(|stage| order - stage - 2).sum();
        let of_matrix: usize =
            (0..order - 2).map(|stage| 2 * (order - stage) * (order - stage - 2)).sum();
        let visits = (problem.counts.frees as usize).max(of_matrix);
        let columns = order + (visits - of_matrix).div_ceil(2 * rotations);
        Self { order, columns, visits, queues: vec![Queue::default(); order * columns] }
    }

    /// Returns all visits, in the order in which the rotations are issued.
    fn visits(&self) -> impl IntoIterator<Item = Visit> + use<> {
        let Self { order, columns, visits, .. } = *self;
        (0..order - 2)
            .flat_map(move |stage| (stage + 2..order).rev().map(move |row| (stage, row)))
            .flat_map(move |(stage, lower)| {
                [lower - 1, lower].into_iter().flat_map(move |row| {
                    (stage..columns).map(move |column| Visit { stage, row, column })
                })
            })
            .take(visits)
    }

    /// Appends a visit to its processor's queue.
    fn enter<P: Paging>(&mut self, memory: &mut Memory<'_, P>, visit: Visit) -> anyhow::Result<()> {
        let queue = &mut self.queues[visit.row * self.columns + visit.column];
        queue.append(memory, visit.stage as u32)
    }

    /// Makes every processor do its waiting rotations of the stages before this one.
    fn work<P: Paging>(&mut self, memory: &mut Memory<'_, P>, under_way: u32) {
        for queue in &mut self.queues {
            queue.take_before(memory, under_way);
        }
    }
}

impl Queue {
    fn append<P: Paging>(&mut self, memory: &mut Memory<'_, P>, stage: u32) -> anyhow::Result<()> {
        let block = memory.allocate()?;
        memory.set(block, STAGE, stage);
        memory.set(block, NEXT, 0);
        self.ends = Some(match self.ends {
            None => (block, block),
            Some((first, last)) => {
                memory.set(last, NEXT, Block::word(Some(block)));
                (first, block)
            }
        });
        Ok(())
    }

    /// Removes the blocks of the stages before this one from the front, and frees them.
    fn take_before<P: Paging>(&mut self, memory: &mut Memory<'_, P>, under_way: u32) {
        while let Some((first, last)) = self.ends
            && memory.get(first, STAGE) < under_way
        {
            let next = Block::of_word(memory.get(first, NEXT));
            memory.free(first);
            self.ends = next.map(|next| (next, last));
        }
    }
}
