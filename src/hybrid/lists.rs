//! Free blocks that may be split and joined: a list for each size up to 127 cells, a tree above,
//! and a bit for each list that is not empty (§3.3–3.5).
//!
//! ```text
//! free    0 0 1 0 0 1 … 1          bit n: there are free blocks of n cells
//! waiting 0 0 1 0 0 0 … 1          bit n: … that wait to be joined with their neighbours
//! heads       ● ●   ●   ●          for each size: the waiting ones, and the joined
//! large   tree by size, then address; list of those that wait
//! ```
//! A block just freed waits; a block that was joined with its neighbours, or is the rest of one
//! that was, does not. So joining looks only at blocks that were freed since it last ran.
//!
//! The paper keeps the large blocks on one list, and best fit looks at every item. Here a treap
//! finds a block of the same size in O(log n), but the lowest of that size instead of the latest.

use crate::error::Fault;
use crate::fit::Best;
use crate::fit::index::IndexPolicy;
use crate::fit::links::audit_list;
use crate::meter::Meter;
use crate::tags::{Block, CELL, Cells, Link, NONE};

/// Lists by size in cells; list 0 stays empty. Blocks of this many cells and more are large.
pub(super) const LISTS: usize = 128;

/// The links of a list of one size: to the block before and to the next.
const SMALL: [Link; 2] = [Link::First, Link::Second];
/// The links of the list of large blocks that wait; the tree has the first two. A large block that
/// does not wait is the block before itself.
const LARGE: [Link; 2] = [Link::Third, Link::Fourth];

/// Whether a free block may have free neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It was freed and not looked at since.
    Waiting,
    /// It was joined with the neighbours that were free.
    Joined,
}

/// A free block taken off its list, and its state there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) block: Block,
    pub(super) state: State,
}

/// The lists. Invariants:
/// - bit n of `free` is set iff one of the two lists of n cells is not empty, bit n of `waiting`
///   iff the first is not;
/// - a list has the free blocks of its size and state, each once, and the one link undoes the
///   other;
/// - `large` has the free blocks of 128 cells and more, the list at `waiting_large` those that
///   wait.
#[derive(Debug)]
pub(super) struct Lists {
    free: u128,
    waiting: u128,
    /// For each size the first that waits, and the first that does not.
    heads: [[u32; 2]; LISTS],
    large: Best,
    waiting_large: u32,
}

impl Lists {
    pub(super) const fn new() -> Self {
        Self {
            free: 0,
            waiting: 0,
            heads: [[NONE; 2]; LISTS],
            large: Best::EMPTY,
            waiting_large: NONE,
        }
    }

    /// Puts a free block, whose tags are written, on its list.
    pub(super) fn insert<M: Meter>(
        &mut self,
        block: Block,
        state: State,
        cells: &mut Cells,
        meter: &M,
    ) {
        let Block { start, len } = block;
        if len as usize >= LISTS {
            return self.insert_large(block, state, cells, meter);
        }
        push(&mut self.heads[len as usize][state as usize], start, SMALL, cells);
        meter.link_double(cells.header(start));
        self.free |= 1 << len;
        if state == State::Waiting {
            self.waiting |= 1 << len;
        }
    }

