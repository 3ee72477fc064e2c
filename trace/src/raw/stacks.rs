//! The tree of call stacks, built while a log is read: [`Tree`].

use std::collections::{BTreeMap, HashMap};

use super::side::Side;
use crate::hash::Numbers;
use crate::stacks::{Frame, LONGEST, MOST, Module, Node, Stacks};

/// Addresses that stand for the callers beyond the outermost frame, as the recorder writes them.
const CUT: u64 = 1;
const LOST: u64 = 2;

/// Maximum number by which a node's number may exceed that of the records of nodes so far.
const AHEAD: usize = 1024;

/// Builds [`Stacks`] from side records.
pub(super) struct Tree {
    stacks: Stacks,
    executable: String,
    /// Records of nodes so far.
    records: usize,
    /// The site of each of the log's nodes, or 0; recorders number nodes from 1. A number that
    /// comes far too early is stored separately.
    sites: Vec<u32>,
    early: Numbers<u64, u32>,
    nodes: Numbers<u64, u32>,
    frames: HashMap<(Option<u32>, u64), u32>,
    /// The frame of each address seen since a file was last loaded.
    seen: Numbers<u64, u32>,
    modules: HashMap<Module, u32>,
    /// Bytes of the modules' paths and build ids. A module without a path in the log gets the
    /// program's, which may be far longer than the record.
    told: usize,
    /// The loaded files by start: end, bias, and number of the module.
    loaded: BTreeMap<u64, (u64, u64, u32)>,
}

impl Tree {
    /// For the program at this path.
    pub(super) fn new(executable: String) -> Self {
        Self {
            stacks: Stacks::default(),
            executable,
            records: 0,
            sites: vec![0],
            early: Numbers::default(),
            nodes: Numbers::default(),
            frames: HashMap::new(),
            seen: Numbers::default(),
            modules: HashMap::new(),
            told: 0,
            loaded: BTreeMap::new(),
        }
    }

    pub(super) fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// Returns the site of a node in the log; 0 if it was not recorded.
    #[inline]
    pub(super) fn site(&self, node: u64) -> u32 {
        match usize::try_from(node).ok().and_then(|node| self.sites.get(node)) {
            Some(&site) if site > 0 => site,
            _ => self.early.get(&node).copied().unwrap_or(0),
        }
    }

