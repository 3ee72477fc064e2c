//! A plain model of the paper's fits, made from its text alone: every block in an array, free
//! blocks in sets. It has switches for the details that the text leaves open. With the switches set
//! like the engine, the engine must agree with it address by address.
//!
//! Addresses and lengths are in units, to which sizes are rounded up.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

/// Which free block is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// From lists for each power of two, in the order of frees (§4).
    First,
    /// The lowest (Fig. 1).
    Lowest,
    /// The largest; of equal ones, the lowest.
    Worst,
    /// The smallest that fits; of equal ones, the lowest.
    #[cfg_attr(not(test), expect(dead_code, reason = "the engine's are compared with it"))]
    Best,
}

/// How the free-space area and a block freed next to it interact (Table 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Area {
    /// No area: F, W.
    None,
    /// The two stay apart: LF, LW.
    Apart,
    /// The area absorbs the block: LFB, LWB.
    Joins,
    /// The area is released: LFL, LWL.
    Releases,
    /// Pointer decrements: the area is a free block, and serves from its upper end (§3, footnote
    /// 1).
    Decrements,
}

/// The details that the text leaves open, with two readings each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// The heap grows to multiples of this many units.
    pub(super) growth: usize,
    /// The free block at the heap's end is used last; otherwise it is like any other.
    pub(super) end_is_last: bool,
    /// New memory is coalesced with the free block at the heap's end.
    pub(super) growth_joins: bool,
    /// The remainder of an area is coalesced with its free neighbours when it is returned.
    pub(super) rest_joins: bool,
}

impl Reading {
    /// Our engine's reading.
    pub(super) const OURS: Self =
        Self { growth: 1, end_is_last: true, growth_joins: true, rest_joins: true };
}

/// Start of the first block: its header is in the unit before.
const FIRST: usize = 1;

/// The heap.
#[derive(Debug)]
pub(super) struct Plain {
    fit: Fit,
    area: Area,
    reading: Reading,
    /// Indexed by a block's first unit: its length; by the unit after it: its start.
    lengths: Vec<usize>,
    starts: Vec<usize>,
    /// When each block became free.
    free: HashMap<usize, u64>,
    /// Free blocks by power of two and age, by address, and by length; only one set is used.
    lists: BTreeSet<(u32, u64, usize)>,
    addresses: BTreeSet<usize>,
    sizes: BTreeSet<(usize, Reverse<usize>)>,
    clock: u64,
    /// Start and length of the free-space area; or the start of a free block that serves as the
    /// area.
    current: Option<(usize, usize)>,
    end: usize,
    /// Units of blocks in use.
    used: usize,
    /// Freed blocks that are not reused before an allocation fails, oldest first (§4.2); `None` if
    /// frees take effect at once.
    deferred: Option<Vec<usize>>,
    /// Requests served by the area.
    pub(super) bumps: u64,
}

impl Plain {
    pub(super) fn new(fit: Fit, area: Area, reading: Reading) -> Self {
        Self {
            fit,
            area,
            reading,
            lengths: vec![0; FIRST + 1],
            starts: vec![0; FIRST + 1],
            free: HashMap::new(),
            lists: BTreeSet::new(),
            addresses: BTreeSet::new(),
            sizes: BTreeSet::new(),
            clock: 0,
            current: None,
            end: FIRST,
            used: 0,
            deferred: None,
            bumps: 0,
        }
    }

    /// Returns the same with garbage collection: frees wait until an allocation fails (§4.2).
    pub(super) fn collected(fit: Fit, area: Area, reading: Reading) -> Self {
        Self { deferred: Some(Vec::new()), ..Self::new(fit, area, reading) }
    }

    /// Returns the units of the heap, and of blocks in use.
    pub(super) fn extent(&self) -> (usize, usize) {
        (self.end, self.used)
    }

    /// Allocates a block of this length; returns its start.
    pub(super) fn allocate(&mut self, length: usize) -> usize {
        self.used += length;
        if self.area == Area::None {
            let (start, whole) = self.found(length);
            self.lay(start, length);
            if whole > length {
                self.put(start + length, whole - length);
            }
            return start;
        }
        if self.area == Area::Decrements {
            return self.decrement(length);
        }
        if let Some((start, rest)) = self.current
            && length <= rest
        {
            self.bumps += 1;
            return self.bump(start, rest, length);
        }
        self.give_back(self.reading.rest_joins);
        let (start, whole) = self.found(length);
        self.bump(start, whole, length)
    }

