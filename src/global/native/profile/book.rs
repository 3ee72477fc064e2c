//! The data of a profile: call stacks with the sums of what each allocated, and the sampled blocks
//! that are live.
//!
//! ```text
//!  frames  | f3 f2 f1 main | f9 main | …          stacks  | first, depth, sums | …     index: hash → stack
//!  live    block's address → its bytes, its stack; granule's number → its live blocks
//! ```
//! A sample of s bytes adds 1/(1 − e^(−s/N)) blocks to the sums of its stack, and s times as many
//! bytes. When the block is freed, the same amounts are subtracted from the live sums. The sums are
//! integers, so additions and subtractions cancel exactly.

use super::grown::{Grown, Plain};
use crate::global::native::base::sampler;
use crate::words::scatter::place;

/// The number of return addresses kept of a stack; the innermost ones are kept.
pub(super) const DEPTH: usize = 64;

/// The fraction of a block in which sums count blocks.
const PARTS: u64 = 1 << 10;

/// Returns the whole number nearest to an amount, which is not negative.
fn rounded(amount: f64) -> u64 {
    (amount + 0.5) as u64
}

/// Estimated sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Number of samples; each stands for many blocks.
    samples: u64,
    /// Number of blocks, in units of 1/[`PARTS`].
    blocks: u64,
    /// Number of bytes.
    bytes: u64,
}

impl Sums {
    /// Returns the amounts that a sample of `size` bytes stands for, if the mean distance is `mean`
    /// bytes.
    fn of(size: usize, mean: usize) -> Self {
        let weight = 1.0 / sampler::chance(size, mean);
        let blocks = rounded(weight * PARTS as f64);
        Self { samples: 1, blocks, bytes: rounded(weight * size as f64) }
    }

    /// Adds the sums of other samples.
    fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.blocks += other.blocks;
        self.bytes += other.bytes;
    }

    /// Subtracts sums that were added before.
    fn subtract(&mut self, other: Self) {
        self.samples -= other.samples;
        self.blocks -= other.blocks;
        self.bytes -= other.bytes;
    }

    /// Returns the number of blocks, rounded.
    fn blocks(self) -> u64 {
        (self.blocks + PARTS / 2) / PARTS
    }
}

/// A call stack: its frames are `depth` entries of [`Book::frames`] from `first` on.
#[derive(Clone, Copy, Debug)]
struct Stack {
    /// The [hash](hash) of the frames.
    hash: u64,
    first: usize,
    depth: usize,
    /// What is in use.
    live: Sums,
    /// What was ever allocated.
    allocated: Sums,
}

// SAFETY: all fields are integers.
unsafe impl Plain for Stack {}

/// An entry of the hash table: a live block, or a granule with its number of live blocks. A key of
/// 0 marks a free entry.
#[derive(Clone, Copy, Debug)]
struct Live {
    /// The block's address, or the granule's [key](granule_key).
    key: usize,
    /// Bytes of a block; number of live blocks of a granule.
    size: usize,
    stack: u32,
}

// SAFETY: all fields are integers.
unsafe impl Plain for Live {}

/// A sampled block that was taken out of the book.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Taken {
    size: usize,
    stack: u32,
}

/// The profile.
#[derive(Debug)]
pub(super) struct Book {
    /// All stacks, by number.
    stacks: Grown<Stack>,
    /// The frames of all stacks, one stack behind the other.
    frames: Grown<usize>,
    /// A hash table of the stacks: numbers from 1 on, 0 for a free entry. At most half of it is
    /// used.
    index: Grown<u32>,
    /// A hash table with linear probing, by [`Live::key`]. At most half of it is used.
    live: Grown<Live>,
    /// Number of entries of `live` in use.
    keys: usize,
    /// Mean number of bytes between two samples.
    mean: usize,
    /// Number of samples dropped.
    dropped: u64,
}

/// Returns the key for a granule's count. It is odd, while the addresses of blocks are multiples of
/// 8.
fn granule_key(granule: usize) -> usize {
    2 * granule + 1
}

/// Returns the hash of a stack.
fn hash(calls: &[usize]) -> u64 {
    calls.iter().fold(calls.len() as u64, |hash, &call| {
        (hash ^ call as u64).wrapping_mul(0x9fb2_1c65_1e98_df25).rotate_left(29)
    })
}

