//! Watches a replay: bytes requested and held over time, and a picture of the heap.

use std::alloc::Layout;
use std::collections::HashMap;
use std::ptr::NonNull;

use pagewise::Strategy;
use pagewise_replay::lea::Lea;
use pagewise_replay::workload::{Facts, Observer};
use serde::{Deserialize, Serialize};

use super::heap_map::{Block, HeapMap, Painter};
use crate::system::gauge::Gauge;
use crate::timeline::Timeline;

/// Maximum parts of a curve over time.
pub(super) const PARTS: u64 = 400;

/// What was observed in one replay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Watched {
    pub(super) timeline: Timeline,
    /// Whether `timeline.held` is known.
    pub(super) knows_held: bool,
    pub(super) map: HeapMap,
}

/// Reports the bytes that a target holds.
pub(super) trait Holds<T: ?Sized> {
    /// Returns the bytes held after an operation on a block of `size` bytes; `None` if unknown.
    fn held(&mut self, target: &T, size: usize) -> Option<u64>;
}

/// Strategies report the bytes they hold.
#[derive(Debug)]
pub(super) struct Usage;

impl<T: Strategy + ?Sized> Holds<T> for Usage {
    fn held(&mut self, target: &T, _: usize) -> Option<u64> {
        Some(target.usage().held as u64)
    }
}

/// Lea's allocator reports the bytes it holds.
#[derive(Debug)]
pub(super) struct LeaUsage;

impl Holds<Lea> for LeaUsage {
    fn held(&mut self, lea: &Lea, _: usize) -> Option<u64> {
        Some(lea.held() as u64)
    }
}

/// A process's allocator: the C library's is queried; others do not report the bytes they hold.
pub(super) struct Asked(pub(super) Option<Gauge>);

impl<T: ?Sized> Holds<T> for Asked {
    fn held(&mut self, _: &T, size: usize) -> Option<u64> {
        let gauge = self.0.as_mut()?;
        gauge.read_after(size);
        gauge.held()
    }
}

/// The observer of a replay. It stops at the end of the trace, before the remaining blocks are
/// freed.
#[derive(Debug)]
pub(super) struct Watch<H> {
    holds: H,
    requested: u64,
    /// The operation that allocated the live block at each address.
    births: HashMap<usize, u64>,
    /// The operation that allocated the block being resized.
    resizing: u64,
    /// Size of the current operation's block.
    size: usize,
    done: u64,
    operations: u64,
    knows_held: bool,
    timeline: Timeline,
    painter: Painter,
}

impl<H> Watch<H> {
    /// Observes the replay of a trace.
    pub(super) fn new(facts: Facts, holds: H) -> Self {
        let operations = facts.pairs() + facts.frees;
        Self {
            holds,
            requested: 0,
            births: HashMap::new(),
            resizing: 0,
            size: 0,
            done: 0,
            operations,
            knows_held: true,
            timeline: Timeline::new(operations, PARTS),
            painter: Painter::new(operations),
        }
    }

    /// Returns the results.
    pub(super) fn finish(self) -> Watched {
        Watched { timeline: self.timeline, knows_held: self.knows_held, map: self.painter.finish() }
    }

    fn is_over(&self) -> bool {
        self.done >= self.operations
    }

    fn enter(&mut self, block: NonNull<u8>, layout: Layout, born: u64) {
        let address = block.addr().get();
        self.size = layout.size();
        self.requested += layout.size() as u64;
        self.births.insert(address, born);
        self.painter.enter(Block { address, size: layout.size(), born });
    }
}

impl<T: ?Sized, H: Holds<T>> Observer<T> for Watch<H> {
    unsafe fn allocated(&mut self, block: NonNull<u8>, layout: Layout) {
        self.enter(block, layout, self.done);
    }

    unsafe fn leaving(&mut self, block: NonNull<u8>, layout: Layout) -> Result<(), String> {
        if self.is_over() {
            return Ok(());
        }
        let address = block.addr().get();
        let born = self.births.remove(&address).unwrap_or(self.done);
        self.painter.leave(Block { address, size: layout.size(), born });
        self.requested -= layout.size() as u64;
        self.size = layout.size();
        self.resizing = born;
        Ok(())
    }

    unsafe fn resized(
        &mut self,
        block: NonNull<u8>,
        _: usize,
        layout: Layout,
    ) -> Result<(), String> {
        self.enter(block, layout, self.resizing);
        Ok(())
    }

    fn done(&mut self, target: &T) -> Result<(), String> {
        if self.is_over() {
            return Ok(());
        }
        let held = self.holds.held(target, self.size);
        self.knows_held &= held.is_some();
        self.timeline.enter(self.requested, held.unwrap_or(0));
        self.painter.tick();
        self.done += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use pagewise::catalogue;
    use pagewise::pages::Config;
    use pagewise::trace::Event;

    use super::*;
    use pagewise_replay::workload::Workload;

    #[test]
    fn frees_after_the_trace_are_not_watched() {
        let events = [
            Event::Allocate { slot: 0, size: 1000, align: 16 },
            Event::Reallocate { slot: 0, size: 3000 },
            Event::Allocate { slot: 1, size: 1, align: 16 },
            Event::Free { slot: 1 },
        ];
        let workload = Workload::of(&events).expect("sound events");
        let entry = catalogue::find("MRU").expect("in the catalogue");
        let mut strategy = entry.build(Config::new(), 1 << 30).expect("sound parameters");
        let mut watch = Watch::new(workload.facts, Usage);
        workload.replay(&mut *strategy, &mut watch).expect("enough memory");
        let watched = watch.finish();
        assert_eq!(watched.timeline.requested, [1000, 3000, 3001, 3000]);
        assert!(watched.knows_held && watched.timeline.most_held() >= 3001);
    }
}