    /// Frees the block that starts here.
    pub(super) fn free(&mut self, start: usize) {
        let length = self.lengths[start];
        self.used -= length;
        if let Some(deferred) = &mut self.deferred {
            return deferred.push(start);
        }
        let beside = self.current.filter(|(at, rest)| start + length == *at || at + rest == start);
        let beside = beside.filter(|_| self.area != Area::Decrements);
        match (self.area, beside) {
            (Area::Joins, Some((at, rest))) => {
                let (low, high) = self.neighbours(start, length);
                let (low, high) = (low.min(at), high.max(at + rest));
                self.current = Some((low, high - low));
                self.lay(low, high - low);
            }
            (Area::Releases, Some(_)) => {
                self.give_back(true);
                self.release(start, length);
            }
            _ => self.release(start, length),
        }
    }

    fn bump(&mut self, start: usize, rest: usize, length: usize) -> usize {
        self.lay(start, length);
        self.current = Some((start + length, rest - length));
        if rest > length {
            self.lay(start + length, rest - length);
        }
        start
    }

    /// Serves from the upper end of the free block that served last, or of the next one. The heap's
    /// end is on no list, so it serves from its lower end.
    fn decrement(&mut self, length: usize) -> usize {
        let area = self.current.map(|(start, _)| start);
        let area = area.filter(|&start| self.lengths[start] >= length);
        self.bumps += u64::from(area.is_some());
        let start = area.unwrap_or_else(|| self.found(length).0);
        self.take(start);
        let whole = self.lengths[start];
        if start + whole == self.end {
            self.lay(start, length);
            if whole > length {
                self.put(start + length, whole - length);
            }
            return start;
        }
        let at = start + whole - length;
        self.lay(at, length);
        self.current = None;
        if at > start {
            self.put(start, at - start);
            self.current = Some((start, 0));
        }
        at
    }

    fn give_back(&mut self, joins: bool) {
        if let Some((start, rest)) = self.current.take()
            && rest > 0
        {
            if joins { self.release(start, rest) } else { self.put(start, rest) }
        }
    }

    /// Takes a block of at least this length: a whole free block, or new memory.
    fn found(&mut self, length: usize) -> (usize, usize) {
        let found = self.search(length).or_else(|| {
            self.collect();
            self.search(length)
        });
        let start = found.unwrap_or_else(|| self.grow(length));
        self.take(start);
        (start, self.lengths[start])
    }

    /// Performs the waiting frees.
    fn collect(&mut self) {
        for start in self.deferred.as_mut().map(std::mem::take).unwrap_or_default() {
            self.release(start, self.lengths[start]);
        }
    }

    fn search(&self, length: usize) -> Option<usize> {
        let last = (self.end > FIRST).then(|| self.starts[self.end]);
        let last = last.filter(|start| self.reading.end_is_last && self.free.contains_key(start));
        let serves = |&start: &usize| Some(start) != last && self.lengths[start] >= length;
        let found = match self.fit {
            Fit::First => {
                let lists = self.lists.range((length.ilog2(), 0, 0)..);
                lists.map(|&(_, _, start)| start).find(serves)
            }
            Fit::Lowest => self.addresses.iter().copied().find(serves),
            Fit::Worst => {
                // Of equal ones, the lowest comes last.
                let sizes = self.sizes.iter().rev().map(|&(_, Reverse(start))| start);
                sizes.take_while(|&start| self.lengths[start] >= length).find(serves)
            }
            Fit::Best => {
                let fitting = self.sizes.range((length, Reverse(usize::MAX))..);
                let fitting = fitting.map(|&(size, Reverse(start))| (size, start));
                fitting.filter(|(_, start)| serves(start)).min().map(|(_, start)| start)
            }
        };
        found.or(last.filter(|&start| self.lengths[start] >= length))
    }

    /// Grows the heap; returns the free block at its end.
    fn grow(&mut self, length: usize) -> usize {
        let last = (self.end > FIRST).then(|| self.starts[self.end]);
        let last = last.filter(|start| self.reading.growth_joins && self.free.contains_key(start));
        let start = last.unwrap_or(self.end);
        if last.is_some() {
            self.take(start);
        }
        self.end = (start + length).next_multiple_of(self.reading.growth);
        self.lengths.resize(self.end + 1, 0);
        self.starts.resize(self.end + 1, 0);
        self.put(start, self.end - start);
        start
    }

    /// Frees a block, coalesced with its free neighbours.
    fn release(&mut self, start: usize, length: usize) {
        let (low, high) = self.neighbours(start, length);
        self.put(low, high - low);
    }

    /// Takes a block's free neighbours off the lists; returns start and end of the three together.
    fn neighbours(&mut self, start: usize, length: usize) -> (usize, usize) {
        let (mut low, mut high) = (start, start + length);
        if start > FIRST && self.free.contains_key(&self.starts[start]) {
            low = self.starts[start];
            self.take(low);
        }
        if high < self.end && self.free.contains_key(&high) {
            let above = high;
            high += self.lengths[above];
            self.take(above);
        }
        (low, high)
    }

