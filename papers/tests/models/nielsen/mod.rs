//! Nielsen's 35 algorithms (Table III) over a memory of a few hundred words: blocks in a vector in
//! address order, free lists as vectors of their starts.

mod table;

use pagewise::Strategy;
use rand::RngExt;

use self::table::{table_iii, with_fewer_lists};
use crate::{Load, Model, agree};

const WORD: usize = 4;
/// Words of the memory.
const MEMORY: usize = 600;
/// The largest size with its own list in the catalogue, words.
const LISTED: usize = 128;

/// How free blocks are found.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// I: by searching all blocks.
    All,
    /// II, III, VI: on a list.
    List(Order),
    /// IV: on a list of their size; longer ones on a residual queue in this order.
    Sizes(Order),
    /// V: on a list of their power of two.
    Buddies(Order),
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    Memory,
    Lifo,
    Fifo,
    Size,
}

/// When free neighbours are coalesced.
#[derive(Clone, Copy, PartialEq)]
enum Joins {
    Allocation,
    Deallocation,
    Collection,
    /// In a collection only; freed blocks are on no list before it.
    Limbo,
    /// The same, but the first collection does not coalesce.
    TwoStage,
    /// With neighbours on the residual queue when freed; all of them in a collection.
    Both,
}

/// A line of Table III. `fields`: words before the contents; pointer words in a free block.
struct Algorithm {
    name: &'static str,
    kind: Kind,
    best: bool,
    rotates: bool,
    fields: (usize, usize),
    joins: Joins,
    /// Lengths are multiples of this many words.
    multiple: usize,
    /// The largest size with its own list, words, and whether a block of a larger size serves if
    /// all else fails.
    lists: (usize, bool),
    engine: fn() -> Box<dyn Strategy>,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    start: usize,
    len: usize,
    free: bool,
}

struct Words<'a> {
    of: &'a Algorithm,
    /// All blocks, in address order.
    blocks: Vec<Block>,
    /// Starts of free blocks, in search order; for categories IV and V by size.
    lists: Vec<Vec<usize>>,
    /// Where the last allocation ended.
    point: usize,
}

impl<'a> Words<'a> {
    fn new(of: &'a Algorithm) -> Self {
        let mut words =
            Self { of, blocks: Vec::new(), lists: vec![Vec::new(); LISTED + 2], point: 0 };
        let mut start = 0;
        while start < MEMORY {
            let mut len = MEMORY - start;
            if let Kind::Buddies(_) = of.kind {
                len = 1 << len.ilog2().min(if start == 0 { 31 } else { start.trailing_zeros() });
            }
            words.blocks.push(Block { start, len, free: true });
            start += len;
        }
        for block in words.blocks.clone() {
            words.enlist(block);
        }
        words
    }

    fn least(&self) -> usize {
        self.of.fields.0 + self.of.fields.1.max(1)
    }

    fn index(&self, start: usize) -> usize {
        self.blocks.iter().position(|block| block.start == start).expect("a block starts there")
    }

    fn block(&self, start: usize) -> Block {
        self.blocks[self.index(start)]
    }

    /// Returns the index of the list for a length.
    fn list(&self, len: usize) -> usize {
        match self.of.kind {
            Kind::All | Kind::List(_) => 0,
            Kind::Sizes(_) => len.min(self.of.lists.0 + 1),
            Kind::Buddies(_) => len.ilog2() as usize,
        }
    }

    /// Puts a free block on its list.
    fn enlist(&mut self, block: Block) {
        let number = self.list(block.len);
        let order = match self.of.kind {
            Kind::All => return,
            Kind::List(order) | Kind::Buddies(order) => order,
            Kind::Sizes(order) if number > self.of.lists.0 => order,
            Kind::Sizes(_) => Order::Lifo,
        };
        let blocks = &self.blocks;
        let len =
            |start: usize| blocks.iter().find(|one| one.start == start).map_or(0, |one| one.len);
        let list = &mut self.lists[number];
        let place = match order {
            Order::Lifo => 0,
            Order::Fifo => list.len(),
            Order::Memory => list.partition_point(|&start| start < block.start),
            Order::Size => {
                list.iter().position(|&start| len(start) >= block.len).unwrap_or(list.len())
            }
        };
        list.insert(place, block.start);
    }

    /// Takes a free block off its list; returns its position there.
    fn delist(&mut self, block: Block) -> usize {
        let number = self.list(block.len);
        let list = &mut self.lists[number];
        let place = list.iter().position(|&start| start == block.start);
        if let Some(place) = place {
            list.remove(place);
        }
        place.unwrap_or(0)
    }

