//! The statistics of Hasan & Chang (2006), Tables 1, 3 and 4, and other figures that describe a
//! trace.
//!
//! The paper's allocator adds eight bytes of header and trailer to each request and rounds up to a
//! multiple of eight; its smallest block is 16 bytes ("127 sizes" up to 1024).

mod histogram;

use std::collections::HashMap;
use std::path::Path;

use pagewise::trace::{Event, Header, Times};
use serde::Serialize;

pub use histogram::Histogram;

use crate::input;

/// Largest small block, in allocated bytes.
const SMALL: u64 = 1024;
/// Parts of the trace for which live bytes are recorded: as many as fit a line of the terminal.
const PARTS: usize = 48;

/// A figure for all blocks, and for small and large ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Split {
    /// All blocks.
    pub all: u64,
    /// Blocks of up to a kibibyte, as allocated.
    pub small: u64,
    /// Larger blocks.
    pub large: u64,
}

impl Split {
    fn add(&mut self, allocated: u64, amount: u64) {
        self.all = self.all.saturating_add(amount);
        let part = if allocated <= SMALL { &mut self.small } else { &mut self.large };
        *part = part.saturating_add(amount);
    }

    fn subtract(&mut self, allocated: u64, amount: u64) {
        self.all = self.all.saturating_sub(amount);
        let part = if allocated <= SMALL { &mut self.small } else { &mut self.large };
        *part = part.saturating_sub(amount);
    }

    /// Raises each figure to the other's, if that is greater.
    fn raise(&mut self, other: Self) {
        self.all = self.all.max(other.all);
        self.small = self.small.max(other.small);
        self.large = self.large.max(other.large);
    }
}

/// A program's requests in figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// Distinct allocated sizes (Table 1).
    pub sizes: Split,
    /// Memory of a segregated storage allocator, in percent of the peak of the bytes allocated
    /// (Table 1).
    pub segregated_storage_percent: f64,
    /// Total bytes requested (Table 3).
    pub requested_bytes: u64,
    /// Total bytes allocated (Table 3).
    pub allocated_bytes: Split,
    /// Peak of the bytes allocated (Table 3).
    pub max_allocated_bytes: Split,
    /// Allocations (Table 4).
    pub allocations: Split,
    /// Allocations and reallocations, by the requested size. The paper's Table 4 counts these as
    /// allocations: only then do its programs' counts agree.
    pub requests_by_size: Split,
    /// Peak number of live blocks (Table 4).
    pub max_live_blocks: Split,
    /// Reallocations (Table 4).
    pub reallocations: u64,
    /// Frees (Table 4).
    pub frees: u64,
    /// Peak of the bytes requested and not freed.
    pub max_requested_bytes: u64,
    /// Requested sizes in bytes, including those of reallocations.
    pub size_histogram: Histogram,
    /// Lifetimes from allocation to free, in events.
    pub lifetime_histogram: Histogram,
    /// Peak of the live bytes, as requested, in each of equal parts of the trace.
    pub live_bytes: Vec<u64>,
    /// Peak number of live blocks in each of those parts.
    pub live_blocks: Vec<u64>,
    /// Allocations and reallocations in each of those parts.
    pub requests: Vec<u64>,
    /// Bytes that they requested, in each of those parts.
    pub asked_bytes: Vec<u64>,
    /// Frees in each of those parts.
    pub freed: Vec<u64>,
}

/// A live block.
#[derive(Clone, Copy, Debug)]
struct Live {
    requested: u64,
    /// Number of the event that allocated it.
    born: u64,
}

/// Blocks of one allocated size: the number live now, and its peak.
#[derive(Clone, Copy, Debug, Default)]
struct OfSize {
    live: u64,
    most: u64,
}

/// Collects statistics, event by event. Memory is bounded by the live blocks and distinct sizes.
#[derive(Debug)]
struct Collector {
    statistics: Statistics,
    /// The number of events that the header claims.
    expected: u64,
    events: u64,
    blocks: Vec<Option<Live>>,
    sizes: HashMap<u64, OfSize>,
    live_blocks: Split,
    live_allocated: Split,
    live_requested: u64,
}