impl Book {
    /// Makes a profile without samples.
    pub(super) const fn new() -> Self {
        Self {
            stacks: Grown::new(),
            frames: Grown::new(),
            index: Grown::new(),
            live: Grown::new(),
            keys: 0,
            mean: 1,
            dropped: 0,
        }
    }

    /// Starts an empty book for a new profile; `None`, and no change, if there is no memory.
    pub(super) fn begin(&mut self, mean: usize) -> Option<()> {
        let (index, live) = (Grown::zeros(1 << 10)?, Grown::zeros(1 << 10)?);
        *self = Self { index, live, mean, ..Self::new() };
        Some(())
    }

    /// Counts `samples` as dropped.
    pub(super) fn count_dropped(&mut self, samples: u64) {
        self.dropped += samples;
    }

    /// Adds a live block that is not in the book. `calls` has the innermost call first. `granule`
    /// is the number of the block's granule, if blocks are counted there. `None`, and no change, if
    /// there is no memory.
    pub(super) fn add(
        &mut self,
        block: usize,
        granule: Option<usize>,
        size: usize,
        calls: &[usize],
    ) -> Option<()> {
        self.make_room(2)?;
        let stack = self.stack(calls)?;
        let sums = Sums::of(size, self.mean);
        self.stacks.as_mut_slice().get_mut(stack as usize)?.allocated.add(sums);
        self.put(block, granule, Taken { size, stack });
        Some(())
    }

    /// Adds a block again that was taken out. Unlike [`add`](Self::add), counts no new
    /// allocation.
    pub(super) fn restore(
        &mut self,
        block: usize,
        granule: Option<usize>,
        taken: Taken,
    ) -> Option<()> {
        self.make_room(2)?;
        self.put(block, granule, taken);
        Some(())
    }

    /// Returns whether there ever was a profile.
    pub(super) fn has_begun(&self) -> bool {
        !self.index.as_slice().is_empty()
    }

    /// Puts a live block into the book; the caller has made room.
    fn put(&mut self, block: usize, granule: Option<usize>, taken: Taken) {
        let Taken { size, stack } = taken;
        if let Some(stack) = self.stacks.as_mut_slice().get_mut(stack as usize) {
            stack.live.add(Sums::of(size, self.mean));
        }
        self.insert(Live { key: block, size, stack });
        let Some(granule) = granule else { return };
        let key = granule_key(granule);
        match self.find(key) {
            Some(at) => self.live.as_mut_slice()[at].size += 1,
            None => self.insert(Live { key, size: 1, stack: 0 }),
        }
    }

    /// Takes a block out, and says whether it was the last one in its granule; `None` if the block
    /// is not in the book.
    pub(super) fn take(&mut self, block: usize, granule: Option<usize>) -> Option<(Taken, bool)> {
        let at = self.find(block)?;
        let Live { size, stack, .. } = self.live.as_slice()[at];
        self.remove(at);
        if let Some(stack) = self.stacks.as_mut_slice().get_mut(stack as usize) {
            stack.live.subtract(Sums::of(size, self.mean));
        }
        let taken = Taken { size, stack };
        let Some(at) = granule.and_then(|granule| self.find(granule_key(granule))) else {
            return Some((taken, false));
        };
        let count = &mut self.live.as_mut_slice()[at].size;
        *count -= 1;
        let last = *count == 0;
        if last {
            self.remove(at);
        }
        Some((taken, last))
    }

    /// Removes all live blocks, but keeps the sums. Calls `granule` for each granule with live
    /// blocks, and `block` for each live block.
    pub(super) fn close(&mut self, mut granule: impl FnMut(usize), mut block: impl FnMut(usize)) {
        for live in self.live.as_slice().iter().filter(|live| live.key > 0) {
            if live.key % 2 == 1 { granule(live.key / 2) } else { block(live.key) }
        }
        self.live = Grown::new();
        self.keys = 0;
    }

    /// Returns the index of a key's entry in `live`.
    fn find(&self, key: usize) -> Option<usize> {
        let live = self.live.as_slice();
        if live.is_empty() || key == 0 {
            return None;
        }
        let mut at = place(key, live.len());
        while live[at].key != key {
            if live[at].key == 0 {
                return None;
            }
            at = (at + 1) & (live.len() - 1);
        }
        Some(at)
    }

