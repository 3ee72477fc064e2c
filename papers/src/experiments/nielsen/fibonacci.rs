//! Fibonacci buddies, which the paper leaves open (§6): "it would be very desirable to test the
//! Fibonacci system of Hirschberg \[8\] when used with the recombination scheme of Cranston and
//! Thomas \[5\]".
//!
//! ```text
//!  start                         S: which length, free, B, M
//!   [S|→|←|…      ][S|…   ]      a block of length F(n) was split into F(n−1) and F(n−2)
//!    left: B = 0    right: B = 1
//! ```
//! Lengths are the Fibonacci numbers from 3 on, overhead included: a block has the fields S + DP,
//! like V-3 and V-5. The scheme of Cranston and Thomas finds a buddy with two bits per block. B
//! tells whether the block is the right part of a split block. The split block's own B is saved as
//! M of the left part, and its M as M of the right part, so coalescing restores both. At first,
//! memory consists of the largest such blocks that it can hold.
//!
//! This is a simulation over a vector of words, written for this experiment, not a strategy of the
//! library.

use super::demand::{Demand, Request};
use super::trial::{Cost, Trial, memory};

/// Stands for no block.
const NIL: u32 = u32::MAX;

/// Flags stored with the index of a block's length.
const FREE: u32 = 1;
const RIGHT: u32 = 2;
const MEMORY: u32 = 4;
const FLAGS: u32 = 3;

/// Words of the shortest block: S and DP.
const LEAST: u32 = 3;

/// When free buddies are coalesced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joins {
    /// When a block is freed, as in V-3.
    Deallocation,
    /// When no block is long enough, as in V-5.
    Collection,
}

/// A memory of words.
#[derive(Debug)]
pub(crate) struct Fibonacci {
    joins: Joins,
    words: Vec<u32>,
    lengths: Vec<u32>,
    /// The first free block of each length.
    lists: Vec<u32>,
    /// Items visited and linked.
    items: u64,
    /// Words of blocks in use.
    used: u32,
}

impl Fibonacci {
    fn new(words: u32, joins: Joins) -> Self {
        let mut lengths = vec![LEAST, 5];
        while lengths[lengths.len() - 1] < words {
            lengths.push(lengths[lengths.len() - 2..].iter().sum());
        }
        let lists = vec![NIL; lengths.len()];
        let memory = vec![0; words as usize];
        let mut new = Self { joins, words: memory, lengths, lists, items: 0, used: 0 };
        let mut start = 0;
        while let Some(length) = new.lengths.iter().rposition(|&length| length <= words - start) {
            new.put(start, length, 0);
            start += new.lengths[length];
        }
        // The remainder at the end is not a block.
        new.words.truncate(start as usize);
        new.items = 0;
        new
    }

    /// Returns the index of a block's length, and its flags B and M.
    fn block(&self, start: u32) -> (usize, u32) {
        let field = self.words[start as usize];
        ((field >> FLAGS) as usize, field & (RIGHT | MEMORY))
    }

    fn is_free(&self, start: u32, length: usize) -> bool {
        self.words
            .get(start as usize)
            .is_some_and(|&field| field & FREE != 0 && (field >> FLAGS) as usize == length)
    }

    /// Puts a free block at the front of its list.
    fn put(&mut self, start: u32, length: usize, flags: u32) {
        let at = start as usize;
        self.words[at] = (length as u32) << FLAGS | flags | FREE;
        let next = std::mem::replace(&mut self.lists[length], start);
        (self.words[at + 1], self.words[at + 2]) = (next, NIL);
        if next != NIL {
            self.words[next as usize + 2] = start;
        }
        self.items += 2;
    }

    /// Takes a free block off its list.
    fn take(&mut self, start: u32, length: usize) {
        let (next, previous) = (self.words[start as usize + 1], self.words[start as usize + 2]);
        match previous {
            NIL => self.lists[length] = next,
            previous => self.words[previous as usize + 1] = next,
        }
        if next != NIL {
            self.words[next as usize + 2] = previous;
        }
    }

    /// Allocates a block for this many words.
    fn allocate(&mut self, words: u32) -> Option<u32> {
        let wanted = self.lengths.iter().position(|&length| length > words)?;
        let mut found = self.first(wanted);
        if found.is_none() && self.joins == Joins::Collection {
            self.collect();
            found = self.first(wanted);
        }
        let mut length = found?;
        let mut start = self.lists[length];
        self.items += 1;
        self.take(start, length);
        let (_, mut flags) = self.block(start);
        // The two shortest lengths cannot be split.
        while length > wanted && length > 1 {
            let left = if flags & RIGHT != 0 { MEMORY } else { 0 };
            let right = RIGHT | flags & MEMORY;
            let middle = start + self.lengths[length - 1];
            if length - 2 >= wanted {
                self.put(start, length - 1, left);
                (start, length, flags) = (middle, length - 2, right);
            } else {
                self.put(middle, length - 2, right);
                (length, flags) = (length - 1, left);
            }
        }
        self.words[start as usize] = (length as u32) << FLAGS | flags;
        self.used += self.lengths[length];
        Some(start)
    }

    /// Returns the index of the shortest length with a free block, from this one on.
    fn first(&self, wanted: usize) -> Option<usize> {
        (wanted..self.lists.len()).find(|&length| self.lists[length] != NIL)
    }

    fn deallocate(&mut self, start: u32) {
        let (length, flags) = self.block(start);
        self.used -= self.lengths[length];
        let joined = if self.joins == Joins::Deallocation {
            self.join(start, length, flags, true)
        } else {
            (start, length, flags)
        };
        self.put(joined.0, joined.1, joined.2);
    }