impl Collector {
    /// Creates the collector of a trace of about this many events. The number need not be exact.
    fn new(events: u64) -> Self {
        let parts = events.clamp(1, PARTS as u64) as usize;
        let none = || vec![0; parts];
        let statistics = Statistics {
            live_bytes: none(),
            live_blocks: none(),
            requests: none(),
            asked_bytes: none(),
            freed: none(),
            ..Statistics::default()
        };
        Self {
            statistics,
            expected: events.max(1),
            events: 0,
            blocks: Vec::new(),
            sizes: HashMap::new(),
            live_blocks: Split::default(),
            live_allocated: Split::default(),
            live_requested: 0,
        }
    }

    /// Returns the number of distinct sizes so far.
    fn sizes(&self) -> u64 {
        self.sizes.len() as u64
    }

    /// Records a valid event of a trace. Returns whether its size is a new one.
    fn enter(&mut self, event: Event) -> bool {
        let before = self.sizes.len();
        match event {
            Event::Allocate { slot, size, .. } => {
                self.statistics.allocations.add(allocated(size), 1);
                self.record_request(slot, size, self.events);
            }
            Event::Reallocate { slot, size } => {
                if let Some(block) = self.take(slot) {
                    self.statistics.reallocations += 1;
                    self.record_request(slot, size, block.born);
                }
            }
            Event::Free { slot } => {
                if let Some(block) = self.take(slot) {
                    self.statistics.frees += 1;
                    let part = self.part();
                    self.statistics.freed[part] += 1;
                    self.statistics.lifetime_histogram.enter(self.events - block.born);
                }
            }
            Event::Thread { .. } | Event::Tick { .. } => {}
        }
        let part = self.part();
        let statistics = &mut self.statistics;
        statistics.live_bytes[part] = statistics.live_bytes[part].max(self.live_requested);
        statistics.live_blocks[part] = statistics.live_blocks[part].max(self.live_blocks.all);
        self.events += 1;
        self.sizes.len() > before
    }

    /// Returns the part of the trace that contains the current event.
    fn part(&self) -> usize {
        let parts = self.statistics.live_bytes.len();
        let part = u128::from(self.events) * parts as u128 / u128::from(self.expected);
        (part as usize).min(parts - 1)
    }

    /// Records a block of `size` bytes in its slot.
    fn record_request(&mut self, slot: u32, size: u64, born: u64) {
        let allocated = allocated(size);
        let part = self.part();
        let statistics = &mut self.statistics;
        statistics.requests[part] += 1;
        statistics.asked_bytes[part] = statistics.asked_bytes[part].saturating_add(size);
        statistics.requested_bytes = statistics.requested_bytes.saturating_add(size);
        statistics.allocated_bytes.add(allocated, allocated);
        statistics.requests_by_size.add(allocated, 1);
        statistics.size_histogram.enter(size);

        let of_size = self.sizes.entry(allocated).or_default();
        if of_size.most == 0 {
            statistics.sizes.add(allocated, 1);
        }
        of_size.live += 1;
        of_size.most = of_size.most.max(of_size.live);

        self.live_blocks.add(allocated, 1);
        self.live_allocated.add(allocated, allocated);
        self.live_requested += size;
        statistics.max_live_blocks.raise(self.live_blocks);
        statistics.max_allocated_bytes.raise(self.live_allocated);
        statistics.max_requested_bytes = statistics.max_requested_bytes.max(self.live_requested);

        if self.blocks.len() <= slot as usize {
            self.blocks.resize(slot as usize + 1, None);
        }
        self.blocks[slot as usize] = Some(Live { requested: size, born });
    }

    /// Removes the block from its slot.
    fn take(&mut self, slot: u32) -> Option<Live> {
        let block = self.blocks.get_mut(slot as usize)?.take()?;
        let allocated = allocated(block.requested);
        if let Some(of_size) = self.sizes.get_mut(&allocated) {
            of_size.live -= 1;
        }
        self.live_blocks.subtract(allocated, 1);
        self.live_allocated.subtract(allocated, allocated);
        self.live_requested -= block.requested;
        Some(block)
    }

    /// Returns the statistics of all recorded events.
    fn finish(mut self) -> Statistics {
        let of_sizes = self.sizes.iter().map(|(&size, of_size)| size as f64 * of_size.most as f64);
        // The sum of no numbers would be -0.
        let segregated = of_sizes.fold(0.0, |sum, one| sum + one);
        let most = self.statistics.max_allocated_bytes.all.max(1);
        self.statistics.segregated_storage_percent = 100.0 * segregated / most as f64;
        self.statistics
    }
}

