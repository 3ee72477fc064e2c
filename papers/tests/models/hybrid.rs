//! The tunable hybrid, HC (Hasan & Chang §3): every block in a vector in address order, with the
//! number of the free that determines its place on its list.
//!
//! Where the text leaves something open, `src/hybrid/mod.rs` gives our reading: of large blocks of
//! equal size the lowest is taken, sizes are twice the paper's, and the peak of bytes in use is
//! updated whenever the threshold is compared.

use pagewise::hybrid::{Hybrid, Settings};
use pagewise::source::Reserved;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{Load, Model, agree};

/// Bytes of a unit and of a header.
const UNIT: usize = 16;
const HEADER: usize = 4;
/// Units of the largest size with its own free list (§3.4).
const LISTED: usize = 127;
/// Start of the first block: its header is in the unit before.
const FIRST: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Used,
    /// On the quick list of its size; to its neighbours it looks in use (§3.10).
    Quick,
    /// Freed and not examined since; coalesced, or the remainder of a coalesced block (§3.3, §3.4).
    Waiting,
    Coalesced,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    start: usize,
    len: usize,
    state: State,
    /// When it entered this state: lists are LIFO.
    since: u64,
}

impl Block {
    fn is_free(&self) -> bool {
        matches!(self.state, State::Waiting | State::Coalesced)
    }
}

struct Memory {
    settings: Settings,
    blocks: Vec<Block>,
    clock: u64,
    /// Start of the wilderness, and end of the heap.
    top: usize,
    end: usize,
    most_in_use: usize,
}

impl Memory {
    fn new(settings: Settings) -> Self {
        Self { settings, blocks: Vec::new(), clock: 0, top: FIRST, end: 0, most_in_use: 0 }
    }

    fn quick_units(&self) -> usize {
        self.settings.ql_high / UNIT
    }

    fn now(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// Changes a block's state, and moves it to the front of its list.
    fn set_state(&mut self, index: usize, state: State) {
        let since = self.now();
        let block = &mut self.blocks[index];
        (block.state, block.since) = (state, since);
    }

    /// Returns the selected block with the least key.
    fn first<K: Ord>(
        &self,
        chosen: impl Fn(&Block) -> bool,
        key: impl Fn(&Block) -> K,
    ) -> Option<usize> {
        let indices = (0..self.blocks.len()).filter(|&index| chosen(&self.blocks[index]));
        indices.min_by_key(|&index| key(&self.blocks[index]))
    }

    /// Returns the latest block on a quick list.
    fn quick(&self, len: usize) -> Option<usize> {
        let of_size = |block: &Block| block.state == State::Quick && block.len == len;
        self.first(of_size, |block| u64::MAX - block.since)
    }

    /// Returns a free block by segregated fit, then best fit (§3.4 to §3.6).
    fn fit(&self, len: usize, split: bool) -> Option<usize> {
        let serves = |block: &Block| block.is_free() && block.len >= len;
        if len > LISTED {
            return self.first(serves, |block| (block.len, block.start));
        }
        let near = |block: &Block| serves(block) && block.len <= (len + 1).min(LISTED);
        let listed = |block: &Block| {
            let key = (block.state == State::Coalesced, u64::MAX - block.since);
            // Large blocks share one list: the lowest of the smallest ones.
            if block.len <= LISTED {
                (block.len, key, 0)
            } else {
                (block.len, (true, 0), block.start)
            }
        };
        match self.first(near, listed) {
            None if split => self.first(serves, listed),
            found => found,
        }
    }

    /// Coalesces a waiting block with all free neighbours; returns the index of the result.
    fn coalesce(&mut self, index: usize) -> usize {
        let is_free = |index: usize| self.blocks.get(index).is_some_and(Block::is_free);
        let mut from = index;
        while from > 0 && is_free(from - 1) {
            from -= 1;
        }
        let mut to = index;
        while is_free(to + 1) {
            to += 1;
        }
        let len = self.blocks[from..=to].iter().map(|block| block.len).sum();
        let whole = Block { len, ..self.blocks[from] };
        self.blocks.splice(from..=to, [whole]);
        self.set_state(from, State::Coalesced);
        from
    }

    /// Coalesces waiting blocks that are large, or smaller than the request, larger sizes first,
    /// until one is large enough (incremental coalescing, §3.3, §3.7).
    fn coalesce_until(&mut self, len: usize, large: bool) -> Option<usize> {
        loop {
            let chosen = |block: &Block| {
                block.state == State::Waiting
                    && if large {
                        block.len > LISTED
                    } else {
                        block.len < len && block.len <= LISTED
                    }
            };
            let size = |block: &Block| if large { 0 } else { LISTED - block.len };
            let next = self.first(chosen, |block| (size(block), u64::MAX - block.since))?;
            let whole = self.coalesce(next);
            if self.blocks[whole].len >= len {
                return Some(whole);
            }
        }
    }

    /// Complete coalescing (§3.8), which frees the quick lists' blocks first.
    fn coalesce_all(&mut self) {
        for len in 1..=LISTED {
            while let Some(quick) = self.quick(len) {
                self.set_state(quick, State::Waiting);
            }
        }
        self.coalesce_until(usize::MAX, true);
        self.coalesce_until(usize::MAX, false);
    }

    /// Returns whether the memory taken from the system exceeds the given ratio to the peak in use.
    fn exceeds(&mut self) -> bool {
        let used = self.blocks.iter().filter(|block| block.state == State::Used);
        let in_use: usize = used.map(|block| block.len * UNIT).sum();
        self.most_in_use = self.most_in_use.max(in_use);
        self.end * UNIT * 100 > self.most_in_use * self.settings.threshold as usize
    }

    fn coalesce_for(&mut self, len: usize) -> Option<usize> {
        let Settings { coalesce, coalesce_ql, strict_threshold, .. } = self.settings;
        if len > LISTED && (coalesce && !strict_threshold || self.exceeds()) {
            let found = self.coalesce_until(len, true);
            if found.is_some() {
                return found;
            }
        }
        if coalesce {
            let found = self.coalesce_until(len, false);
            if found.is_some() {
                return found;
            }
        }
        if coalesce_ql && self.exceeds() {
            self.coalesce_all();
            return self.fit(len, true);
        }
        None
    }

    /// Cuts a block from the wilderness, which grows upwards by the unit, and downwards over free
    /// blocks (§3.9).
    fn cut(&mut self, len: usize) -> usize {
        if self.end < self.top + len {
            while self.blocks.last().is_some_and(Block::is_free) {
                self.top = self.blocks.pop().map_or(FIRST, |block| block.start);
            }
            if self.end < self.top + len {
                self.end = (self.top + len).next_multiple_of(self.settings.growth / UNIT);
            }
        }
        let block = Block { start: self.top, len, state: State::Used, since: 0 };
        self.blocks.push(block);
        self.top += len;
        block.start
    }

    /// Splits a free block; for a small request the remainder is preallocated (§3.6, §3.8, §3.10).
    fn split(&mut self, index: usize, len: usize, small: bool) -> usize {
        let Block { start, len: whole, state, .. } = self.blocks[index];
        let most = if small { self.settings.preallocate as usize } else { 0 };
        let more = (whole / len - 1).min(most);
        if more == 0 && whole <= len + 1 {
            self.set_state(index, State::Used);
            return start;
        }
        let run = (more + 1) * len;
        let mut parts = vec![Block { start, len, state: State::Used, since: 0 }];
        // The lowest one is used first.
        for place in 1..=more {
            let since = self.clock + (more - place) as u64 + 1;
            parts.push(Block { start: start + place * len, len, state: State::Quick, since });
        }
        self.clock += more as u64;
        if run < whole {
            let since = self.now();
            parts.push(Block { start: start + run, len: whole - run, state, since });
        }
        self.blocks.splice(index..=index, parts);
        start
    }
}

impl Model for Memory {
    fn places(&mut self, bytes: usize) -> Vec<usize> {
        let len = (bytes + HEADER).div_ceil(UNIT);
        let small = len <= self.quick_units();
        if small {
            for size in len..=(len + 1).min(self.quick_units()) {
                if let Some(found) = self.quick(size) {
                    self.set_state(found, State::Used);
                    return vec![self.blocks[found].start];
                }
            }
        }
        let split = self.settings.split;
        let found = self.fit(len, split).or_else(|| self.coalesce_for(len));
        vec![match found {
            Some(found) => self.split(found, len, small),
            None => self.cut(len),
        }]
    }

