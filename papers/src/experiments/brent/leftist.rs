//! A priority queue as a leftist tree (Crane; Knuth, volume 3, §5.2.3), with nodes in blocks of a
//! strategy: the queue of PQSIM (Brent §3.2).
//!
//! ```text
//!  node   left | right | key | priority | distance        5 words, 20 bytes
//! ```
//! Invariants: no node has a lower priority value than its parent; `distance` is that of the right
//! child (0 if there is none) plus 1, and no greater than that of the left child plus 1. So the
//! path down the right children is short: at most log₂(n + 1) nodes.

use pagewise_replay::paging::Paging;

use super::memory::{Block, Memory};

/// Bytes of a node.
pub(crate) const NODE: usize = 20;

const LEFT: usize = 0;
const RIGHT: usize = 1;
const KEY: usize = 2;
const PRIORITY: usize = 3;
const DISTANCE: usize = 4;

/// The queue; the item with the lowest priority value comes first.
#[derive(Debug, Default)]
pub(crate) struct Leftist {
    root: Option<Block>,
}

impl Leftist {
    /// Inserts an item. O(log n).
    ///
    /// # Errors
    /// If the strategy runs out of memory.
    pub(crate) fn insert<P: Paging>(
        &mut self,
        memory: &mut Memory<'_, P>,
        key: u32,
        priority: f32,
    ) -> anyhow::Result<()> {
        let node = memory.allocate()?;
        memory.set(node, LEFT, 0);
        memory.set(node, RIGHT, 0);
        memory.set(node, KEY, key);
        memory.set(node, PRIORITY, priority.to_bits());
        memory.set(node, DISTANCE, 1);
        self.root = merge(memory, Some(node), self.root);
        Ok(())
    }

    /// Removes the first item and frees its node. O(log n).
    pub(crate) fn delete_min<P: Paging>(
        &mut self,
        memory: &mut Memory<'_, P>,
    ) -> Option<(u32, f32)> {
        let node = self.root?;
        let item = (memory.get(node, KEY), f32::from_bits(memory.get(node, PRIORITY)));
        let left = Block::of_word(memory.get(node, LEFT));
        let right = Block::of_word(memory.get(node, RIGHT));
        memory.free(node);
        self.root = merge(memory, left, right);
        Some(item)
    }
}

/// Merges two trees: Knuth's Algorithm M of exercise 5.2.3–32. The first loop descends the right
/// children of both and reverses their links; the second ascends, restores links and distances, and
/// makes the child with the smaller distance the right one.
fn merge<P: Paging>(
    memory: &mut Memory<'_, P>,
    mut p: Option<Block>,
    mut q: Option<Block>,
) -> Option<Block> {
    let mut path: Option<Block> = None;
    while let (Some(one), Some(other)) = (p, q) {
        let priority =
            |memory: &mut Memory<'_, P>, node| f32::from_bits(memory.get(node, PRIORITY));
        let one_first = priority(memory, one) <= priority(memory, other);
        let first = if one_first { one } else { other };
        let rest = Block::of_word(memory.get(first, RIGHT));
        memory.set(first, RIGHT, Block::word(path));
        path = Some(first);
        if one_first { p = rest } else { q = rest }
    }
    let mut tree = p.or(q);
    let mut distance = tree.map_or(0, |node| memory.get(node, DISTANCE));
    while let Some(node) = path {
        path = Block::of_word(memory.get(node, RIGHT));
        let left = Block::of_word(memory.get(node, LEFT));
        let left_distance = left.map_or(0, |left| memory.get(left, DISTANCE));
        if left_distance < distance {
            memory.set(node, RIGHT, Block::word(left));
            memory.set(node, LEFT, Block::word(tree));
            distance = left_distance + 1;
        } else {
            memory.set(node, RIGHT, Block::word(tree));
            distance += 1;
        }
        memory.set(node, DISTANCE, distance);
        tree = Some(node);
    }
    tree
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use pagewise::catalogue;
    use pagewise::pages::Config;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use pagewise_replay::paging::Lru;

    #[test]
    fn it_is_a_priority_queue() {
        let strategy = catalogue::find("MRU").unwrap().build(Config::new(), 1 << 24).unwrap();
        let mut memory = Memory::new(strategy, NODE, 1 << 16, Lru::new());
        let mut queue = Leftist::default();
        let mut model = BinaryHeap::new();
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        for step in 0..20_000 {
            if random.random_bool(if step < 10_000 { 0.6 } else { 0.3 }) {
                let priority: u32 = random.random_range(0..1_000_000);
                queue.insert(&mut memory, priority, priority as f32).unwrap();
                model.push(Reverse(priority));
            } else {
                let found = queue.delete_min(&mut memory).map(|(key, _)| key);
                assert_eq!(found, model.pop().map(|Reverse(priority)| priority));
            }
        }
        assert_eq!(memory.counts().live(), model.len() as u64);
    }
}
