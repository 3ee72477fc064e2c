//! Every sequence of operations up to a length, breadth first. Sequences that lead to the same
//! state are continued only once.
//!
//! A state holds all that decides the future: the bytes of strategy and room, the source's bounds,
//! the live blocks and the naive model's memory. States are compared by 128-bit hashes.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher};

use hashbrown::DefaultHashBuilder;

use crate::heap::{Heap, Model, Operation, Sizes};
use crate::naive::Naive;
use crate::room::{Bounds, Room, Saved};

/// How far to explore.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Depth {
    /// Operations in a sequence.
    pub(crate) operations: usize,
    /// Maximum number of resizes among them.
    pub(crate) resizes: usize,
    /// Indices of the requested sizes.
    pub(crate) sizes: &'static [u8],
}

/// The counters of an exploration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    /// Distinct states.
    pub(crate) states: usize,
    /// Distinct heap shapes: spans, and the requests of the live blocks.
    pub(crate) shapes: usize,
    /// Operations performed and checked.
    pub(crate) steps: usize,
    /// Requests refused for lack of memory.
    pub(crate) refused: usize,
    /// Allocations whose address or failure the naive model predicted.
    pub(crate) predicted: usize,
}

/// How a state was first reached.
struct Reached {
    from: u32,
    by: Operation,
}

const ORIGIN: u32 = u32::MAX;

/// An exploration.
pub(crate) struct Explorer {
    heap: Heap,
    naive: Naive,
    plain: Naive,
    origin: Saved,
    states: Vec<Reached>,
    seen: HashSet<u128>,
    shapes: HashSet<u128>,
    hashes: [DefaultHashBuilder; 2],
    found: Found,
}

/// Prints the sequence if a check fails.
struct Trail<'p>(&'p [Operation], Operation);

impl Drop for Trail<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("after {:?}, then {:?}", self.0, self.1);
        }
    }
}

impl Explorer {
    pub(crate) fn new(room: Room, sizes: Sizes, naive: Naive) -> Self {
        let origin = room.save();
        Self {
            heap: Heap::new(room, sizes),
            plain: naive.clone(),
            naive,
            origin,
            states: Vec::new(),
            seen: HashSet::new(),
            shapes: HashSet::new(),
            hashes: [DefaultHashBuilder::default(), DefaultHashBuilder::default()],
            found: Found::default(),
        }
    }

    pub(crate) fn run(mut self, depth: Depth) -> Found {
        let mut frontier = vec![ORIGIN];
        for _ in 0..depth.operations {
            let mut next = Vec::new();
            for state in frontier {
                self.follow(state, depth, &mut next);
            }
            frontier = next;
        }
        self.found.states = self.seen.len();
        self.found.shapes = self.shapes.len();
        self.found
    }

    /// Performs every possible operation on a state, and records the new states.
    fn follow(&mut self, state: u32, depth: Depth, next: &mut Vec<u32>) {
        let path = self.path(state);
        self.heap.room.restore(&self.origin);
        self.heap.model = Model::default();
        self.naive.clone_from(&self.plain);
        for &operation in &path {
            let _ = self.naive.step(&mut self.heap, operation);
        }
        let here = (self.heap.room.save(), self.heap.model.clone(), self.naive.clone());
        let used = path.iter().filter(|by| matches!(by, Operation::Resize { .. })).count();
        for by in self.operations(depth.sizes, used < depth.resizes) {
            self.heap.room.restore(&here.0);
            self.heap.model.clone_from(&here.1);
            self.naive.clone_from(&here.2);
            let trail = Trail(&path, by);
            let step = self.naive.step(&mut self.heap, by);
            self.found.steps += 1;
            self.found.refused += usize::from(step.refused);
            self.found.predicted += usize::from(step.predicted);
            self.heap.check();
            let resizes = (used + usize::from(matches!(by, Operation::Resize { .. }))) as u8;
            let reached = self.state(resizes);
            if self.seen.insert(reached) {
                self.heap.check_refusals();
                self.shapes.insert(self.shape());
                next.push(self.states.len() as u32);
                self.states.push(Reached { from: state, by });
            }
            drop(trail);
        }
    }

    /// Returns the operations that led to a state.
    fn path(&self, mut state: u32) -> Vec<Operation> {
        let mut path = Vec::new();
        while state != ORIGIN {
            let Reached { from, by } = self.states[state as usize];
            path.push(by);
            state = from;
        }
        path.reverse();
        path
    }

    fn operations(&self, sizes: &'static [u8], resizes: bool) -> Vec<Operation> {
        let live = self.heap.model.live.len() as u8;
        let allocate = sizes.iter().map(|&size| Operation::Allocate { size });
        let free = (0..live).map(|block| Operation::Free { block });
        let resize = (0..live)
            .flat_map(|block| sizes.iter().map(move |&size| Operation::Resize { block, size }));
        allocate.chain(free).chain(resize.filter(|_| resizes)).collect()
    }

    /// Returns a hash that distinguishes the heap's states.
    fn state(&mut self, resizes: u8) -> u128 {
        let Heap { room, model, .. } = &mut self.heap;
        let image = room.image();
        let naive = &self.naive;
        hash(&self.hashes, |mut state| {
            state.write(image);
            (Bounds::current(), &model.live, naive, resizes).hash(&mut state);
        })
    }

    /// Returns a hash that distinguishes the heap's shapes.
    fn shape(&self) -> u128 {
        let (spans, live) = (self.heap.spans(), &self.heap.model.live);
        hash(&self.hashes, |mut state| (&spans, live).hash(&mut state))
    }
}

fn hash(hashes: &[DefaultHashBuilder; 2], feed: impl Fn(&mut dyn Hasher)) -> u128 {
    let [low, high] = hashes.each_ref().map(|hash| {
        let mut state = hash.build_hasher();
        feed(&mut state);
        state.finish()
    });
    u128::from(high) << 64 | u128::from(low)
}
