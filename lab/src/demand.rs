//! How many blocks of each size a trace has live, to which `--sizemap optimal` is fitted.

use std::collections::HashMap;
use std::path::Path;

use pagewise::sizemap::Demand;
use pagewise::trace::Event;
use pagewise_replay::input;

/// Blocks of one size: the number live now, and its peak.
#[derive(Clone, Copy, Debug, Default)]
struct OfSize {
    live: u64,
    most: u64,
}

/// Returns the demand of a trace: for each size, the peak number of live blocks. (Brent uses the
/// mean, but the comparison is of peak memory.)
///
/// # Errors
/// If the trace cannot be read.
pub(crate) fn of_trace(path: &Path) -> anyhow::Result<Vec<Demand>> {
    let mut tally = Tally::default();
    let events = input::open(path)?.with_progress();
    let blocks = events.header().peak_blocks;
    for event in events {
        if tally.enter(event?) {
            input::within_memory_of(path, blocks, tally.sizes.len() as u64)?;
        }
    }
    Ok(tally.demand())
}

/// Counts blocks by size.
#[derive(Debug, Default)]
struct Tally {
    sizes: HashMap<u64, OfSize>,
    /// Size of each slot's live block.
    slots: Vec<u64>,
}

impl Tally {
    /// Records a valid event of a trace. Returns whether its size is a new one.
    fn enter(&mut self, event: Event) -> bool {
        let before = self.sizes.len();
        match event {
            Event::Allocate { slot, size, .. } => self.add(slot, size),
            Event::Reallocate { slot, size } => {
                self.remove(slot);
                self.add(slot, size);
            }
            Event::Free { slot } => self.remove(slot),
            Event::Thread { .. } | Event::Tick { .. } => {}
        }
        self.sizes.len() > before
    }

    fn add(&mut self, slot: u32, size: u64) {
        // A replay requests at least one byte.
        let size = size.max(1);
        let slot = slot as usize;
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, 0);
        }
        self.slots[slot] = size;
        let of_size = self.sizes.entry(size).or_default();
        of_size.live += 1;
        of_size.most = of_size.most.max(of_size.live);
    }

    fn remove(&mut self, slot: u32) {
        let size = self.slots.get(slot as usize).copied().unwrap_or_default();
        if let Some(of_size) = self.sizes.get_mut(&size) {
            of_size.live = of_size.live.saturating_sub(1);
        }
    }

    /// Returns the demand, ascending by size.
    fn demand(&self) -> Vec<Demand> {
        let sizes = self.sizes.iter().filter_map(|(&size, of_size)| {
            Some(Demand { size: usize::try_from(size).ok()?, live: of_size.most as f64 })
        });
        let mut demand: Vec<_> = sizes.collect();
        demand.sort_by_key(|one| one.size);
        demand
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_counts_at_its_peak() {
        let mut tally = Tally::default();
        let allocate = |slot, size| Event::Allocate { slot, size, align: 16 };
        for event in [
            allocate(0, 100),
            allocate(1, 100),
            Event::Free { slot: 1 },
            allocate(1, 0),
            Event::Reallocate { slot: 0, size: 50 },
            allocate(2, 100),
        ] {
            tally.enter(event);
        }
        let found: Vec<_> = tally.demand().iter().map(|one| (one.size, one.live)).collect();
        assert_eq!(found, [(1, 1.0), (50, 1.0), (100, 2.0)]);
    }
}
