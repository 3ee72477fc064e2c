//! The call stacks a log knows: a tree whose nodes are recorded once, found by a hash.
//!
//! A node is a frame below its parent, the outer frame. It is found by a hash of all return
//! addresses from the outermost to its own, 64 bits, which is taken for its identity. The table is
//! a few levels of open addressing, each four times as long as the one before; a lookup begins with
//! the longest. Nothing is ever moved and nobody waits: whoever finds a node claimed and not yet
//! numbered records it again under another number.
//!
//! It lies with the log in memory that a forked child finds empty. The levels are not inherited.

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};

use super::system::{self, Errno};
use crate::raw::side;

/// Why the outermost frame of a stack is not the thread's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outermost {
    /// It is.
    First,
    /// The stack is deeper than was asked for.
    Cut,
    /// Nothing tells who called it.
    Lost,
}

/// A loaded file.
#[derive(Clone, Copy, Debug)]
pub struct Loaded<'a> {
    /// Where it begins and ends.
    pub start: u64,
    /// The end.
    pub end: u64,
    /// What is to be taken from an address to get that in the file.
    pub bias: u64,
    /// The file's build id; empty if it has none.
    pub build_id: &'a [u8],
    /// The directory that a relative path starts from.
    pub directory: &'a [u8],
    /// Its path; empty for the program itself.
    pub path: &'a [u8],
}

/// Calls back with the loaded file that an address lies in, if one does.
pub type TellsLoaded = fn(u64, &mut dyn FnMut(&Loaded<'_>));

/// The call stack of a record.
#[derive(Clone, Copy)]
pub struct Stack<'a> {
    /// Return addresses, the innermost first.
    pub addresses: &'a [u64],
    /// What lies beyond.
    pub outermost: Outermost,
    /// Changes whenever a file was unloaded: the same address may then be another function.
    pub generation: u64,
    /// Tells the loaded file that an address lies in.
    pub loaded: TellsLoaded,
}

impl core::fmt::Debug for Stack<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Stack").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// Where what is new is recorded.
pub(super) trait Append {
    /// Appends a record of `len` words.
    fn append(&self, len: usize, word: impl Fn(usize) -> u64);
}

/// Addresses that stand for what lies beyond the outermost frame.
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
    /// Entries used in it, about.
    used: AtomicUsize,
    /// Nodes numbered.
    nodes: AtomicU64,
    /// Start and end of the files recorded.
    modules: [(AtomicU64, AtomicU64); MODULES],
    known: AtomicUsize,
    /// The generation that `known` is of.
    generation: AtomicU64,
}

fn mix(hash: u64, address: u64) -> u64 {
    let mixed = (hash ^ address).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

fn level_len(level: usize) -> usize {
    1 << (FIRST_LOG2 + 2 * level)
}

impl Sites {
    /// The number of the stack's node, which is recorded if it is new; 0 if there is none.
    #[inline]
    pub(super) fn node(&self, to: &impl Append, stack: &Stack<'_>) -> u64 {
        let seed = mix(stack.generation, stack.outermost as u64 + 1);
        let hash = stack.addresses.iter().rev().fold(seed, |hash, &address| mix(hash, address));
        if stack.addresses.is_empty() {
            return 0;
        }
        match self.find(hash) {
            0 => self.enter(to, stack, seed),
            node => node,
        }
    }

    #[inline]
    fn find(&self, hash: u64) -> u64 {
        let newest = self.level.load(Acquire).min(LEVELS - 1);
        for level in (0..=newest).rev() {
            let base = self.levels[level].load(Acquire);
            if base.is_null() {
                continue;
            }
            let mask = level_len(level) - 1;
            let mut at = (hash >> 20) as usize & mask;
            for _ in 0..mask {
                // SAFETY: a published level is `level_len` entries long, zeroed at first, and is
                // never undone.
                let entry = unsafe { &*base.add(at) };
                match entry.hash.load(Acquire) {
                    0 => break,
                    found if found == hash => return entry.node.load(Acquire),
                    _ => at = (at + 1) & mask,
                }
            }
        }
        0
    }

    /// Records the frames of the stack that are new, from the outermost on.
    #[cold]
    fn enter(&self, to: &impl Append, stack: &Stack<'_>, seed: u64) -> u64 {
        let _errno = Errno::keep();
        let beyond = match stack.outermost {
            Outermost::First => None,
            Outermost::Cut => Some(CUT),
            Outermost::Lost => Some(LOST),
        };
        let (mut node, mut hash) = (0, seed);
        let addresses = stack.addresses.iter().rev().copied();
        for address in beyond.into_iter().chain(addresses) {
            // What lies beyond is in the seed already.
            if address > LOST {
                hash = mix(hash, address);
            }
            node = match self.find(hash) {
                0 => self.add(to, stack, hash, node, address),
                found => found,
            };
        }
        node
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
        // Published after it was recorded: whoever names the node stands behind it in the log.
        if let Some(entry) = self.claim(hash) {
            entry.node.store(node, Release);
        }
        node
    }

    /// An entry for a hash; `None` if the table cannot grow, or another thread is entering it.
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
        let mut at = (hash >> 20) as usize & mask;
        for _ in 0..mask / 2 {
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
                // SAFETY: mapped above, and nobody else has seen it.
                unsafe { system::unmap(ours, bytes) };
                Some(theirs)
            }
        }
    }

    /// Records the file that an address lies in, unless it was.
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
            if words > side::MOST_FURTHER {
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
                // Empty while it changes, whatever stood there.
                start.store(u64::MAX, Release);
                end.store(module.end, Release);
                start.store(module.start, Release);
            }
        });
    }
}