    /// Inserts an entry; the caller has made room.
    fn insert(&mut self, entry: Live) {
        let live = self.live.as_mut_slice();
        let mut at = place(entry.key, live.len());
        while live[at].key != 0 {
            at = (at + 1) & (live.len() - 1);
        }
        live[at] = entry;
        self.keys += 1;
    }

    /// Removes an entry, and moves back the entries that it displaced (Knuth, vol. 3, §6.4,
    /// algorithm R).
    fn remove(&mut self, mut hole: usize) {
        let live = self.live.as_mut_slice();
        let within = live.len() - 1;
        let mut at = hole;
        loop {
            live[hole].key = 0;
            loop {
                at = (at + 1) & within;
                if live[at].key == 0 {
                    self.keys -= 1;
                    return;
                }
                // Checks whether the entry's own place is cyclically behind the hole, up to where
                // the entry is.
                let own = place(live[at].key, within + 1);
                if at.wrapping_sub(own) & within >= at.wrapping_sub(hole) & within {
                    break;
                }
            }
            live[hole] = live[at];
            hole = at;
        }
    }

    /// Makes room for this many further entries in `live`; `None`, and no change, if there is no
    /// memory.
    fn make_room(&mut self, keys: usize) -> Option<()> {
        let len = self.live.as_slice().len();
        if 2 * (self.keys + keys) <= len {
            return Some(());
        }
        let larger = Grown::zeros((2 * len).max(1 << 10))?;
        let smaller = core::mem::replace(&mut self.live, larger);
        self.keys = 0;
        for &entry in smaller.as_slice().iter().filter(|entry| entry.key > 0) {
            self.insert(entry);
        }
        Some(())
    }

    /// Returns the number of a stack, and adds the stack if it is new; `None` if there is no memory
    /// for it.
    fn stack(&mut self, calls: &[usize]) -> Option<u32> {
        let hash = hash(calls);
        let stacks = self.stacks.as_slice();
        if 2 * (stacks.len() + 1) > self.index.as_slice().len() {
            let mut index = Grown::zeros((2 * self.index.as_slice().len()).max(1 << 10))?;
            for (number, stack) in stacks.iter().enumerate() {
                index_stack(index.as_mut_slice(), stack.hash, number);
            }
            self.index = index;
        }
        let index = self.index.as_slice();
        let mut at = hash as usize & (index.len() - 1);
        while let Some(number) = index[at].checked_sub(1) {
            let stack = &stacks[number as usize];
            if stack.hash == hash && self.calls(stack) == calls {
                return Some(number);
            }
            at = (at + 1) & (index.len() - 1);
        }
        let number = stacks.len();
        let first = self.frames.as_slice().len();
        let none = Sums::default();
        let stack = Stack { hash, first, depth: calls.len(), live: none, allocated: none };
        self.frames.extend(calls)?;
        if self.stacks.push(stack).is_none() {
            self.frames.truncate(first);
            return None;
        }
        index_stack(self.index.as_mut_slice(), hash, number);
        Some(number as u32)
    }

    /// Returns the frames of a stack.
    fn calls(&self, stack: &Stack) -> &[usize] {
        &self.frames.as_slice()[stack.first..stack.first + stack.depth]
    }

    /// Returns a copy of the stacks and sums; `None` if there is no memory for it.
    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        Some(Snapshot {
            stacks: Grown::copy_of(self.stacks.as_slice())?,
            frames: Grown::copy_of(self.frames.as_slice())?,
            mean: self.mean,
            dropped: self.dropped,
        })
    }
}

/// Adds a stack's number to an index with room for it.
fn index_stack(index: &mut [u32], hash: u64, number: usize) {
    let mut at = hash as usize & (index.len() - 1);
    while index[at] != 0 {
        at = (at + 1) & (index.len() - 1);
    }
    index[at] = number as u32 + 1;
}

/// A profile at one moment.
#[derive(Debug)]
pub(in super::super::super) struct Snapshot {
    stacks: Grown<Stack>,
    frames: Grown<usize>,
    mean: usize,
    dropped: u64,
}

/// The estimates for one stack.
#[derive(Clone, Copy, Debug)]
pub(in super::super::super) struct Site<'a> {
    /// The return addresses, the innermost first.
    pub(in super::super::super) calls: &'a [usize],
    /// Number of samples.
    pub(in super::super::super) samples: u64,
    pub(in super::super::super) live_blocks: u64,
    pub(in super::super::super) live_bytes: u64,
    pub(in super::super::super) allocated_blocks: u64,
    pub(in super::super::super) allocated_bytes: u64,
}