    fn lay(&mut self, start: usize, length: usize) {
        self.lengths[start] = length;
        self.starts[start + length] = start;
    }

    fn put(&mut self, start: usize, length: usize) {
        self.lay(start, length);
        if self.area == Area::Decrements
            && self.current.is_some_and(|(area, _)| (start..start + length).contains(&area))
        {
            self.current = (start + length < self.end).then_some((start, 0));
        }
        self.clock += 1;
        self.free.insert(start, self.clock);
        match self.fit {
            Fit::First => self.lists.insert((length.ilog2(), self.clock, start)),
            Fit::Lowest => self.addresses.insert(start),
            Fit::Worst | Fit::Best => self.sizes.insert((length, Reverse(start))),
        };
    }

    fn take(&mut self, start: usize) {
        let Some(since) = self.free.remove(&start) else { return };
        let length = self.lengths[start];
        match self.fit {
            Fit::First => self.lists.remove(&(length.ilog2(), since, start)),
            Fit::Lowest => self.addresses.remove(&start),
            Fit::Worst | Fit::Best => self.sizes.remove(&(length, Reverse(start))),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::Layout;

    use pagewise::Strategy;
    use pagewise::catalogue::{
        CollectedBestFit, CollectedFirstFit, CollectedWorstFit, LazyBestFit, LazyDecrement,
        LazyFirstFit, LazyLowestFit, LazyWorstFit,
    };
    use pagewise::fit::{Apart, Joining, NoArea, Releasing};
    use pagewise::source::Reserved;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// Bytes of a unit and of a header.
    const UNIT: usize = 16;
    const HEADER: usize = 4;

    /// The engine and the model must place every block at the same address.
    fn agree<S: Strategy>(new: impl Fn() -> S, model: impl Fn() -> Plain) {
        for seed in 0..10 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut engine = new();
            let mut model = model();
            let mut live = Vec::new();
            let mut origin = None;
            for step in 0..4_000 {
                // In waves, so that the heap fills and empties.
                let grows = random.random_bool(if (step / 500) % 2 == 0 { 0.6 } else { 0.4 });
                if grows || live.is_empty() {
                    let largest = if random.random_bool(0.1) { 3_000 } else { 120 };
                    let size = random.random_range(1..=largest);
                    let layout = Layout::from_size_align(size, 1).unwrap();
                    let block = engine.allocate(layout).unwrap().cast::<u8>();
                    let at = model.allocate((size + HEADER).div_ceil(UNIT));
                    let origin = *origin.get_or_insert(block.addr().get() - at * UNIT);
                    let place = (block.addr().get() - origin) / UNIT;
                    assert_eq!(place, at, "{:?} {:?}, request {step}", model.fit, model.area);
                    live.push((block, layout, at));
                } else {
                    let (block, layout, at) = live.swap_remove(random.random_range(0..live.len()));
                    // SAFETY: the block is live, has this layout, and is not used afterwards.
                    unsafe { engine.deallocate(block, layout) };
                    model.free(at);
                }
            }
            engine.audit().unwrap();
        }
    }

    #[test]
    fn pointer_decrements_place_blocks_as_the_plain_model_does() {
        for growth in [1, 64] {
            let reading = Reading { growth, ..Reading::OURS };
            agree(
                || LazyDecrement::new(growth * UNIT, Reserved::new(1 << 30), ()),
                || Plain::new(Fit::Lowest, Area::Decrements, reading),
            );
        }
    }

    #[test]
    fn lazy_fits_place_blocks_as_the_plain_model_does() {
        macro_rules! all {
            ($($engine:ident, $fit:ident, $new:ident;)*) => {$(
                for growth in [1, 64] {
                    let reading = Reading { growth, ..Reading::OURS };
                    macro_rules! agrees {
                        ($area:ident, $beside:ident) => {
                            agree(
                                || $engine::<$area, _>::new(growth * UNIT, Reserved::new(1 << 30), ()),
                                || Plain::$new(Fit::$fit, Area::$beside, reading),
                            )
                        };
                    }
                    agrees!(NoArea, None);
                    agrees!(Apart, Apart);
                    agrees!(Joining, Joins);
                    agrees!(Releasing, Releases);
                }
            )*};
        }
        all! {
            LazyFirstFit, First, new;
            LazyLowestFit, Lowest, new;
            LazyWorstFit, Worst, new;
            LazyBestFit, Best, new;
            CollectedFirstFit, First, collected;
            CollectedWorstFit, Worst, collected;
            CollectedBestFit, Best, collected;
        }
    }
}
