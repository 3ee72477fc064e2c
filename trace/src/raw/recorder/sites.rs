//! The call stacks in a log: a tree whose nodes are recorded once, found by a hash.
//!
//! A node is a frame below its parent, the outer frame. Its key is a 64-bit hash of all return
//! addresses from the outermost to its own; equal hashes count as equal stacks. The table has a few
//! levels of open addressing, each four times as long as the one before. A lookup begins with the
//! longest level. A node that it finds in another level is also entered there, so that the next
//! lookup ends there. Nothing is ever moved, and no thread waits: a thread that finds a node
//! claimed but not yet numbered records it again under another number.
//!
//! Like the log, the table is in memory that a forked child finds empty. The levels are not
//! inherited.

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};

use super::system::{self, Errno};
use crate::raw::names::DEEPEST;
use crate::raw::side;

/// Why a stack ends at its outermost frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outermost {
    /// It is the thread's first frame.
    First,
    /// The stack is deeper than requested.
    Cut,
    /// The caller could not be determined.
    Lost,
}

/// A loaded file.
#[derive(Clone, Copy, Debug)]
pub struct Loaded<'a> {
    /// Start address.
    pub start: u64,
    /// End address.
    pub end: u64,
    /// The difference between an address in memory and the address in the file.
    pub bias: u64,
    /// The file's build id; empty if it has none.
    pub build_id: &'a [u8],
    /// The directory that a relative path starts from.
    pub directory: &'a [u8],
    /// Its path; empty for the program itself.
    pub path: &'a [u8],
}

/// Calls back with the loaded file that contains an address, if there is one.
pub type TellsLoaded = fn(u64, &mut dyn FnMut(&Loaded<'_>));

/// A frame of a call stack.
#[derive(Clone, Copy, Debug)]
pub struct StackFrame {
    /// The return address.
    pub address: u64,
    /// The [identity](Stack::hash_of) of the stack from the outermost frame to this one.
    pub hash: u64,
}

/// The call stack of a record.
#[derive(Clone, Copy)]
pub struct Stack<'a> {
    /// Number of frames.
    pub len: usize,
    /// Returns a frame by its number, the outermost being 0.
    pub frame: &'a dyn Fn(usize) -> StackFrame,
    /// Why there are no further frames.
    pub outermost: Outermost,
    /// Changes whenever a file was unloaded: the same address may then be another function.
    pub generation: u64,
    /// Reports the loaded file that contains an address.
    pub loaded: TellsLoaded,
}

impl Stack<'_> {
    /// Returns the initial value of a stack's hash; never 0.
    #[inline]
    #[must_use]
    pub fn seed(generation: u64, outermost: Outermost) -> u64 {
        Self::hash_of(generation << 2, outermost as u64 + 1)
    }

    /// Extends the identity of a stack by a frame.
    #[inline]
    #[must_use]
    pub fn hash_of(callers: u64, address: u64) -> u64 {
        let mixed = (callers ^ address).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    }

    /// Returns the frames of a stack with these return addresses, the outermost first.
    pub fn frames(
        generation: u64,
        outermost: Outermost,
        addresses: impl IntoIterator<Item = u64>,
    ) -> impl Iterator<Item = StackFrame> {
        let seed = Self::seed(generation, outermost);
        addresses.into_iter().scan(seed, |hash, address| {
            *hash = Self::hash_of(*hash, address);
            Some(StackFrame { address, hash: *hash })
        })
    }
}

impl core::fmt::Debug for Stack<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Stack").field("len", &self.len).finish_non_exhaustive()
    }
}

/// A log to which new nodes and files are appended.
pub(super) trait Append {
    /// Appends a record of `len` words.
    fn append(&self, len: usize, word: impl Fn(usize) -> u64);
}

/// Addresses that stand for the callers beyond the outermost frame.
pub(in crate::raw) const CUT: u64 = 1;
pub(in crate::raw) const LOST: u64 = 2;

struct Entry {
    /// 0: free.
    hash: AtomicU64,
    /// 0: not numbered yet.
    node: AtomicU64,
}

const FIRST_LOG2: usize = 12;
const LEVELS: usize = 8;
const MODULES: usize = 1024;