impl Snapshot {
    /// Yields the estimates for each stack.
    pub(in super::super::super) fn sites(&self) -> impl Iterator<Item = Site<'_>> {
        self.stacks.as_slice().iter().map(|stack| Site {
            calls: &self.frames.as_slice()[stack.first..stack.first + stack.depth],
            samples: stack.allocated.samples,
            live_blocks: stack.live.blocks(),
            live_bytes: stack.live.bytes,
            allocated_blocks: stack.allocated.blocks(),
            allocated_bytes: stack.allocated.bytes,
        })
    }

    /// Returns the mean number of bytes between two samples.
    pub(in super::super::super) fn bytes_per_sample(&self) -> usize {
        self.mean
    }

    /// Returns the number of samples for which there was no memory.
    pub(in super::super::super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the addresses of all stacks, sorted and without duplicates; `None` if there is no
    /// memory for them.
    pub(super) fn addresses(&self) -> Option<Grown<usize>> {
        let mut addresses = Grown::copy_of(self.frames.as_slice())?;
        let all = addresses.as_mut_slice();
        all.sort_unstable();
        let mut distinct = 0;
        for at in 0..all.len() {
            if at == 0 || all[at] != all[distinct - 1] {
                all[distinct] = all[at];
                distinct += 1;
            }
        }
        addresses.truncate(distinct);
        Some(addresses)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Small blocks, mappings and granules in a row get places far apart, so a lookup takes few
    /// steps.
    #[test]
    fn keys_are_spread() {
        const LEN: usize = 1 << 10;
        let mut book = Book::new();
        book.begin(100).expect("there is memory");
        assert_eq!([book.live.as_slice().len(), book.index.as_slice().len()], [LEN; 2]);
        for step in [16, 32, 48, 1024, 4096, 1 << 16, granule_key(1) - granule_key(0)] {
            let places = (1..=LEN / 2).map(|key| place(step * key, LEN));
            let distinct: std::collections::HashSet<usize> = places.collect();
            assert!(distinct.len() > LEN / 4, "{step}: {}", distinct.len());
            assert!(distinct.into_iter().all(|place| place < LEN));
        }
    }

    /// The number of blocks is rounded to a whole one.
    #[test]
    fn blocks_are_whole() {
        for (parts, blocks) in [(0, 0), (511, 0), (512, 1), (1024, 1), (5 * 1024 + 511, 5)] {
            assert_eq!(Sums { blocks: parts, ..Sums::default() }.blocks(), blocks, "{parts}");
        }
    }

    /// C's `free` may be called with null, which is the key of a free entry.
    #[test]
    fn null_is_not_in_the_book() {
        let mut book = Book::new();
        assert!(book.take(0, None).is_none());
        book.begin(100).expect("there is memory");
        book.add(16, Some(0), 40, &[1]).expect("there is memory");
        let before = book.keys;
        assert!(book.take(0, None).is_none());
        assert_eq!(book.keys, before);
        assert!(book.take(16, Some(0)).is_some_and(|(_, last)| last));
    }

    /// Dropped samples are counted until the next profile.
    #[test]
    fn dropped_samples_are_counted() {
        let mut book = Book::new();
        book.begin(100).expect("there is memory");
        (0..3).for_each(|samples| book.count_dropped(samples));
        assert_eq!(book.snapshot().map(|snapshot| snapshot.dropped()), Some(3));
        book.begin(100).expect("there is memory");
        assert_eq!(book.snapshot().map(|snapshot| snapshot.dropped()), Some(0));
    }

    /// Each of many stacks is found again, and reported with its calls.
    #[test]
    fn every_stack_is_kept_once() {
        let mut book = Book::new();
        book.begin(100).expect("there is memory");
        let stack = |number: usize| -> Vec<usize> {
            (0..=number % 9).map(|call| 1 + number * 31 + call).collect()
        };
        for round in 0..2 {
            for number in 0..5_000 {
                let block = 16 * (1 + number + 5_000 * round);
                book.add(block, None, 40, &stack(number)).expect("there is memory");
                let (taken, _) = book.take(block, None).expect("it is there");
                assert_eq!((taken.size, taken.stack as usize), (40, number));
            }
        }
        let snapshot = book.snapshot().expect("there is memory");
        let told: Vec<_> =
            snapshot.sites().map(|site| (site.calls.to_vec(), site.samples)).collect();
        let expected: Vec<_> = (0..5_000).map(|number| (stack(number), 2)).collect();
        assert_eq!(told, expected);
    }

    /// Compares a book with a map while blocks come and go; many of their hashes are adjacent.
    #[test]
    fn a_book_agrees_with_a_map() {
        let mut book = Book::new();
        book.begin(100).expect("there is memory");
        let mut blocks: HashMap<usize, (usize, usize)> = HashMap::new();
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(0xf135_7aea_2e62_a9c5).wrapping_add(1);
            (state >> 33) % below
        };
        for round in 0..40_000 {
            let block = 16 * (1 + random(5000) as usize);
            let granule = Some(block / 1024);
            let beside = |blocks: &HashMap<usize, _>| {
                blocks.keys().filter(|other| **other / 1024 == block / 1024).count()
            };
            if let Some((size, stack)) = blocks.remove(&block) {
                assert!(book.find(block).is_some());
                let (taken, last) = book.take(block, granule).expect("it is there");
                assert_eq!((taken.size, taken.stack as usize), (size, stack), "round {round}");
                assert_eq!(last, beside(&blocks) == 0);
                assert!(book.take(block, granule).is_none());
            } else {
                let (size, stack) = (1 + random(300) as usize, random(700) as usize);
                let calls: Vec<usize> = (0..1 + stack % 7).map(|call| stack * 31 + call).collect();
                book.add(block, granule, size, &calls).expect("there is memory");
                let (taken, _) = book.take(block, granule).expect("it is there");
                book.restore(block, granule, taken).expect("there is room");
                blocks.insert(block, (size, taken.stack as usize));
            }
        }
        let snapshot = book.snapshot().expect("there is memory");
        let live = blocks.values().fold(Sums::default(), |mut sums, &(size, _)| {
            sums.add(Sums::of(size, 100));
            sums
        });
        assert!(live.samples > 1000);
        assert_eq!(snapshot.sites().map(|site| site.live_bytes).sum::<u64>(), live.bytes);
        assert_eq!(snapshot.sites().count(), 700);
        assert!(snapshot.sites().all(|site| site.allocated_bytes >= site.live_bytes));
        for block in blocks.into_keys() {
            assert!(book.take(block, Some(block / 1024)).is_some());
        }
        assert_eq!(book.keys, 0, "no granule is left");
        let snapshot = book.snapshot().expect("there is memory");
        assert!(snapshot.sites().all(|site| site.live_bytes == 0 && site.live_blocks == 0));
        let addresses = snapshot.addresses().expect("there is memory");
        assert!(addresses.as_slice().is_sorted_by(|a, b| a < b));
    }

    /// A block that was taken out before the profile ended can be added again.
    #[test]
    fn a_closed_book_takes_blocks() {
        let mut book = Book::new();
        book.begin(100).expect("there is memory");
        book.add(16, Some(0), 40, &[1]).expect("there is memory");
        book.add(32, None, 40, &[1]).expect("there is memory");
        let (taken, _) = book.take(16, Some(0)).expect("it is there");
        let mut closed = Vec::new();
        book.close(|_| panic!("no granule is left"), |block| closed.push(block));
        assert_eq!(closed, [32]);
        assert!(book.find(32).is_none() && book.take(32, None).is_none());
        book.restore(16, Some(0), taken).expect("there is memory");
        assert!(book.take(16, Some(0)).is_some_and(|(taken, last)| taken.size == 40 && last));
    }

    /// When there is no memory for more entries, a new one is refused and nothing changes.
    #[test]
    fn entries_without_room_are_refused() {
        let mut book = Book::new();
        book.begin(1).expect("there is memory");
        let mut added = 0_usize;
        while book.add(16 * (added + 1), None, 16, &[1, 2]).is_some() {
            added += 1;
            assert!(added < 1 << 24);
        }
        assert!(added > 1 << 19 && book.find(16 * (added + 1)).is_none());
        let snapshot = book.snapshot().expect("there is memory");
        assert_eq!(snapshot.sites().map(|site| site.samples).sum::<u64>(), added as u64);
    }
}
