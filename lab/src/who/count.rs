//! Adds up a trace's requests by call site.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use pagewise::trace::{Event, Stacks};
use pagewise_replay::{input, units};
use serde::Serialize;

/// When to count live blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// When the number of live bytes is first at its peak.
    Peak,
    End,
    /// After this many events.
    Event(u64),
}

/// The sums over the blocks of one site, or of a group of sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Figures {
    /// Allocations and reallocations.
    pub(crate) allocations: u64,
    /// `u64::MAX` if it is more.
    pub(crate) allocated_bytes: u64,
    /// Live at the chosen point.
    pub(crate) live_blocks: u64,
    pub(crate) live_bytes: u64,
    /// Live at the end.
    pub(crate) leaked_blocks: u64,
    pub(crate) leaked_bytes: u64,
    /// Freed by the allocating thread before its next allocation.
    pub(crate) temporary: u64,
    /// Freed within `SHORT` events.
    pub(crate) short_lived: u64,
    /// Alive for at least a tenth of the trace.
    pub(crate) long_lived: u64,
}

/// Maximum lifetime of a short-lived block, in events.
pub(crate) const SHORT: u64 = 1000;

impl Figures {
    pub(crate) fn add(&mut self, other: &Self) {
        self.allocations += other.allocations;
        self.allocated_bytes = self.allocated_bytes.saturating_add(other.allocated_bytes);
        self.live_blocks += other.live_blocks;
        self.live_bytes += other.live_bytes;
        self.leaked_blocks += other.leaked_blocks;
        self.leaked_bytes += other.leaked_bytes;
        self.temporary += other.temporary;
        self.short_lived += other.short_lived;
        self.long_lived += other.long_lived;
    }
}

/// What "never freed" means in a trace of a part of a run.
pub(crate) const PREFIX: &str =
    "the recording was cut: blocks not freed by then count as never freed";

/// The figures of a trace's call sites.
pub(crate) struct Counted {
    pub(crate) path: PathBuf,
    pub(crate) stacks: Stacks,
    /// By site; site 0 stands for allocations with an unknown stack.
    pub(crate) sites: Vec<(u32, Figures)>,
    /// Sizes and numbers of the blocks live at the end, by site.
    pub(crate) leaked_sizes: HashMap<(u32, u64), u64>,
    pub(crate) total: Figures,
    pub(crate) events: u64,
    /// Whether the recording ended before the program did: blocks live at the end of the trace may
    /// have been freed later.
    pub(crate) is_prefix: bool,
    /// The blocks live at the chosen point, in the order in which they were last allocated or
    /// reallocated.
    pub(crate) live: Vec<LiveBlock>,
    /// The event after which live blocks were counted, and the operations until then: allocations,
    /// reallocations and frees.
    pub(crate) at: u64,
    pub(crate) at_operation: u64,
}

/// A block live at the chosen point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LiveBlock {
    /// Index in [`Counted::sites`].
    pub(crate) index: u32,
    pub(crate) size: u64,
}

#[derive(Clone, Copy)]
struct Block {
    size: u64,
    /// Index in `Walk::figures`.
    index: u32,
    born: u64,
    /// The operation that made it.
    made: u64,
    thread: u32,
    /// The number of allocations that its thread had made, including this one.
    turn: u64,
}

/// The blocks live after an event.
#[derive(Default)]
struct Snapshot {
    at: u64,
    at_operation: u64,
    live: Vec<LiveBlock>,
}

struct Walk {
    blocks: Vec<Option<Block>>,
    indices: HashMap<u32, u32>,
    figures: Vec<(u32, Figures)>,
    /// Live blocks and bytes of each site.
    live: Vec<(u64, u64)>,
    live_bytes: u64,
    /// Allocations of each thread.
    turns: HashMap<u32, u64>,
    thread: u32,
    /// Events and operations so far.
    now: u64,
    operations: u64,
    /// Minimum lifetime of a long-lived block, in events.
    long: u64,
}

impl Walk {
    /// Returns the state before the first of `events` events.
    fn new(events: u64) -> Self {
        Self {
            blocks: Vec::new(),
            indices: HashMap::new(),
            figures: Vec::new(),
            live: Vec::new(),
            live_bytes: 0,
            turns: HashMap::new(),
            thread: 0,
            now: 0,
            operations: 0,
            long: (events / 10).max(SHORT),
        }
    }

    fn enter(&mut self, event: Event, site: u32) {
        self.now += 1;
        self.operations += u64::from(!matches!(event, Event::Thread { .. } | Event::Tick { .. }));
        match event {
            Event::Allocate { slot, size, .. } => self.allocate(slot, size, site),
            Event::Reallocate { slot, size } => {
                self.free(slot, false);
                self.allocate(slot, size, site);
            }
            Event::Free { slot } => self.free(slot, true),
            Event::Thread { thread } => self.thread = thread,
            Event::Tick { .. } => {}
        }
    }

