//! Decodes events into operations, and sums up the requests.
//!
//! The trace's reader has checked every event already. They are checked here again, because the
//! replay's `unsafe` code relies on it.

use std::alloc::Layout;

use anyhow::{Result, anyhow};
use pagewise::trace::{Event, Invalid};

use super::op::{Batch, Kind, Op};

/// A trace's figures that do not depend on the allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Events.
    pub events: u64,
    /// Allocations.
    pub allocations: u64,
    /// Reallocations.
    pub reallocations: u64,
    /// Frees, except those that a replay adds at the end.
    pub frees: u64,
    /// Blocks still live when the trace ends; a replay frees them.
    pub live_at_end: u64,
    /// Peak of the bytes requested and not yet freed; `u64::MAX` if it is more.
    pub peak_requested: u64,
    /// Upper bound on the peak number of live blocks: the length of the slot table.
    pub slots: usize,
}

impl Facts {
    /// Returns the number of operations of a replay, including the frees at its end.
    pub fn operations(&self) -> u64 {
        self.pairs() + self.frees + self.live_at_end
    }

    /// Returns the number of requests with a matching free, by which times and items are divided.
    pub fn pairs(&self) -> u64 {
        self.allocations + self.reallocations
    }
}

/// A live block.
#[derive(Clone, Copy, Debug)]
struct Live {
    /// The size as recorded, possibly 0.
    requested: u64,
    align: u8,
}

impl Live {
    /// Returns the size to request: every block has at least one byte to write to.
    fn size(self) -> usize {
        self.requested.max(1) as usize
    }
}

/// Decodes events into operations, and appends a free for every block live at the end.
#[derive(Debug)]
pub(super) struct Decoder<I> {
    events: I,
    live: Vec<Option<Live>>,
    /// The sum of the live blocks' sizes, which may exceed an address space.
    requested: u128,
    facts: Facts,
    /// The next slot to free after the last event; `None` before.
    emptying: Option<usize>,
}

impl<I, E> Decoder<I>
where
    I: Iterator<Item = Result<Event, E>>,
    E: Into<anyhow::Error>,
{
    pub(super) fn new(events: I) -> Self {
        Self { events, live: Vec::new(), requested: 0, facts: Facts::default(), emptying: None }
    }

    /// Makes room for `slots` slots, and writes to it: the table then takes no more memory.
    pub(super) fn reserve(&mut self, slots: usize) {
        let len = self.live.len();
        let written = Some(Live { requested: u64::MAX, align: u8::MAX });
        self.live.resize(len.max(slots), written);
        self.live.truncate(len);
    }

    /// Returns the figures so far.
    pub(super) fn facts(&self) -> Facts {
        self.facts
    }

    /// Returns whether every event was decoded and every block freed.
    pub(super) fn is_done(&self) -> bool {
        self.emptying == Some(self.live.len())
    }

    /// Appends operations up to a total of `most`; returns `true` once there are no more.
    ///
    /// # Errors
    /// The first event that cannot be read or is invalid, by its number.
    pub(super) fn fill(&mut self, batch: &mut Batch, most: usize) -> Result<bool> {
        while self.emptying.is_none() && batch.len() < most {
            let Some(event) = self.events.next() else {
                self.emptying = Some(0);
                break;
            };
            let event = event.map_err(Into::into)?;
            self.facts.events += 1;
            let op = self.operation(event);
            let op = op.map_err(|invalid| anyhow!("event {}: {invalid}", self.facts.events))?;
            if let Some(op) = op {
                batch.push(op);
            }
        }
        while let Some(slot) = self.emptying
            && slot < self.live.len()
            && batch.len() < most
        {
            if let Some(block) = self.live[slot].take() {
                self.facts.live_at_end += 1;
                batch.push(free(slot as u32, block));
            }
            self.emptying = Some(slot + 1);
        }
        Ok(self.is_done())
    }

    /// Returns the operation for an event; `None` if it does not concern a block.
    fn operation(&mut self, event: Event) -> Result<Option<Op>, Invalid> {
        let op = match event {
            Event::Allocate { slot, size, align } => {
                if !align.is_power_of_two() {
                    return Err(Invalid::Align { align });
                }
                let align = align.trailing_zeros() as u8;
                let block = Live { requested: check_size(size, align)?, align };
                self.admit(slot)?;
                self.live[slot as usize] = Some(block);
                self.facts.allocations += 1;
                self.record_request(size);
                Op { old: 0, new: block.size(), slot, align, kind: Kind::Allocate }
            }
            Event::Reallocate { slot, size } => {
                let block = self.find(slot)?;
                let old = *block;
                block.requested = check_size(size, old.align)?;
                let new = block.size();
                self.facts.reallocations += 1;
                self.requested -= u128::from(old.requested);
                self.record_request(size);
                Op { old: old.size(), new, slot, align: old.align, kind: Kind::Reallocate }
            }
            Event::Free { slot } => {
                let block = *self.find(slot)?;
                self.live[slot as usize] = None;
                self.facts.frees += 1;
                self.requested -= u128::from(block.requested);
                free(slot, block)
            }
            Event::Thread { .. } | Event::Tick { .. } => return Ok(None),
        };
        Ok(Some(op))
    }

    /// Checks that `slot` is free, and extends the table if necessary. Slots are assigned in order,
    /// so the table grows by one at a time.
    fn admit(&mut self, slot: u32) -> Result<(), Invalid> {
        let next = self.live.len();
        match self.live.get(slot as usize) {
            Some(None) => Ok(()),
            None if slot as usize == next => {
                self.live.push(None);
                self.facts.slots = self.live.len();
                Ok(())
            }
            _ => Err(Invalid::Slot { slot, expected: next as u32 }),
        }
    }

    fn find(&mut self, slot: u32) -> Result<&mut Live, Invalid> {
        let found = self.live.get_mut(slot as usize).and_then(Option::as_mut);
        found.ok_or(Invalid::NotLive { slot })
    }

    fn record_request(&mut self, size: u64) {
        self.requested += u128::from(size);
        let requested = u64::try_from(self.requested).unwrap_or(u64::MAX);
        self.facts.peak_requested = self.facts.peak_requested.max(requested);
    }
}