/// Returns the bytes that the paper's allocator uses for a request.
fn allocated(size: u64) -> u64 {
    size.saturating_add(8).checked_next_multiple_of(8).unwrap_or(u64::MAX).max(16)
}

/// Returns the header of a trace, the statistics of its requests, and their times, if it has any.
///
/// # Errors
/// If the trace cannot be read, or exceeds the limits.
pub fn of(path: &Path) -> anyhow::Result<(Header, Statistics, Option<Times>)> {
    let mut reader = input::open(path)?.with_progress();
    let mut collector = Collector::new(reader.header().events);
    let blocks = reader.header().peak_blocks;
    for event in &mut reader {
        if collector.enter(event?) {
            input::within_memory_of(path, blocks, collector.sizes())?;
        }
    }
    let times = reader.take_times();
    Ok((reader.header().clone(), collector.finish(), times))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(events: &[Event]) -> Statistics {
        let mut collector = Collector::new(events.len() as u64);
        for &event in events {
            collector.enter(event);
        }
        collector.finish()
    }

    fn allocate(slot: u32, size: u64) -> Event {
        Event::Allocate { slot, size, align: 16 }
    }

    #[test]
    fn nothing_takes_zero_percent() {
        assert!(collect(&[]).segregated_storage_percent.is_sign_positive());
    }

    #[test]
    fn requests_are_rounded_as_in_the_paper() {
        assert_eq!([0, 1, 8, 9, 1016, 1017].map(allocated), [16, 16, 16, 24, 1024, 1032]);
        assert_eq!(allocated(u64::MAX), u64::MAX);
    }

    #[test]
    fn small_and_large_part_at_a_kibibyte() {
        let statistics = collect(&[allocate(0, 1016), allocate(1, 1017)]);
        assert_eq!(statistics.sizes, Split { all: 2, small: 1, large: 1 });
        assert_eq!(statistics.allocated_bytes, Split { all: 2056, small: 1024, large: 1032 });
        assert_eq!(statistics.max_live_blocks, Split { all: 2, small: 1, large: 1 });
        assert_eq!(statistics.requested_bytes, 2033);
    }

    #[test]
    fn segregated_storage_keeps_the_peak_of_each_size() {
        // Two sizes of 16 and 32 bytes that are never live together: 48 bytes for a peak of 32.
        let events = [allocate(0, 8), Event::Free { slot: 0 }, allocate(0, 24)];
        assert_eq!(collect(&events).segregated_storage_percent, 150.0);
    }

    #[test]
    fn reallocations_request_their_new_size() {
        let events = [allocate(0, 8), Event::Reallocate { slot: 0, size: 24 }];
        let statistics = collect(&events);
        assert_eq!((statistics.allocations.all, statistics.reallocations), (1, 1));
        assert_eq!(statistics.requests_by_size, Split { all: 2, small: 2, large: 0 });
        assert_eq!((statistics.requested_bytes, statistics.max_requested_bytes), (32, 24));
        assert_eq!(statistics.max_allocated_bytes.all, 32);
    }

    #[test]
    fn a_lifetime_is_counted_in_events() {
        let events =
            [allocate(0, 8), allocate(1, 8), Event::Free { slot: 0 }, Event::Free { slot: 1 }];
        let statistics = collect(&events);
        assert_eq!(statistics.lifetime_histogram.bins().collect::<Vec<_>>(), [(2, 2)]);
        assert_eq!(statistics.live_bytes, [8, 16, 8, 0]);
        assert_eq!(statistics.live_blocks, [1, 2, 1, 0]);
        assert_eq!((statistics.requests, statistics.freed), (vec![1, 1, 0, 0], vec![0, 0, 1, 1]));
        assert_eq!(statistics.asked_bytes, [8, 8, 0, 0]);
    }

    #[test]
    fn a_wrong_number_of_events_does_no_harm() {
        let mut collector = Collector::new(1);
        for slot in 0..10 {
            collector.enter(allocate(slot, 8));
        }
        assert_eq!(collector.finish().live_bytes, [80]);
    }
}
