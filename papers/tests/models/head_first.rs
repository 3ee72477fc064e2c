//! Best fit and other fits, head-first and not, over a memory that initially is two free halves
//! (Hakarsa).

use std::collections::HashMap;

use pagewise::Strategy;
use pagewise::fit::{Best, First, HalfFit, Next, Worst};
use pagewise::head_first::{ChunkUp, FitFirst, NoChunkUp, RegionFirst, SpaceFitting, Traverse};
use pagewise::source::Reserved;
use rand::RngExt;

use crate::{Load, Model, agree};

/// Bytes of the memory, of a unit, and of a block's bookkeeping.
const MEMORY: usize = 1 << 14;
const UNIT: usize = 16;
const HEADER: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Block {
    start: usize,
    len: usize,
    free: bool,
}

impl Block {
    fn end(self) -> usize {
        self.start + self.len
    }
}

/// Which free block other than the region serves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fit {
    /// The smallest, the largest (of equal ones the lowest), or the lowest of all.
    Best,
    Worst,
    First,
    /// The lowest at or above the one the last search found; or above its former place, if it is
    /// used up.
    Next,
    /// The one freed last in the lowest sufficient power of two, counted from that of the request
    /// rounded up; if there is none, the one freed last in the request's own power of two that
    /// fits.
    Half,
}

struct Memory {
    fit: Fit,
    /// Where the last search ended; 0 for the lowest block.
    rover: usize,
    /// When each free block got its current shape, by its start.
    since: HashMap<usize, (u64, usize)>,
    clock: u64,
    head_first: bool,
    chunk_up: bool,
    blocks: Vec<Block>,
    /// Start of the unallocated region.
    region: usize,
    /// Whether free blocks may be adjacent, as the halves are.
    halves: bool,
}

impl Memory {
    fn new(fit: Fit, head_first: bool, chunk_up: bool) -> Self {
        // The first bookkeeping is in the unit before the first block.
        let all = MEMORY / UNIT - 1;
        let lower = Block { start: 1, len: all / 2, free: true };
        let upper = Block { start: lower.end(), len: all - lower.len, free: true };
        let mut new = Self {
            fit,
            rover: 0,
            since: HashMap::new(),
            clock: 0,
            head_first,
            chunk_up,
            blocks: vec![lower, upper],
            region: 1,
            halves: true,
        };
        // The upper half was laid out first.
        for block in [upper, lower] {
            new.clock += 1;
            new.since.insert(block.start, (new.clock, block.len));
        }
        new.update_records();
        new
    }

    /// Returns whether the fit searches a free block: not the region, if that is tried first.
    fn searched(&self, block: &Block) -> bool {
        block.free && !(self.head_first && block.start == self.region)
    }

    /// Updates the fits' records after a change.
    fn update_records(&mut self) {
        let free: Vec<Block> =
            self.blocks.iter().copied().filter(|one| self.searched(one)).collect();
        self.since.retain(|start, (_, len)| {
            free.iter().any(|block| (block.start, block.len) == (*start, *len))
        });
        for block in &free {
            self.since.entry(block.start).or_insert_with(|| {
                self.clock += 1;
                (self.clock, block.len)
            });
        }
        if self.rover > 0 {
            let next = free.iter().find(|block| block.end() > self.rover);
            self.rover = next.map_or(0, |block| block.start);
        }
    }

    /// Returns the region while it can serve, else the block that the fit chooses.
    fn find(&mut self, len: usize, last: bool) -> Option<usize> {
        let serves = |block: &Block| block.free && block.len >= len;
        let region = |block: &Block| self.head_first && block.start == self.region && serves(block);
        if let Some(region) = self.blocks.iter().position(region) {
            return Some(region);
        }
        let block = |index: usize| self.blocks[index];
        let age =
            |index: usize| u64::MAX - self.since.get(&block(index).start).map_or(0, |of| of.0);
        let fitting = (0..self.blocks.len())
            .filter(|&index| self.searched(&block(index)) && serves(&block(index)));
        match self.fit {
            Fit::Best => fitting.min_by_key(|&index| (block(index).len, index)),
            Fit::Worst => fitting.min_by_key(|&index| (usize::MAX - block(index).len, index)),
            Fit::First => fitting.min(),
            Fit::Next => {
                let found = fitting.min_by_key(|&index| (block(index).end() <= self.rover, index));
                self.rover = found.map_or(self.rover, |index| self.blocks[index].start);
                found
            }
            Fit::Half => {
                let power = |len: usize| len.ilog2();
                let least = power(len.next_power_of_two());
                let all: Vec<usize> = fitting.collect();
                let listed = all.iter().copied().filter(|&index| power(block(index).len) >= least);
                let found = listed.min_by_key(|&index| (power(block(index).len), age(index)));
                found.or_else(|| all.into_iter().filter(|_| last).min_by_key(|&index| age(index)))
            }
        }
    }