    fn length_of(&self, bytes: usize) -> usize {
        let len = (bytes.div_ceil(WORD) + self.of.fields.0).max(self.least());
        match self.of.kind {
            Kind::Buddies(_) => len.next_power_of_two(),
            _ => len.next_multiple_of(self.of.multiple),
        }
    }

    /// Coalesces a free block with the free blocks after it, which leave their lists.
    fn absorb(&mut self, start: usize) -> Block {
        let index = self.index(start);
        while let Some(&next) = self.blocks.get(index + 1).filter(|next| next.free) {
            self.delist(next);
            self.blocks.remove(index + 1);
            self.blocks[index].len += next.len;
            if (next.start..next.start + next.len).contains(&self.point)
                && self.of.kind == Kind::All
            {
                self.point = start;
            }
        }
        self.blocks[index]
    }

    /// Returns the free blocks in search order.
    fn searched(&self) -> Vec<usize> {
        let mut starts: Vec<usize> = match self.of.kind {
            Kind::All => self.blocks.iter().map(|block| block.start).collect(),
            _ => self.lists[0].clone(),
        };
        if self.of.rotates {
            let from = starts.iter().position(|&start| start >= self.point).unwrap_or(0);
            starts.rotate_left(from);
        }
        starts
    }

    /// Returns the block that serves a request of this many words.
    fn find(&mut self, len: usize, last: bool) -> Option<Block> {
        match self.of.kind {
            Kind::All | Kind::List(_) => {
                let mut chosen: Option<Block> = None;
                for start in self.searched() {
                    let Some(&block) = self.blocks.iter().find(|one| one.start == start) else {
                        continue;
                    };
                    if !block.free {
                        continue;
                    }
                    let mut block = block;
                    if self.of.joins == Joins::Allocation {
                        block = self.absorb(start);
                        chosen = chosen.filter(|chosen| {
                            !(block.start + 1..block.start + block.len).contains(&chosen.start)
                        });
                    }
                    if block.len >= len && chosen.is_none_or(|chosen| block.len < chosen.len) {
                        chosen = Some(block);
                    }
                    if block.len == len || chosen.is_some() && !self.of.best {
                        break;
                    }
                }
                chosen
            }
            Kind::Sizes(_) => {
                let of = |list: usize, least: usize| {
                    let mut blocks = self.lists[list].iter().map(|&start| self.block(start));
                    blocks.find(|block| block.len >= least)
                };
                let (most, larger) = self.of.lists;
                let own = if len <= most { of(len, len) } else { None };
                let found = own.or_else(|| of(most + 1, len));
                found.or_else(|| {
                    let any = last && larger;
                    if any { (len..=most).find_map(|list| of(list, len)) } else { None }
                })
            }
            Kind::Buddies(_) => {
                let list = (len.ilog2() as usize..31).find(|&list| !self.lists[list].is_empty())?;
                Some(self.block(self.lists[list][0]))
            }
        }
    }

    /// Rebuilds all lists from memory.
    fn collect(&mut self, joins: bool) {
        self.lists.iter_mut().for_each(Vec::clear);
        let mut index = 0;
        while index < self.blocks.len() {
            if self.blocks[index].free && joins {
                match self.of.kind {
                    Kind::Buddies(_) => index = self.climb(index),
                    _ => {
                        self.absorb(self.blocks[index].start);
                    }
                }
            }
            index += 1;
        }
        for block in self.blocks.clone() {
            if block.free {
                self.enlist(block);
            }
        }
    }

    /// Coalesces a free block with the buddy below it, and so on; returns the index of the result.
    fn climb(&mut self, index: usize) -> usize {
        let mut index = index;
        while index > 0 {
            let (below, block) = (self.blocks[index - 1], self.blocks[index]);
            let buddies =
                below.free && below.len == block.len && below.start == block.start ^ block.len;
            if !buddies {
                break;
            }
            self.blocks.remove(index);
            index -= 1;
            self.blocks[index].len *= 2;
        }
        index
    }