pub(super) struct Sites {
    levels: [AtomicPtr<Entry>; LEVELS],
    /// The longest level in use.
    level: AtomicUsize,
    /// Number of entries used in it, approximately.
    used: AtomicUsize,
    /// Number of nodes.
    nodes: AtomicU64,
    /// Start and end of the files recorded.
    modules: [(AtomicU64, AtomicU64); MODULES],
    known: AtomicUsize,
    /// The generation to which `known` applies.
    generation: AtomicU64,
}

fn level_len(level: usize) -> usize {
    1 << (FIRST_LOG2 + 2 * level)
}

/// Returns the entry at which the search for a hash begins, in a level of `mask + 1` entries.
#[inline]
fn place(hash: u64, mask: usize) -> usize {
    (hash >> 20) as usize & mask
}

impl Sites {
    /// Returns the number of the stack's node, which is recorded if it is new; 0 if it has no
    /// frames.
    #[inline]
    pub(super) fn node(&self, to: &impl Append, stack: &Stack<'_>) -> u64 {
        let Some(last) = stack.len.checked_sub(1) else { return 0 };
        match self.find((stack.frame)(last).hash) {
            0 => self.enter(to, stack),
            node => node,
        }
    }

    /// Returns the number of the node with this hash; 0 if there is none, or it is not numbered
    /// yet.
    #[inline]
    fn find(&self, hash: u64) -> u64 {
        let newest = self.level.load(Acquire).min(LEVELS - 1);
        match self.find_in(newest, hash) {
            0 if newest > 0 => self.find_below(newest, hash),
            node => node,
        }
    }

    /// Searches the levels before the newest one, and copies a node found there into the newest.
    #[cold]
    fn find_below(&self, newest: usize, hash: u64) -> u64 {
        let found = (0..newest).rev().map(|level| self.find_in(level, hash)).find(|&node| node > 0);
        let Some(node) = found else { return 0 };
        let _errno = Errno::keep();
        if let Some(entry) = self.claim(hash) {
            entry.node.store(node, Release);
        }
        node
    }

    #[inline]
    fn find_in(&self, level: usize, hash: u64) -> u64 {
        let base = self.levels[level].load(Acquire);
        if base.is_null() {
            return 0;
        }
        let mask = level_len(level) - 1;
        let mut at = place(hash, mask);
        for _ in 0..mask {
            // SAFETY: a published level is `level_len` entries long, zeroed at first, and is never
            // removed.
            let entry = unsafe { &*base.add(at) };
            match entry.hash.load(Acquire) {
                0 => return 0,
                found if found == hash => return entry.node.load(Acquire),
                _ => at = (at + 1) & mask,
            }
        }
        0
    }

    /// Records the new frames of the stack, from the outermost on; the callers beyond the
    /// [deepest](DEEPEST) one are cut.
    #[cold]
    fn enter(&self, to: &impl Append, stack: &Stack<'_>) -> u64 {
        let _errno = Errno::keep();
        // Find the innermost known frame. (The last one was just found to be unknown.)
        let frame = stack.frame;
        let known = |at: usize| match self.find(frame(at).hash) {
            0 => None,
            node => Some((node, at + 1)),
        };
        let outermost = stack.len.saturating_sub(DEEPEST);
        let known = (outermost..stack.len - 1).rev().find_map(known);
        let (mut node, first) = known.unwrap_or_else(|| match outermost {
            0 => (self.beyond(to, stack), 0),
            _ => (self.beyond(to, &Stack { outermost: Outermost::Cut, ..*stack }), outermost),
        });
        for at in first..stack.len {
            let StackFrame { address, hash } = frame(at);
            node = self.add(to, stack, hash, node, address);
        }
        node
    }

    /// Returns the node for the callers beyond the outermost frame; 0 if it is the thread's first.
    fn beyond(&self, to: &impl Append, stack: &Stack<'_>) -> u64 {
        let address = match stack.outermost {
            Outermost::First => return 0,
            Outermost::Cut => CUT,
            Outermost::Lost => LOST,
        };
        let hash = Stack::seed(stack.generation, stack.outermost);
        match self.find(hash) {
            0 => self.add(to, stack, hash, 0, address),
            node => node,
        }
    }