    /// Coalesces a range of free blocks of the chain.
    fn join(&mut self, from: usize, to: usize) {
        let whole = Block {
            start: self.blocks[from].start,
            len: self.blocks[to].end() - self.blocks[from].start,
            free: true,
        };
        self.blocks.splice(from..=to, [whole]);
        if (whole.start..whole.end()).contains(&self.region) {
            self.region = whole.start;
        }
    }

    fn stitch(&mut self) {
        let mut index = 1;
        while self.halves && index < self.blocks.len() {
            if self.blocks[index - 1].free && self.blocks[index].free {
                self.join(index - 1, index);
            } else {
                index += 1;
            }
        }
        self.halves = false;
    }

    /// ChunkUp and SpaceFit: chooses the block's place, and splits off the excess.
    fn space_fit(&mut self, index: usize, len: usize) -> usize {
        let block = self.blocks[index];
        let halved = self.chunk_up && block.len / 2 >= len;
        let beside = self.halves && !halved;
        let excess = block.len > len;
        let is_free = |index: usize| self.blocks.get(index).is_some_and(|other| other.free);
        let right = beside && is_free(index + 1);
        let left = beside && !right && index > 0 && is_free(index - 1);
        let start = if halved || right { block.start } else { block.end() - len };
        let (mut from, mut to) = (index, index);
        if left && excess {
            from -= 1;
        }
        if right && excess {
            to += 1;
        }
        let (low, high) = (self.blocks[from].start, self.blocks[to].end());
        let below = Block { start: low, len: start - low, free: true };
        let used = Block { start, len, free: false };
        let above = Block { start: start + len, len: high - start - len, free: true };
        let parts = [below, used, above].into_iter().filter(|part| part.len > 0);
        self.blocks.splice(from..=to, parts.collect::<Vec<_>>());
        if (low..high).contains(&self.region) {
            self.region = if above.len > below.len { above.start } else { below.start };
        }
        start
    }
}

impl Model for Memory {
    fn places(&mut self, bytes: usize) -> Vec<usize> {
        let len = (bytes + HEADER).div_ceil(UNIT);
        let mut found = self.find(len, false);
        if found.is_none() && self.halves {
            self.stitch();
            self.update_records();
            found = self.find(len, false);
        }
        if found.is_none() {
            // The topmost block serves before more memory would be requested, even if the fit
            // misses it.
            let top = self.blocks.len() - 1;
            let serves = self.blocks[top].free && self.blocks[top].len >= len;
            found = if serves { Some(top) } else { self.find(len, true) };
        }
        let start = found.map(|index| self.space_fit(index, len));
        self.update_records();
        start.into_iter().collect()
    }

    fn take(&mut self, _: usize, _: usize) {}

    fn free(&mut self, start: usize, _: usize) {
        let index = self.blocks.iter().position(|block| block.start == start);
        let index = index.expect("a block starts there");
        self.blocks[index].free = true;
        let is_free = |index: usize| self.blocks.get(index).is_some_and(|other| other.free);
        let to = index + usize::from(is_free(index + 1));
        let from = index - usize::from(index > 0 && is_free(index - 1));
        self.join(from, to);
        self.update_records();
    }
}

#[test]
fn first_fit_and_head_first_place_blocks_as_the_naive_model_does() {
    let load = Load {
        requests: 4_000,
        wave: 200,
        size: |random| {
            let largest = if random.random_bool(0.1) { 2_000 } else { 300 };
            random.random_range(1..=largest)
        },
    };
    let memory = || Reserved::new(MEMORY);
    for seed in 0..20 {
        macro_rules! all {
            ($($order:ident $halving:ident: $head_first:literal $chunk_up:literal;)*) => {$(
                macro_rules! heap {
                    ($search:ident) => {
                        Box::new(SpaceFitting::<$order, $halving, $search, _>::new(MEMORY, memory(), ()))
                    };
                }
                let mut searches: [(Fit, Box<dyn Strategy>); 6] = [
                    (Fit::Best, heap!(Traverse)),
                    (Fit::Best, heap!(Best)),
                    (Fit::Worst, heap!(Worst)),
                    (Fit::First, heap!(First)),
                    (Fit::Next, heap!(Next)),
                    (Fit::Half, heap!(HalfFit)),
                ];
                for (fit, engine) in &mut searches {
                    let name =
                        format!("{}, {}, {fit:?}", stringify!($order), stringify!($halving));
                    let mut model = Memory::new(*fit, $head_first, $chunk_up);
                    agree(&name, &mut **engine, &mut model, load, UNIT, seed);
                }
            )*};
        }
        all! {
            RegionFirst NoChunkUp: true false;
            RegionFirst ChunkUp: true true;
            FitFirst NoChunkUp: false false;
            FitFirst ChunkUp: false true;
        }
    }
}