/// Returns the size, if it makes a valid layout with this alignment (given by its logarithm).
fn check_size(size: u64, align: u8) -> Result<u64, Invalid> {
    let invalid = Invalid::Size { size };
    let bytes = usize::try_from(size.max(1)).map_err(|_| invalid)?;
    Layout::from_size_align(bytes, 1 << align).map_err(|_| invalid)?;
    Ok(size)
}

fn free(slot: u32, block: Live) -> Op {
    Op { old: block.size(), new: 0, slot, align: block.align, kind: Kind::Free }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(events: &[Event]) -> Result<(Facts, usize)> {
        let mut decoder = Decoder::new(events.iter().copied().map(anyhow::Ok));
        let mut batch = Batch::default();
        assert!(decoder.fill(&mut batch, usize::MAX)?);
        Ok((decoder.facts(), batch.len()))
    }

    fn allocate(slot: u32, size: u64) -> Event {
        Event::Allocate { slot, size, align: 16 }
    }

    #[test]
    fn a_table_with_room_takes_no_more_memory() {
        let events = (0..1000).map(|slot| anyhow::Ok(allocate(slot, 1)));
        let mut decoder = Decoder::new(events);
        decoder.reserve(1000);
        let room = decoder.live.capacity();
        assert!(decoder.fill(&mut Batch::default(), usize::MAX).unwrap());
        assert_eq!((decoder.live.capacity(), decoder.facts().slots), (room, 1000));
    }

    #[test]
    fn blocks_live_at_the_end_are_freed() {
        let (facts, ops) = decode(&[allocate(0, 10), allocate(1, 0)]).unwrap();
        assert_eq!(ops, 4);
        assert_eq!((facts.live_at_end, facts.slots, facts.pairs()), (2, 2, 2));
        assert_eq!(facts.operations(), 4);
    }

    #[test]
    fn the_peak_counts_what_is_live_at_one_time() {
        let events = [
            allocate(0, 10),
            Event::Reallocate { slot: 0, size: 30 },
            Event::Free { slot: 0 },
            allocate(0, 20),
        ];
        assert_eq!(decode(&events).unwrap().0.peak_requested, 30);
    }

    /// More bytes than an address space has: only events that were not read from a trace.
    #[test]
    fn the_bytes_live_may_exceed_an_address_space() {
        let huge = |slot| allocate(slot, i64::MAX as u64 - 15);
        let frees = (0..4).map(|slot| Event::Free { slot });
        let events: Vec<_> = (0..4).map(huge).chain(frees).chain([allocate(0, 1)]).collect();
        let facts = decode(&events).unwrap().0;
        assert_eq!((facts.peak_requested, facts.frees, facts.live_at_end), (u64::MAX, 4, 1));
    }

    #[test]
    fn invalid_events_are_named() {
        let message = |events: &[Event]| decode(events).unwrap_err().to_string();
        assert_eq!(message(&[Event::Free { slot: 0 }]), "event 1: no block is live in slot 0");
        assert!(message(&[allocate(0, 1), allocate(0, 1)]).starts_with("event 2: "));
        assert!(message(&[allocate(7, 1)]).contains("slot 7"));
        assert!(message(&[allocate(0, u64::MAX)]).contains("more than 2^63 - 1 bytes"));
        let crooked = Event::Allocate { slot: 0, size: 1, align: 3 };
        assert!(message(&[crooked]).contains("power of two"));
    }

    #[test]
    fn batches_add_up_to_the_whole() {
        let events = [allocate(0, 1), allocate(1, 2), Event::Free { slot: 0 }];
        let mut decoder = Decoder::new(events.iter().copied().map(anyhow::Ok));
        let mut ops = Vec::new();
        while !decoder.is_done() {
            let mut batch = Batch::default();
            decoder.fill(&mut batch, 1).unwrap();
            ops.push(batch.len());
        }
        assert_eq!(ops.iter().sum::<usize>(), 4);
    }
}