    fn add(
        &self,
        to: &impl Append,
        stack: &Stack<'_>,
        hash: u64,
        parent: u64,
        address: u64,
    ) -> u64 {
        if address > LOST {
            self.see_module(to, stack, address);
        }
        let node = self.nodes.fetch_add(1, Relaxed) + 1;
        to.append(3, |at| side::node(node, parent, address)[at]);
        // Published only after it was recorded, so any record that names the node comes later in
        // the log.
        if let Some(entry) = self.claim(hash) {
            entry.node.store(node, Release);
        }
        node
    }

    /// Claims an entry for a hash; `None` if the table cannot grow, or another thread is claiming
    /// it.
    fn claim(&self, hash: u64) -> Option<&Entry> {
        let mut level = self.level.load(Acquire).min(LEVELS - 1);
        if self.used.fetch_add(1, Relaxed) > level_len(level) / 2
            && level + 1 < LEVELS
            && self.level.compare_exchange(level, level + 1, AcqRel, Acquire).is_ok()
        {
            self.used.store(0, Relaxed);
            level += 1;
        }
        let base = self.level_base(level)?;
        let mask = level_len(level) - 1;
        let mut at = place(hash, mask);
        for _ in 0..mask {
            // SAFETY: as in `find`.
            let entry = unsafe { &*base.add(at) };
            match entry.hash.compare_exchange(0, hash, AcqRel, Acquire) {
                Ok(_) => return Some(entry),
                Err(found) if found == hash => return None,
                Err(_) => at = (at + 1) & mask,
            }
        }
        None
    }

    fn level_base(&self, level: usize) -> Option<*mut Entry> {
        let base = self.levels[level].load(Acquire);
        if !base.is_null() {
            return Some(base);
        }
        let bytes = level_len(level) * size_of::<Entry>();
        let ours = system::map_zeros(bytes)?;
        system::not_in_children(ours, bytes);
        let new: *mut Entry = ours.as_ptr().cast();
        match self.levels[level].compare_exchange(ptr::null_mut(), new, AcqRel, Acquire) {
            Ok(_) => Some(new),
            Err(theirs) => {
                // SAFETY: mapped above, and never published.
                unsafe { system::unmap(ours, bytes) };
                Some(theirs)
            }
        }
    }