    /// Takes a free block off its list. Its tags and links are still as they were when it was put
    /// there.
    pub(super) fn remove<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) {
        let Block { start, len } = block;
        if len as usize >= LISTS {
            self.remove_large(block, cells, meter);
            return;
        }
        let Some(next) = unlink(start, SMALL, cells) else { return };
        let heads = &mut self.heads[len as usize];
        heads[usize::from(heads[0] != start)] = next;
        if heads[0] == NONE {
            self.waiting &= !(1 << len);
            if heads[1] == NONE {
                self.free &= !(1 << len);
            }
        }
    }

    /// Takes a free block for `len` cells: of that size or the next. Otherwise, if a larger one may
    /// be `split`, takes one of the next size there is; among large blocks the smallest that fits.
    pub(super) fn find<M: Meter>(
        &mut self,
        len: u32,
        split: bool,
        cells: &mut Cells,
        meter: &M,
    ) -> Option<Taken> {
        if (len as usize) < LISTS {
            let fitting = self.free >> len;
            if fitting & 0b11 == 0 && !split {
                return None;
            }
            if fitting != 0 {
                return Some(self.first_of(len + fitting.trailing_zeros(), cells, meter));
            }
        }
        let (block, _) = self.large.find(len, CELL, cells, meter)?;
        let state = self.remove_large(block, cells, meter);
        Some(Taken { block, state })
    }

    /// Returns the first block of a size that has free blocks; one that waits, if there is one.
    fn first_of<M: Meter>(&mut self, len: u32, cells: &mut Cells, meter: &M) -> Taken {
        let [waiting, joined] = self.heads[len as usize];
        let (start, state) =
            if waiting == NONE { (joined, State::Joined) } else { (waiting, State::Waiting) };
        meter.visit(cells.header(start));
        let block = Block { start, len };
        self.remove(block, cells, meter);
        Taken { block, state }
    }

    /// Takes a block that waits, one of the largest below `below` cells.
    pub(super) fn waiting_below<M: Meter>(
        &mut self,
        below: u32,
        cells: &mut Cells,
        meter: &M,
    ) -> Option<Block> {
        let smaller = if below as usize >= LISTS { u128::MAX } else { (1 << below) - 1 };
        let candidates = self.waiting & smaller;
        if candidates == 0 {
            return None;
        }
        let len = LISTS as u32 - 1 - candidates.leading_zeros();
        let block = Block { start: self.heads[len as usize][0], len };
        meter.visit(cells.header(block.start));
        self.remove(block, cells, meter);
        Some(block)
    }

    /// Takes a large block that waits.
    pub(super) fn waiting_large<M: Meter>(
        &mut self,
        cells: &mut Cells,
        meter: &M,
    ) -> Option<Block> {
        if self.waiting_large == NONE {
            return None;
        }
        let block = cells.block(self.waiting_large);
        meter.visit(cells.header(block.start));
        self.remove_large(block, cells, meter);
        Some(block)
    }

    fn insert_large<M: Meter>(&mut self, block: Block, state: State, cells: &mut Cells, meter: &M) {
        let start = block.start;
        self.large.insert(block, cells, meter);
        if state == State::Joined {
            cells.set_link(start, LARGE[0], start);
            return;
        }
        push(&mut self.waiting_large, start, LARGE, cells);
        meter.link_double(cells.header(start));
    }

    fn remove_large<M: Meter>(&mut self, block: Block, cells: &mut Cells, meter: &M) -> State {
        let start = block.start;
        self.large.remove(block, cells, meter);
        if cells.link(start, LARGE[0]) == start {
            return State::Joined;
        }
        if let Some(next) = unlink(start, LARGE, cells) {
            self.waiting_large = next;
        }
        State::Waiting
    }

    /// Checks the lists against the given numbers of free blocks of each size, and of large ones.
    pub(super) fn audit(
        &self,
        free: &[u32; LISTS],
        large: u32,
        cells: &Cells,
    ) -> Result<(), Fault> {
        let origin = cells.origin().addr();
        for (len, (heads, &count)) in self.heads.iter().zip(free).enumerate() {
            let bits = (self.free >> len & 1 == 1, self.waiting >> len & 1 == 1);
            let known = bits == (*heads != [NONE; 2], heads[0] != NONE);
            Fault::unless(known, "a bit is set iff its list is not empty", origin)?;
            let mut members = 0;
            let mut listed = true;
            for &head in heads {
                audit_list(head, SMALL, cells, &mut |block| {
                    members += 1;
                    listed &= block.len as usize == len;
                    Ok(())
                })?;
            }
            listed &= members == count;
            Fault::unless(listed, "a free block is on the list of its size", origin)?;
        }
        let (mut members, mut waiting) = (0, 0);
        self.large.audit(cells, &mut |block| {
            members += 1;
            waiting += u32::from(cells.link(block.start, LARGE[0]) != block.start);
        })?;
        Fault::unless(members == large, "a large free block is in the tree", origin)?;
        let (mut listed, mut all_large) = (0, true);
        audit_list(self.waiting_large, LARGE, cells, &mut |block| {
            listed += 1;
            all_large &= block.len as usize >= LISTS;
            Ok(())
        })?;
        Fault::unless(
            all_large && listed == waiting,
            "a large block that waits is on the list",
            origin,
        )
    }
}

/// Puts a block on a list, as its first.
#[inline(always)]
fn push(head: &mut u32, start: u32, [prev, next]: [Link; 2], cells: &mut Cells) {
    let second = core::mem::replace(head, start);
    cells.set_link(start, prev, NONE);
    cells.set_link(start, next, second);
    if second != NONE {
        cells.set_link(second, prev, start);
    }
}

/// Takes a block off its list. Returns the new first block if this was the first.
#[inline(always)]
fn unlink(start: u32, [prev, next]: [Link; 2], cells: &mut Cells) -> Option<u32> {
    let (before, behind) = (cells.link(start, prev), cells.link(start, next));
    if behind != NONE {
        cells.set_link(behind, prev, before);
    }
    if before == NONE {
        return Some(behind);
    }
    cells.set_link(before, next, behind);
    None
}