    /// Takes the first words of a free block.
    fn carve(&mut self, block: Block, len: usize) -> usize {
        let index = self.index(block.start);
        if let Kind::Buddies(_) = self.of.kind {
            self.delist(block);
            let mut half = block.len;
            while half > len {
                half /= 2;
                let upper = Block { start: block.start + half, len: half, free: true };
                self.blocks.insert(index + 1, upper);
                self.enlist(upper);
            }
            self.blocks[index] = Block { len: half, free: false, ..block };
            return block.start;
        }
        let place = self.delist(block);
        let used = if block.len - len < self.least() { block.len } else { len };
        self.blocks[index] = Block { len: used, free: false, ..block };
        self.point = block.start + used;
        if used < block.len {
            let rest = Block { start: block.start + used, len: block.len - used, free: true };
            self.blocks.insert(index + 1, rest);
            // The remainder keeps the block's position in the list, unless the order is by size.
            let stays = match self.of.kind {
                Kind::All => return block.start,
                Kind::List(order) => order != Order::Size,
                _ => block.len > self.of.lists.0 && rest.len > self.of.lists.0,
            };
            if stays {
                let list = self.list(rest.len);
                self.lists[list].insert(place, rest.start);
            } else {
                self.enlist(rest);
            }
        }
        block.start
    }

    /// Returns whether a free block can be coalesced when its neighbour is freed.
    fn joinable(&self, block: Block) -> bool {
        block.free && (self.of.joins == Joins::Deallocation || block.len > self.of.lists.0)
    }

    /// Frees a block, coalesced with its neighbours or buddies.
    fn join(&mut self, block: Block) {
        let mut index = self.index(block.start);
        self.blocks[index].free = true;
        if let Kind::Buddies(_) = self.of.kind {
            loop {
                let block = self.blocks[index];
                let buddy = self.blocks.iter().position(|other| {
                    other.start == block.start ^ block.len && other.len == block.len && other.free
                });
                let Some(buddy) = buddy else { break };
                self.delist(self.blocks[buddy]);
                self.blocks.remove(index.max(buddy));
                index = index.min(buddy);
                self.blocks[index].len *= 2;
            }
            return self.enlist(self.blocks[index]);
        }
        if let Some(&above) = self.blocks.get(index + 1)
            && self.joinable(above)
        {
            self.delist(above);
            self.blocks.remove(index + 1);
            self.blocks[index].len += above.len;
        }
        if index > 0 && self.joinable(self.blocks[index - 1]) {
            self.delist(self.blocks[index - 1]);
            let block = self.blocks.remove(index);
            index -= 1;
            self.blocks[index].len += block.len;
        }
        let whole = self.blocks[index];
        if self.of.kind == Kind::All && (whole.start..whole.start + whole.len).contains(&self.point)
        {
            self.point = whole.start;
        }
        self.enlist(whole);
    }
}

impl Model for Words<'_> {
    fn places(&mut self, bytes: usize) -> Vec<usize> {
        let len = self.length_of(bytes);
        let collections: &[bool] = match self.of.joins {
            Joins::Allocation | Joins::Deallocation => &[],
            Joins::Collection | Joins::Limbo | Joins::Both => &[true],
            Joins::TwoStage => &[false, true],
        };
        for step in 0..=collections.len() {
            if step > 0 {
                self.collect(collections[step - 1]);
            }
            if let Some(found) = self.find(len, step == collections.len()) {
                return vec![self.carve(found, len)];
            }
        }
        Vec::new()
    }

    /// There are no ties: the block was taken when it was found.
    fn take(&mut self, _: usize, _: usize) {}

    fn free(&mut self, start: usize, _: usize) {
        let index = self.index(start);
        match self.of.joins {
            Joins::Deallocation | Joins::Both => self.join(self.blocks[index]),
            Joins::Limbo | Joins::TwoStage => self.blocks[index].free = true,
            Joins::Allocation | Joins::Collection => {
                self.blocks[index].free = true;
                self.enlist(self.blocks[index]);
            }
        }
    }
}

#[test]
fn the_35_algorithms_place_blocks_as_the_naive_model_does() {
    let load = Load {
        requests: 3_000,
        wave: 150,
        // Most are small; some have no list of their own.
        size: |random| {
            WORD * if random.random_bool(0.05) {
                random.random_range(60..180)
            } else {
                random.random_range(1..20)
            }
        },
    };
    let mut algorithms = table_iii();
    assert_eq!(algorithms.len(), 35);
    algorithms.extend(with_fewer_lists());
    for algorithm in &algorithms {
        for seed in 0..10 {
            let mut engine = (algorithm.engine)();
            agree(algorithm.name, &mut *engine, &mut Words::new(algorithm), load, WORD, seed);
        }
    }
}
