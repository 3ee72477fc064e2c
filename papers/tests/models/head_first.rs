//! Best fit, head-first and not, over a memory that is two free halves at first (Hakarsa).

use pagewise::Strategy;
use pagewise::fit::Best;
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

struct Memory {
    head_first: bool,
    chunk_up: bool,
    blocks: Vec<Block>,
    /// Where the unallocated region starts.
    region: usize,
    /// Whether free blocks may lie side by side, as the halves do.
    halves: bool,
}

impl Memory {
    fn new(head_first: bool, chunk_up: bool) -> Self {
        // The first bookkeeping lies in the unit before the first block.
        let all = MEMORY / UNIT - 1;
        let lower = Block { start: 1, len: all / 2, free: true };
        let upper = Block { start: lower.end(), len: all - lower.len, free: true };
        Self { head_first, chunk_up, blocks: vec![lower, upper], region: 1, halves: true }
    }

    /// The region while it can serve, else the smallest that fits, the lowest of those.
    fn find(&self, len: usize) -> Option<usize> {
        let serves = |block: &Block| block.free && block.len >= len;
        let region = |block: &Block| self.head_first && block.start == self.region && serves(block);
        let best = |index: &usize| (self.blocks[*index].len, *index);
        let fitting = (0..self.blocks.len()).filter(|&index| serves(&self.blocks[index]));
        self.blocks.iter().position(region).or_else(|| fitting.min_by_key(best))
    }

    /// Joins the free blocks of a stretch of the chain into one.
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

    /// ChunkUp and SpaceFit: where the block goes, and who has the excess.
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
        let mut found = self.find(len);
        if found.is_none() && self.halves {
            self.stitch();
            found = self.find(len);
        }
        found.map(|index| self.space_fit(index, len)).into_iter().collect()
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
    }
}

#[test]
fn head_first_or_not_every_block_lies_where_the_naive_model_has_it() {
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
                let mut searches: [Box<dyn Strategy>; 2] = [
                    Box::new(SpaceFitting::<$order, $halving, Traverse, _>::new(MEMORY, memory(), ())),
                    Box::new(SpaceFitting::<$order, $halving, Best, _>::new(MEMORY, memory(), ())),
                ];
                for engine in &mut searches {
                    let name = concat!(stringify!($order), ", ", stringify!($halving));
                    let mut model = Memory::new($head_first, $chunk_up);
                    agree(name, &mut **engine, &mut model, load, UNIT, seed);
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