    fn allocate(&mut self, slot: u32, size: u64, site: u32) {
        let new = self.figures.len() as u32;
        let index = *self.indices.entry(site).or_insert(new);
        if index == new {
            self.figures.push((site, Figures::default()));
            self.live.push((0, 0));
        }
        let turn = self.turns.entry(self.thread).or_default();
        *turn += 1;
        let (born, made, thread, turn) = (self.now, self.operations, self.thread, *turn);
        let slot = slot as usize;
        if slot >= self.blocks.len() {
            self.blocks.resize(slot + 1, None);
        }
        self.blocks[slot] = Some(Block { size, index, born, made, thread, turn });
        let figures = &mut self.figures[index as usize].1;
        figures.allocations += 1;
        figures.allocated_bytes = figures.allocated_bytes.saturating_add(size);
        let (blocks, bytes) = &mut self.live[index as usize];
        (*blocks, *bytes) = (*blocks + 1, *bytes + size);
        self.live_bytes += size;
    }

    /// Removes a block that was freed or reallocated.
    fn free(&mut self, slot: u32, freed: bool) {
        let Some(block) = self.blocks.get_mut(slot as usize).and_then(Option::take) else { return };
        let (blocks, bytes) = &mut self.live[block.index as usize];
        (*blocks, *bytes) = (*blocks - 1, *bytes - block.size);
        self.live_bytes -= block.size;
        let latest = self.turns.get(&block.thread).copied() == Some(block.turn);
        let figures = &mut self.figures[block.index as usize].1;
        figures.temporary += u64::from(freed && latest && block.thread == self.thread);
        figures.short_lived += u64::from(self.now - block.born <= SHORT);
        figures.long_lived += u64::from(self.now - block.born >= self.long);
    }

    /// Enters the live blocks in the figures, and returns them.
    fn snapshot(&mut self) -> Snapshot {
        for ((_, figures), &(blocks, bytes)) in self.figures.iter_mut().zip(&self.live) {
            (figures.live_blocks, figures.live_bytes) = (blocks, bytes);
        }
        let mut live: Vec<&Block> = self.blocks.iter().flatten().collect();
        live.sort_unstable_by_key(|block| block.made);
        let block = |block: &&Block| LiveBlock { index: block.index, size: block.size };
        Snapshot {
            at: self.now,
            at_operation: self.operations,
            live: live.iter().map(block).collect(),
        }
    }

    /// Enters the blocks live at the end in the figures. Returns their sizes and numbers, by site.
    fn leaked(&mut self) -> HashMap<(u32, u64), u64> {
        let mut sizes = HashMap::new();
        for block in self.blocks.iter().flatten() {
            let (site, figures) = &mut self.figures[block.index as usize];
            figures.leaked_blocks += 1;
            figures.leaked_bytes += block.size;
            figures.long_lived += u64::from(self.now - block.born >= self.long);
            *sizes.entry((*site, block.size)).or_default() += 1;
        }
        sizes
    }
}

/// Reads a trace and adds it up.
pub(crate) fn count(path: &Path, at: At) -> anyhow::Result<Counted> {
    let mut events = input::open(path)?.with_progress().with_stacks();
    let header = events.header().clone();
    anyhow::ensure!(
        header.stacks,
        "{} has no call stacks: `pagewise record --stacks` records them",
        input::shown(path)
    );
    if let At::Event(event) = at
        && event > header.events
    {
        anyhow::bail!(
            "{} has {}: there is no event {}",
            input::shown(path),
            units::count(header.events, "event"),
            units::thousands(event)
        );
    }
    let mut walk = Walk::new(header.events);
    let mut looked = None;
    while let Some(event) = events.next() {
        walk.enter(event?, events.site());
        let now = match at {
            At::Peak => walk.live_bytes == header.peak_bytes,
            At::End => walk.now == header.events,
            At::Event(event) => walk.now == event,
        };
        if now && looked.is_none() {
            looked = Some(walk.snapshot());
        }
    }
    let stacks = events.take_stacks().context("the call stacks are missing")?;
    let leaked_sizes = walk.leaked();
    let mut total = Figures::default();
    walk.figures.iter().for_each(|(_, figures)| total.add(figures));
    let Snapshot { at, at_operation, live } = looked.unwrap_or_default();
    Ok(Counted {
        path: path.to_owned(),
        stacks,
        sites: walk.figures,
        leaked_sizes,
        total,
        events: walk.now,
        is_prefix: header.is_prefix(),
        live,
        at,
        at_operation,
    })
}