    /// Records the file that contains an address, unless it is recorded already.
    fn see_module(&self, to: &impl Append, stack: &Stack<'_>, address: u64) {
        if self.generation.swap(stack.generation, AcqRel) != stack.generation {
            self.known.store(0, Release);
        }
        let known = self.known.load(Acquire).min(MODULES);
        let lies_in = |(start, end): &(AtomicU64, AtomicU64)| {
            (start.load(Acquire)..end.load(Acquire)).contains(&address)
        };
        if self.modules[..known].iter().any(lies_in) {
            return;
        }
        (stack.loaded)(address, &mut |module| {
            let relative = !module.path.is_empty() && module.path[0] != b'/';
            let directory: &[u8] = if relative { module.directory } else { b"" };
            let slash = usize::from(!directory.is_empty());
            let len = directory.len() + slash + module.path.len();
            let words = side::module_words(module.build_id, len);
            let is_somewhere = module.start < module.end && module.end < side::END;
            if words > side::MOST_FURTHER || !is_somewhere {
                return;
            }
            let byte = |at: usize| match at.checked_sub(directory.len() + slash) {
                Some(at) => module.path[at],
                None => directory.get(at).copied().unwrap_or(b'/'),
            };
            let bounds = [module.start, module.end, module.bias];
            to.append(words, |at| side::module_word(at, bounds, module.build_id, len, byte));
            if let Some((start, end)) = self.modules.get(known)
                && self.known.compare_exchange(known, known + 1, AcqRel, Acquire).is_ok()
            {
                // Empty while it changes, whatever it contained.
                start.store(u64::MAX, Release);
                end.store(module.end, Release);
                start.store(module.start, Release);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};
    use std::sync::Mutex;

    use super::*;

    /// The appended records, except modules: node, parent, address.
    #[derive(Default)]
    struct Nodes(Mutex<HashMap<u64, (u64, u64)>>);

    impl Append for Nodes {
        fn append(&self, len: usize, word: impl Fn(usize) -> u64) {
            let words: Vec<u64> = (0..len).map(word).collect();
            let Ok(side::Side::Node { node, parent, address }) =
                side::decode(words[0], &words[1..])
            else {
                panic!("{words:x?}")
            };
            assert_eq!(self.0.lock().unwrap().insert(node, (parent, address)), None);
        }
    }

    impl Nodes {
        /// Returns the addresses of a stack, outermost first.
        fn addresses_of(&self, mut node: u64) -> Vec<u64> {
            let nodes = self.0.lock().unwrap();
            let mut addresses = Vec::new();
            while node != 0 {
                let (parent, address) = nodes[&node];
                addresses.insert(0, address);
                node = parent;
            }
            addresses
        }
    }

    /// Some were equal, and one was 0, which stands for a free entry: after two unloaded files the
    /// callers beyond the depth were recorded again with each new outermost frame.
    #[test]
    fn each_kind_of_end_in_each_generation_has_a_seed_of_its_own() {
        let ends = [Outermost::First, Outermost::Cut, Outermost::Lost];
        let seeds = (0..100).flat_map(|generation| ends.map(|end| Stack::seed(generation, end)));
        let seeds: HashSet<u64> = seeds.collect();
        assert_eq!((seeds.len(), seeds.contains(&0)), (300, false));

        let (sites, nodes) = (sites(), Nodes::default());
        for outermost in 0..10 {
            let addresses = [0x1000 + outermost, 0x2000];
            number_in(&sites, &nodes, &addresses, Outermost::Cut, 2, |_, _| {});
        }
        assert_eq!(nodes.0.lock().unwrap().len(), 1 + 10 * 2);
    }

    /// (Regression: as many frames as there are numbers were asked for, one after the other.)
    #[test]
    fn a_stack_is_cut_at_the_deepest_frame() {
        let (sites, nodes) = (sites(), Nodes::default());
        let frame = |at: usize| StackFrame { address: at as u64, hash: at as u64 | 1 << 63 };
        let enter = |len| {
            let outermost = Outermost::First;
            let loaded = |_: u64, _: &mut dyn FnMut(&Loaded<'_>)| {};
            let stack = Stack { len, frame: &frame, outermost, generation: 0, loaded };
            nodes.addresses_of(sites.node(&nodes, &stack))
        };
        // An address has 61 bits.
        const MOST: usize = usize::MAX >> 4;
        let innermost = (MOST - DEEPEST) as u64..MOST as u64;
        assert!(enter(MOST).into_iter().eq([CUT].into_iter().chain(innermost)));
        let whole = 100..100 + DEEPEST as u64;
        assert!(enter(100 + DEEPEST).into_iter().eq([CUT].into_iter().chain(whole)));
        assert_eq!(enter(3), [0, 1, 2]);
    }

    /// Enough for the table to grow by two levels.
    const STACKS: u64 = if cfg!(miri) { 150 } else { 30_000 };

    fn sites() -> Box<Sites> {
        // SAFETY: zero is a valid value of every field.
        unsafe { Box::new_zeroed().assume_init() }
    }

    /// Returns the number of a stack, in a program without files.
    fn number(sites: &Sites, nodes: &Nodes, addresses: &[u64], outermost: Outermost) -> u64 {
        number_in(sites, nodes, addresses, outermost, 0, |_, _| {})
    }

    /// Returns the number of a stack after `generation` files were unloaded.
    fn number_in(
        sites: &Sites,
        to: &impl Append,
        addresses: &[u64],
        outermost: Outermost,
        generation: u64,
        loaded: TellsLoaded,
    ) -> u64 {
        let frames: Vec<_> =
            Stack::frames(generation, outermost, addresses.iter().copied()).collect();
        let frame = |at: usize| frames[at];
        let stack = Stack { len: frames.len(), frame: &frame, outermost, generation, loaded };
        assert_eq!(format!("{stack:?}"), format!("Stack {{ len: {}, .. }}", addresses.len()));
        sites.node(to, &stack)
    }

    /// The appended records of files: start and path.
    #[derive(Default)]
    struct Files(Mutex<Vec<(u64, Vec<u8>)>>);

    impl Append for Files {
        fn append(&self, len: usize, word: impl Fn(usize) -> u64) {
            let words: Vec<u64> = (0..len).map(word).collect();
            assert_eq!(side::further(words[0]), Some(len - 1));
            if let Ok(side::Side::Module { start, path, .. }) = side::decode(words[0], &words[1..])
            {
                self.0.lock().unwrap().push((start, path));
            }
        }
    }

    impl Files {
        /// Enters a stack of one frame for each address; returns the files recorded for them.
        fn recorded(
            &self,
            sites: &Sites,
            addresses: &[u64],
            generation: u64,
            loaded: TellsLoaded,
        ) -> Vec<(u64, Vec<u8>)> {
            for &address in addresses {
                number_in(sites, self, &[address], Outermost::First, generation, loaded);
            }
            std::mem::take(&mut self.0.lock().unwrap())
        }
    }

    /// Returns a file of 4 KiB that was started in `/home`.
    fn file<'a>(start: u64, path: &'a [u8]) -> Loaded<'a> {
        let (end, bias) = (start + 0x1000, start);
        Loaded { start, end, bias, build_id: b"", directory: b"/home", path }
    }

    /// The program itself, a file with its full path, and one with a relative path.
    const THREE_FILES: TellsLoaded = |address, tell| match address >> 12 {
        1 => tell(&file(0x1000, b"")),
        2 => tell(&file(0x2000, b"/lib/c.so")),
        3 => tell(&file(0x3000, b"lib/d.so")),
        0 => panic!("{address} stands for no address"),
        _ => {}
    };

    /// A file is recorded at its first address; again only after a file was unloaded.
    #[test]
    fn a_file_is_recorded_with_its_full_path() {
        let (sites, files) = (sites(), Files::default());
        let addresses = [0x1fff, 0x2000, 0x1000, 0x3800, 0x2fff, 0x3000, 0x9000];
        let all = [
            (0x1000, b"".to_vec()),
            (0x2000, b"/lib/c.so".to_vec()),
            (0x3000, b"/home/lib/d.so".to_vec()),
        ];
        assert_eq!(files.recorded(&sites, &addresses, 0, THREE_FILES), all);
        assert_eq!(files.recorded(&sites, &[0x1800, 0x2800], 0, THREE_FILES), []);
        assert_eq!(files.recorded(&sites, &addresses, 1, THREE_FILES), all);
        assert_eq!(files.recorded(&sites, &[0x1800, 0x2800], 1, THREE_FILES), []);
        for outermost in [Outermost::Cut, Outermost::Lost] {
            number_in(&sites, &files, &[0x1000], outermost, 1, THREE_FILES);
        }
    }

    /// A file's record has at most 4,095 words: four, and the path, seven bytes to a word.
    #[test]
    fn a_file_whose_path_does_not_fit_a_record_is_left_out() {
        const LONGEST: usize = 4091 * 7;
        static PATH: [u8; LONGEST + 1] = [b'/'; LONGEST + 1];
        let (sites, files) = (sites(), Files::default());
        let longest: TellsLoaded = |_, tell| tell(&file(0x1000, &PATH[..LONGEST]));
        let longer: TellsLoaded = |_, tell| tell(&file(0x2000, &PATH));
        assert_eq!(files.recorded(&sites, &[0x2000], 0, longer), []);
        assert_eq!(files.recorded(&sites, &[0x1000], 0, longest), [(0x1000, vec![b'/'; LONGEST])]);
    }

    /// A reader would refuse the rest of the log. In a record an address has 61 bits.
    #[test]
    fn a_file_without_addresses_is_left_out() {
        let (sites, files) = (sites(), Files::default());
        let empty: TellsLoaded = |_, tell| tell(&Loaded { end: 0x2000, ..file(0x2000, b"/a") });
        let ends_early: TellsLoaded = |_, tell| tell(&Loaded { end: 1, ..file(0x2000, b"/a") });
        let too_high: TellsLoaded = |_, tell| tell(&Loaded { end: 1 << 61, ..file(0x2000, b"/a") });
        for loaded in [empty, ends_early, too_high] {
            assert_eq!(files.recorded(&sites, &[0x2000], 0, loaded), []);
        }
    }

    /// Each level is half full before the next is begun, four times as long.
    #[test]
    #[cfg_attr(miri, ignore = "takes Miri long; `stacks_are_recorded_exactly` does the same")]
    fn the_table_grows_when_it_is_half_full() {
        let (sites, nodes) = (sites(), Nodes::default());
        let mut level_with = |count: u64| {
            let known = nodes.0.lock().unwrap().len() as u64;
            for address in known..count {
                number(&sites, &nodes, &[0x1000 + address], Outermost::First);
            }
            sites.level.load(Relaxed)
        };
        assert_eq!([2049, 2050, 10_243, 10_244].map(&mut level_with), [0, 1, 1, 2]);
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    #[cfg_attr(miri, ignore = "fills a gibibyte with Miri")]
    fn the_last_level_is_not_left() {
        let (sites, nodes) = (sites(), Nodes::default());
        sites.level.store(LEVELS - 1, Relaxed);
        sites.used.store(level_len(LEVELS - 1), Relaxed);
        let node = number(&sites, &nodes, &[0x1000], Outermost::First);
        assert_eq!(number(&sites, &nodes, &[0x1000], Outermost::First), node);
        assert_eq!(sites.level.load(Relaxed), LEVELS - 1);
    }

    /// Libraries are far apart, so addresses may differ in their high bits only.
    #[test]
    fn every_bit_of_an_address_spreads_stacks() {
        let callers = Stack::seed(0, Outermost::First);
        for step in [1, 16, 4096, 1 << 20, 1 << 32, 1 << 36] {
            let hash = |index: u64| Stack::hash_of(callers, 0x1000 + index * step);
            let places: HashSet<usize> =
                (0..1024).map(|index| place(hash(index), level_len(0) - 1)).collect();
            assert!(places.len() > 512, "{step}: {}", places.len());
        }
    }

    /// Returns the stack with this number, encoded in base 5.
    fn stack(mut number: u64) -> Vec<u64> {
        let mut addresses = vec![0x1000];
        while number > 0 {
            addresses.push(0x2000 + number % 5 * 8);
            number /= 5;
        }
        addresses
    }

    /// Each node is recorded once, and each stack is recorded exactly, while the table grows by two
    /// levels.
    #[test]
    fn stacks_are_recorded_exactly() {
        let (sites, nodes) = (sites(), Nodes::default());
        for round in 0..2 {
            for of in 0..STACKS {
                let addresses = stack(of * 7);
                let node = number(&sites, &nodes, &addresses, Outermost::First);
                assert_eq!(nodes.addresses_of(node), addresses, "{round}");
            }
        }
        assert!(cfg!(miri) || sites.level.load(Relaxed) >= 2);
        let nodes = nodes.0.into_inner().unwrap();
        let mut frames: Vec<_> = nodes.values().collect();
        frames.sort();
        frames.dedup();
        assert_eq!(frames.len(), nodes.len(), "none was recorded twice");
    }

    /// The same frames are another stack if something else lies beyond them.
    #[test]
    fn stacks_with_different_ends_are_distinguished() {
        let (sites, nodes) = (sites(), Nodes::default());
        for _ in 0..2 {
            for (outermost, beyond) in [
                (Outermost::First, None),
                (Outermost::Cut, Some(CUT)),
                (Outermost::Lost, Some(LOST)),
            ] {
                let node = number(&sites, &nodes, &[0x10, 0x20], outermost);
                let told: Vec<u64> = beyond.into_iter().chain([0x10, 0x20]).collect();
                assert_eq!(nodes.addresses_of(node), told);
                assert_eq!(number(&sites, &nodes, &[], outermost), 0);
            }
        }
        assert_eq!(nodes.0.into_inner().unwrap().len(), 8);
    }

    /// Threads that enter the same stacks concurrently all record them exactly.
    #[test]
    fn threads_do_not_wait_for_each_other() {
        let (sites, nodes) = (sites(), Nodes::default());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (sites, nodes) = (&sites, &nodes);
                scope.spawn(move || {
                    for of in 0..STACKS * 2 / 3 {
                        let addresses = stack(of * 3 + thread % 2);
                        let node = number(sites, nodes, &addresses, Outermost::First);
                        assert!(node > 0);
                        if of % 16 == 0 {
                            assert_eq!(nodes.addresses_of(node), addresses);
                        }
                    }
                });
            }
        });
    }
}