    /// Adds a side record, or returns why it is invalid.
    pub(super) fn learn(&mut self, side: Side) -> Result<(), &'static str> {
        match side {
            Side::Stack { .. } | Side::Time { .. } => Ok(()),
            Side::Node { node, parent, address } => {
                // If a parent was never completed, its children have none.
                let parent = self.site(parent);
                let site = self.node(parent, address)?;
                self.records += 1;
                match usize::try_from(node) {
                    Ok(node) if node <= self.records + AHEAD => {
                        self.sites.resize(self.sites.len().max(node + 1), 0);
                        self.sites[node] = site;
                    }
                    _ => drop(self.early.insert(node, site)),
                }
                Ok(())
            }
            Side::Module { start, end, bias, build_id, path } => {
                if start >= end {
                    return Err("a module ends before it starts");
                }
                let path = String::from_utf8_lossy(&path).into_owned();
                let path = if path.is_empty() { self.executable.clone() } else { path };
                let module = Module { path, build_id };
                let number = match self.modules.get(&module) {
                    Some(&number) => number,
                    None => {
                        self.told += module.path.len() + module.build_id.len();
                        if self.told > LONGEST {
                            return Err("the modules' paths are too long");
                        }
                        let number = self.stacks.modules.len() as u32;
                        self.stacks.modules.push(module.clone());
                        self.modules.insert(module, number);
                        number
                    }
                };
                // Clearing the table would take time for its capacity, each time.
                self.seen = Numbers::default();
                // Modules that were there before have been unloaded.
                let overlapped: Vec<u64> = self
                    .loaded
                    .range(..end)
                    .rev()
                    .take_while(|(_, (other, ..))| *other > start)
                    .map(|(&start, _)| start)
                    .collect();
                for start in overlapped {
                    self.loaded.remove(&start);
                }
                self.loaded.insert(start, (end, bias, number));
                Ok(())
            }
        }
    }

    fn node(&mut self, parent: u32, address: u64) -> Result<u32, &'static str> {
        let frame = self.frame(address);
        let node = Node { parent, frame };
        let key = u64::from(parent) << 32 | u64::from(frame);
        if let Some(&site) = self.nodes.get(&key) {
            return Ok(site);
        }
        if self.stacks.nodes.len() >= MOST {
            return Err("the call stacks are too many");
        }
        self.stacks.nodes.push(node);
        let site = self.stacks.nodes.len() as u32;
        self.nodes.insert(key, site);
        Ok(site)
    }

    fn frame(&mut self, address: u64) -> u32 {
        if let Some(&frame) = self.seen.get(&address) {
            return frame;
        }
        let frame = self.new_frame(address);
        self.seen.insert(address, frame);
        frame
    }

    fn new_frame(&mut self, address: u64) -> u32 {
        let module = self.loaded.range(..=address).next_back();
        let (module, address) = match module {
            Some((_, &(end, bias, module))) if address <= end => {
                (Some(module), address.wrapping_sub(bias))
            }
            _ => (None, address),
        };
        *self.frames.entry((module, address)).or_insert_with(|| {
            let kind = match (module, address) {
                (None, CUT) => Frame::cut(),
                (None, LOST) => Frame::lost(),
                _ => Frame { module, address, lines: Vec::new() },
            };
            self.stacks.frames.push(kind);
            self.stacks.frames.len() as u32 - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads do not wait for each other, so a node may come before those with lower numbers.
    /// Nodes are found regardless of their numbers, and the latest record of a node counts.
    #[test]
    fn nodes_are_found_in_any_order() {
        let mut tree = Tree::new(String::new());
        let mut learn = |node, address| {
            tree.learn(Side::Node { node, parent: 0, address }).unwrap();
            (node, tree.site(node))
        };
        let numbers = [1, 3, 2, 1 << 40, 1000, 4, 5000, 6, u64::MAX >> 21, 7];
        let sites: Vec<_> = numbers.iter().map(|&node| learn(node, 100 + node)).collect();
        for (at, &(node, site)) in sites.iter().enumerate() {
            assert_eq!((site, tree.site(node)), (at as u32 + 1, site), "{node}");
        }
        assert_eq!([5, 999, 4999, 1 << 41].map(|node| tree.site(node)), [0; 4]);
        tree.learn(Side::Node { node: 3, parent: 0, address: 101 }).unwrap();
        assert_eq!(tree.site(3), 1);
    }

    /// (Regression: each number could exceed the highest one so far, by 4 KiB of memory.)
    #[test]
    fn numbers_that_run_ahead_take_no_memory_for_those_between() {
        const RECORDS: usize = 300;
        let mut tree = Tree::new(String::new());
        for number in 1..=RECORDS {
            let node = (number * AHEAD) as u64;
            tree.learn(Side::Node { node, parent: 0, address: node }).unwrap();
            assert_eq!(tree.site(node), number as u32);
        }
        assert!(tree.sites.len() <= RECORDS + AHEAD + 1, "{}", tree.sites.len());
        assert_eq!(tree.early.len(), RECORDS - 1);
    }

    /// However many modules have no path of their own, they take no more memory than a trace may.
    #[test]
    #[cfg_attr(miri, ignore = "hashes 64 MiB, which takes Miri hours; there is nothing unsafe")]
    fn modules_that_are_all_the_program_are_limited() {
        let executable = "x".repeat(1 << 16);
        let mut tree = Tree::new(executable);
        let module = |id: u64| Side::Module {
            start: id,
            end: id + 1,
            bias: 0,
            build_id: id.to_ne_bytes().to_vec(),
            path: Vec::new(),
        };
        let refused = (0..2000).find(|&id| tree.learn(module(id)).is_err());
        assert!(refused.is_some_and(|id| id > 1000), "{refused:?}");
        assert!(
            tree.stacks().modules.iter().map(|module| module.path.len()).sum::<usize>() <= LONGEST
        );
    }

    /// Each module that is loaded costs no more for the addresses that were seen once.
    #[test]
    fn what_was_seen_is_forgotten_at_once() {
        let mut tree = Tree::new(String::new());
        let module = || Side::Module {
            start: 0,
            end: 1,
            bias: 0,
            build_id: Vec::new(),
            path: b"/a".to_vec(),
        };
        for address in 0..if cfg!(miri) { 1_000 } else { 100_000 } {
            tree.learn(Side::Node { node: 1, parent: 0, address }).unwrap();
        }
        tree.learn(module()).unwrap();
        tree.learn(Side::Node { node: 1, parent: 0, address: 7 }).unwrap();
        assert!(tree.seen.capacity() < 100, "{}", tree.seen.capacity());
    }

    /// An address is another frame once another file is loaded there.
    #[test]
    fn an_address_belongs_to_the_file_that_is_loaded() {
        let mut tree = Tree::new(String::new());
        let module = |path: &[u8]| Side::Module {
            start: 0x1000,
            end: 0x2000,
            bias: 0x1000,
            build_id: Vec::new(),
            path: path.to_vec(),
        };
        for (node, path) in [(1, b"/a"), (2, b"/b"), (3, b"/a")] {
            tree.learn(module(path)).unwrap();
            tree.learn(Side::Node { node, parent: 0, address: 0x1800 }).unwrap();
        }
        assert_eq!([1, 2, 3].map(|node| tree.site(node)), [1, 2, 1]);
    }
}