    fn take(&mut self, _: usize, _: usize) {}

    fn free(&mut self, start: usize, _: usize) {
        let index = self.blocks.iter().position(|block| block.start == start);
        let index = index.expect("a block starts there");
        let small = self.blocks[index].len <= self.quick_units();
        self.set_state(index, if small { State::Quick } else { State::Waiting });
        let Settings { coalesce_in_free, few_blocks, much_held, .. } = self.settings;
        let used = self.blocks.iter().filter(|block| block.state == State::Used).count();
        if coalesce_in_free && used < few_blocks && self.end * UNIT > much_held {
            self.coalesce_all();
        }
    }
}

#[test]
fn the_hybrid_places_blocks_as_the_naive_model_does() {
    let load = Load {
        requests: 3_000,
        wave: 300,
        size: |random| {
            let largest = match random.random_range(0..20) {
                0 => 6_000,
                1..5 => 700,
                _ => 150,
            };
            random.random_range(1..=largest)
        },
    };
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut all = vec![Settings::generic(), Settings::memory(), Settings::performance()];
    for _ in 0..40 {
        let mut on = || random.random_bool(0.5);
        let switched = Settings::generic()
            .coalesce(on())
            .coalesce_ql(on())
            .coalesce_in_free(on())
            .split(on())
            .strict_threshold(on())
            .few_blocks(60)
            .much_held(4 << 10);
        let switched = switched
            .ql_high([0, 48, 144, 528, 2_032][random.random_range(0..5)])
            .preallocate([0, 3, 100][random.random_range(0..3)])
            .threshold([100, 106, 150][random.random_range(0..3)])
            .growth([64, 512, 8 << 10][random.random_range(0..3)]);
        all.push(switched);
    }
    for (seed, settings) in (0..).zip(all) {
        let mut engine = Hybrid::new(settings, Reserved::new(1 << 30), ());
        let name = format!("{settings:?}");
        agree(&name, &mut engine, &mut Memory::new(settings), load, UNIT, seed);
    }
}
