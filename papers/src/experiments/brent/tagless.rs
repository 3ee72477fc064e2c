//! Binary buddies without tag bits (Brent's Table 7.2, after Bozman et al.): a search of the list
//! of its size shows whether a block's buddy is free.
//!
//! A simulation of addresses that counts items: each list item visited or linked counts as one.

use pagewise::Usage;
use pagewise::trace::Event;

use super::mixed::{Efficiency, Watch};

/// Bytes of the smallest block, and of the largest, by which memory grows.
const LEAST: u64 = 8;
const LARGEST: u64 = 4096;

/// The buddies. A list has the starts of free blocks of one size, most recently freed last.
#[derive(Debug, Default)]
pub(crate) struct Tagless {
    lists: Vec<Vec<u64>>,
    end: u64,
    items: u64,
}

/// Returns the index of the list for requests of this size.
fn order(size: u64) -> usize {
    size.max(LEAST).next_power_of_two().ilog2() as usize - LEAST.ilog2() as usize
}

impl Tagless {
    fn new() -> Self {
        Self { lists: vec![Vec::new(); order(LARGEST) + 1], ..Self::default() }
    }

    fn put(&mut self, start: u64, order: usize) {
        self.items += 1;
        self.lists[order].push(start);
    }

    fn allocate(&mut self, size: u64) -> u64 {
        let wanted = order(size);
        let found = (wanted..self.lists.len()).find(|&order| !self.lists[order].is_empty());
        let mut order = found.unwrap_or_else(|| {
            self.put(self.end, order(LARGEST));
            self.end += LARGEST;
            self.lists.len() - 1
        });
        self.items += 1;
        let start = self.lists[order].pop().unwrap_or_default();
        while order > wanted {
            order -= 1;
            self.put(start + (LEAST << order), order);
        }
        start
    }

    fn free(&mut self, start: u64, size: u64) {
        let (mut start, mut order) = (start, order(size));
        while order + 1 < self.lists.len() {
            let buddy = start ^ (LEAST << order);
            let list = &mut self.lists[order];
            let found = list.iter().rposition(|&free| free == buddy);
            // Searches from the most recently freed block on.
            self.items += found.map_or(list.len(), |place| list.len() - place) as u64;
            let Some(place) = found else { break };
            list.remove(place);
            start = start.min(buddy);
            order += 1;
        }
        self.put(start, order);
    }

    /// Serves a simulated process; returns the items visited per block.
    pub(crate) fn run(events: impl IntoIterator<Item = Event>, efficiency: &mut Efficiency) -> f64 {
        let mut heap = Self::new();
        let mut blocks: Vec<(u64, u64)> = Vec::new();
        let (mut now, mut second) = (0, 0);
        let mut usage = Usage::default();
        for event in events {
            match event {
                Event::Allocate { slot, size, .. } => {
                    let slot = slot as usize;
                    if slot >= blocks.len() {
                        blocks.resize(slot + 1, (0, 0));
                    }
                    blocks[slot] = (heap.allocate(size), size);
                    usage.requested += size as usize;
                    usage.allocations += 1;
                }
                Event::Free { slot } => {
                    let (start, size) = blocks[slot as usize];
                    heap.free(start, size);
                    usage.requested -= size as usize;
                }
                Event::Tick { ticks } => {
                    now += ticks;
                    while second < now / 1_000_000 {
                        second += 1;
                        usage.held = heap.end as usize;
                        efficiency.second(&usage);
                    }
                }
                Event::Reallocate { .. } | Event::Thread { .. } => {}
            }
        }
        heap.items as f64 / usage.allocations.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buddies_coalesce_and_searches_count_their_items() {
        let mut heap = Tagless::new();
        let blocks: Vec<u64> = (0..512).map(|_| heap.allocate(8)).collect();
        assert_eq!(heap.end, 4096);
        heap.items = 0;
        heap.free(blocks[0], 8);
        assert_eq!(heap.items, 1, "no list to search");
        heap.free(blocks[2], 8);
        assert_eq!(heap.items, 3, "one block passed");
        blocks.iter().skip(3).chain([&blocks[1]]).for_each(|&block| heap.free(block, 8));
        assert_eq!(heap.lists.iter().map(Vec::len).sum::<usize>(), 1, "all is one block again");
        assert_eq!(heap.allocate(4096), 0);
    }
}