    /// Coalesces a block that is on no list with its buddy, if that is free, and so on; with
    /// buddies at higher addresses only if `upwards`.
    fn join(&mut self, start: u32, length: usize, flags: u32, upwards: bool) -> (u32, usize, u32) {
        let (mut start, mut length, mut flags) = (start, length, flags);
        loop {
            if flags & RIGHT != 0 {
                // The left part is the longer one.
                let left = start - self.lengths[length + 1];
                if !self.is_free(left, length + 1) {
                    break;
                }
                let (_, of_left) = self.block(left);
                self.take(left, length + 1);
                let right = if of_left & MEMORY != 0 { RIGHT } else { 0 };
                (start, length, flags) = (left, length + 2, right | flags & MEMORY);
            } else {
                let right = start + self.lengths[length];
                let is_buddy = upwards && length > 0 && self.is_free(right, length - 1);
                if !is_buddy || self.block(right).1 & RIGHT == 0 {
                    break;
                }
                let (_, of_right) = self.block(right);
                self.take(right, length - 1);
                let own = if flags & MEMORY != 0 { RIGHT } else { 0 };
                (length, flags) = (length + 1, own | of_right & MEMORY);
            }
        }
        (start, length, flags)
    }

    /// Coalesces all free buddies, in address order, so that the blocks below a block are already
    /// coalesced.
    fn collect(&mut self) {
        let mut start = 0;
        while (start as usize) < self.words.len() {
            self.items += 1;
            let (length, flags) = self.block(start);
            let behind = start + self.lengths[length];
            if self.is_free(start, length) {
                self.take(start, length);
                let (start, length, flags) = self.join(start, length, flags, false);
                self.put(start, length, flags);
            }
            start = behind;
        }
    }

    /// Serves all requests of a demand. A request's cost is the increase of `gauge`. `None` if it
    /// fails.
    fn replay(
        &mut self,
        demand: &Demand,
        gauge: impl Fn(&Self) -> u64,
        mut allocated: impl FnMut(&Self),
    ) -> Option<Vec<u64>> {
        let mut blocks = vec![NIL; demand.blocks as usize];
        let mut costs = Vec::with_capacity(demand.requests.len());
        for request in &demand.requests {
            let before = gauge(self);
            match *request {
                Request::Allocate { block, words } => {
                    let start = self.allocate(words);
                    costs.push(gauge(self) - before);
                    blocks[block as usize] = start?;
                    allocated(self);
                }
                Request::Deallocate { block } => {
                    self.deallocate(blocks[block as usize]);
                    costs.push(gauge(self) - before);
                }
            }
        }
        Some(costs)
    }

    /// Tries Fibonacci buddies on a load that uses at most `level` of the memory, and counts items.
    /// `None` if they fail.
    pub(crate) fn tried(demand: &Demand, level: f64, joins: Joins) -> Option<Trial> {
        let words = memory(demand, level);
        let mut heap = Self::new(words as u32, joins);
        let mut most = 0;
        let costs = heap.replay(demand, |heap| heap.items, |heap| most = most.max(heap.used))?;
        let items = Cost::average(demand, &costs, 0);
        Some(Trial { space: f64::from(most) / words as f64, items })
    }

    /// Returns each request's nanoseconds, including the clock's own. `None` if they fail.
    pub(crate) fn timed(demand: &Demand, level: f64, joins: Joins) -> Option<Vec<u64>> {
        let mut heap = Self::new(memory(demand, level) as u32, joins);
        let start = std::time::Instant::now();
        heap.replay(demand, |_| start.elapsed().as_nanos() as u64, |_| ())
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Returns all blocks: start, length in words, whether it is free.
    fn blocks(heap: &Fibonacci) -> Vec<(u32, u32, bool)> {
        let mut all = Vec::new();
        let mut start = 0;
        while (start as usize) < heap.words.len() {
            let (length, _) = heap.block(start);
            all.push((start, heap.lengths[length], heap.is_free(start, length)));
            start += heap.lengths[length];
        }
        assert_eq!(start as usize, heap.words.len(), "blocks tile the memory");
        all
    }

    fn listed(heap: &Fibonacci) -> Vec<u32> {
        let mut all = Vec::new();
        for (length, &first) in heap.lists.iter().enumerate() {
            let mut next = first;
            while next != NIL {
                assert!(heap.is_free(next, length), "a block is on the list of its length");
                all.push(next);
                next = heap.words[next as usize + 1];
            }
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn blocks_tile_the_memory_and_coalesce_completely() {
        for joins in [Joins::Deallocation, Joins::Collection] {
            for seed in 0..20 {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                let mut heap = Fibonacci::new(random.random_range(300..3_000), joins);
                let fresh = blocks(&heap);
                let mut live: Vec<u32> = Vec::new();
                for step in 0..2_000 {
                    if random.random_bool(if step / 200 % 2 == 0 { 0.7 } else { 0.3 }) {
                        live.extend(heap.allocate(random.random_range(1..60)));
                    } else if !live.is_empty() {
                        let block = live.swap_remove(random.random_range(0..live.len()));
                        heap.deallocate(block);
                    }
                    let all = blocks(&heap);
                    let in_use = all.iter().filter(|block| !block.2);
                    let mut mine = live.clone();
                    mine.sort_unstable();
                    assert_eq!(in_use.map(|block| block.0).collect::<Vec<_>>(), mine);
                    let free: Vec<u32> =
                        all.iter().filter(|block| block.2).map(|block| block.0).collect();
                    assert_eq!(listed(&heap), free);
                }
                live.into_iter().for_each(|block| heap.deallocate(block));
                heap.collect();
                assert_eq!(blocks(&heap), fresh, "all buddies are joined again");
                assert_eq!(heap.used, 0);
            }
        }
    }
}
