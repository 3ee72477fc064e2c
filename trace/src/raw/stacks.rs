//! The tree of call stacks as it grows while a log is read: [`Tree`].

use std::collections::{BTreeMap, HashMap};

use super::side::Side;
use crate::hash::Numbers;
use crate::stacks::{Frame, MOST, Module, Node, Stacks};

/// Addresses that stand for what lies beyond the outermost frame, as the recorder writes them.
const CUT: u64 = 1;
const LOST: u64 = 2;

/// Builds [`Stacks`] from side records.
pub(super) struct Tree {
    stacks: Stacks,
    executable: String,
    /// The site of each of the log's nodes.
    sites: Numbers<u64, u32>,
    nodes: HashMap<Node, u32>,
    frames: HashMap<(Option<u32>, u64), u32>,
    modules: HashMap<Module, u32>,
    /// What is loaded: end, bias, and number of the module that starts there.
    loaded: BTreeMap<u64, (u64, u64, u32)>,
}

impl Tree {
    /// Of a program of this path.
    pub(super) fn new(executable: String) -> Self {
        Self {
            stacks: Stacks::default(),
            executable,
            sites: Numbers::default(),
            nodes: HashMap::new(),
            frames: HashMap::new(),
            modules: HashMap::new(),
            loaded: BTreeMap::new(),
        }
    }

    pub(super) fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    /// The site of a node of the log; 0 if it was not recorded.
    pub(super) fn site(&self, node: u64) -> u32 {
        self.sites.get(&node).copied().unwrap_or(0)
    }

    /// Takes in a side record; what is wrong with it, if it makes no sense.
    pub(super) fn learn(&mut self, side: Side) -> Result<(), &'static str> {
        match side {
            Side::Stack { .. } | Side::Time { .. } => Ok(()),
            Side::Node { node, parent, address } => {
                // A parent that was never completed leaves its children without one.
                let parent = self.site(parent);
                let site = self.node(parent, address)?;
                self.sites.insert(node, site);
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
                        let number = self.stacks.modules.len() as u32;
                        self.stacks.modules.push(module.clone());
                        self.modules.insert(module, number);
                        number
                    }
                };
                // What was there before is gone.
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
        if let Some(&site) = self.nodes.get(&node) {
            return Ok(site);
        }
        if self.stacks.nodes.len() >= MOST {
            return Err("the call stacks are too many");
        }
        self.stacks.nodes.push(node);
        let site = self.stacks.nodes.len() as u32;
        self.nodes.insert(node, site);
        Ok(site)
    }

    fn frame(&mut self, address: u64) -> u32 {
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
