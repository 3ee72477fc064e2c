//! The live blocks at a point of a trace: [`Ledger`], which alone decides whether an event is
//! valid.

use super::error::Invalid;
use super::event::Event;
use super::slots::Slots;

/// The largest size of a block: `isize::MAX` of a 64-bit machine.
pub(crate) const LARGEST: u64 = i64::MAX as u64;

/// Tracks a sequence of events: the slots in use and their sizes, the peaks, and the threads seen.
/// Memory: 12 bytes per slot ever used.
///
/// [`Reader`](super::Reader) and [`Writer`](super::Writer) have one each.
#[derive(Debug, Default)]
pub struct Ledger {
    slots: Slots,
    /// Size of the block in each slot; meaningless for a free slot.
    sizes: Vec<u64>,
    live_bytes: u64,
    counts: Counts,
}

/// The sums of a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Counts {
    /// Events of any kind.
    pub events: u64,
    /// Threads: one more than the greatest number seen.
    pub threads: u32,
    /// Peak number of live blocks.
    pub peak_blocks: u64,
    /// Peak of the live bytes, as requested.
    pub peak_bytes: u64,
}

impl Ledger {
    /// Returns the ledger before the first event.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for `slots` live blocks: see [`Slots::reserve`].
    pub fn reserve(&mut self, slots: usize) {
        self.slots.reserve(slots);
        let len = self.sizes.len();
        self.sizes.resize(len.max(slots), u64::MAX);
        self.sizes.truncate(len);
    }

    /// Returns the sums over the events so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Records an event. O(1) amortised.
    ///
    /// # Errors
    /// Why the event is invalid here; nothing is changed.
    #[inline]
    pub fn enter(&mut self, event: Event) -> Result<(), Invalid> {
        match event {
            Event::Allocate { slot, size, align } => self.allocate(slot, size, align)?,
            Event::Reallocate { slot, size } => self.reallocate(slot, size)?,
            Event::Free { slot } => {
                if !self.slots.free(slot) {
                    return Err(Invalid::NotLive { slot });
                }
                self.live_bytes -= self.sizes[slot as usize];
            }
            Event::Thread { thread } => {
                // Numbers are assigned in order, so a new thread's is the next one.
                if thread > self.counts.threads.max(1) || thread == u32::MAX {
                    return Err(Invalid::Thread { thread });
                }
                self.counts.threads = self.counts.threads.max(thread + 1);
            }
            Event::Tick { .. } => {}
        }
        self.counts.threads = self.counts.threads.max(1);
        self.counts.events += 1;
        Ok(())
    }

    /// Returns the slot that the next allocation must take.
    pub(crate) fn next_slot(&self) -> Result<u32, Invalid> {
        self.slots.next().ok_or(Invalid::TooManyLive)
    }

    fn allocate(&mut self, slot: u32, size: u64, align: u32) -> Result<(), Invalid> {
        let expected = self.next_slot()?;
        if slot != expected {
            return Err(Invalid::Slot { slot, expected });
        }
        if !align.is_power_of_two() {
            return Err(Invalid::Align { align });
        }
        self.live_bytes = self.grown(0, size)?;
        self.slots.take();
        match self.sizes.get_mut(slot as usize) {
            Some(entry) => *entry = size,
            None => self.sizes.push(size),
        }
        self.note_peaks();
        Ok(())
    }

    fn reallocate(&mut self, slot: u32, size: u64) -> Result<(), Invalid> {
        if !self.slots.is_live(slot) {
            return Err(Invalid::NotLive { slot });
        }
        self.live_bytes = self.grown(self.sizes[slot as usize], size)?;
        self.sizes[slot as usize] = size;
        self.note_peaks();
        Ok(())
    }

    /// Returns the live bytes after a block of `old` bytes becomes one of `new` bytes.
    fn grown(&self, old: u64, new: u64) -> Result<u64, Invalid> {
        if new > LARGEST {
            return Err(Invalid::Size { size: new });
        }
        // An address space has at most this many bytes, so the sum cannot overflow.
        let live = self.live_bytes - old + new;
        if live > LARGEST { Err(Invalid::Size { size: new }) } else { Ok(live) }
    }

    fn note_peaks(&mut self) {
        self.counts.peak_blocks = self.counts.peak_blocks.max(self.slots.live().into());
        self.counts.peak_bytes = self.counts.peak_bytes.max(self.live_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(events: &[Event]) -> Result<Counts, Invalid> {
        let mut ledger = Ledger::default();
        for &event in events {
            ledger.enter(event)?;
        }
        Ok(ledger.counts)
    }

    const A: Event = Event::Allocate { slot: 0, size: 100, align: 16 };

    #[test]
    fn reserved_blocks_take_no_more_memory() {
        let mut ledger = Ledger::new();
        ledger.reserve(1000);
        let room = ledger.sizes.capacity();
        let enter = |slot| ledger.enter(Event::Allocate { slot, size: 1, align: 1 });
        assert!((0..1000).map(enter).all(|entered| entered.is_ok()));
        assert_eq!((ledger.sizes.capacity(), ledger.counts.peak_blocks), (room, 1000));
    }

    #[test]
    fn counts_are_kept() {
        let events = [
            A,
            Event::Thread { thread: 1 },
            Event::Allocate { slot: 1, size: 0, align: 1 },
            Event::Reallocate { slot: 0, size: 40 },
            Event::Free { slot: 0 },
            Event::Tick { ticks: 5 },
            Event::Allocate { slot: 0, size: 60, align: 4096 },
        ];
        let counts = Counts { events: 7, threads: 2, peak_blocks: 2, peak_bytes: 100 };
        assert_eq!(enter(&events), Ok(counts));
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    #[cfg_attr(miri, ignore = "fills a gibibyte with Miri; there is nothing unsafe")]
    fn a_block_beyond_the_last_slot_is_refused() {
        let slots = Slots::all_in_use(1 << 28);
        let mut ledger = Ledger { slots, ..Ledger::default() };
        assert_eq!(ledger.enter(A), Err(Invalid::TooManyLive));
        assert_eq!(ledger.counts(), Counts::default());
    }

    /// Regression: the number of threads overflowed. A trace with as many would have gigabytes, so
    /// the ledger begins with a count near the limit.
    #[test]
    fn a_thread_too_many_is_refused() {
        let counts = Counts { threads: u32::MAX, ..Counts::default() };
        let mut ledger = Ledger { counts, ..Ledger::default() };
        assert_eq!(ledger.enter(Event::Thread { thread: u32::MAX - 1 }), Ok(()));
        let invalid = Invalid::Thread { thread: u32::MAX };
        assert_eq!(ledger.enter(Event::Thread { thread: u32::MAX }), Err(invalid));
        assert_eq!(ledger.counts().threads, u32::MAX);
    }

    #[test]
    fn each_kind_of_invalid_event_is_named() {
        let huge = u64::MAX >> 1;
        let cases: &[(&[Event], Invalid)] = &[
            (&[Event::Free { slot: 0 }], Invalid::NotLive { slot: 0 }),
            (&[A, Event::Free { slot: 0 }, Event::Free { slot: 0 }], Invalid::NotLive { slot: 0 }),
            (&[Event::Reallocate { slot: 7, size: 1 }], Invalid::NotLive { slot: 7 }),
            (&[A, A], Invalid::Slot { slot: 0, expected: 1 }),
            (&[Event::Allocate { slot: 0, size: 1, align: 3 }], Invalid::Align { align: 3 }),
            (&[Event::Allocate { slot: 0, size: 1, align: 0 }], Invalid::Align { align: 0 }),
            (
                &[Event::Allocate { slot: 0, size: huge + 1, align: 1 }],
                Invalid::Size { size: huge + 1 },
            ),
            (&[A, Event::Allocate { slot: 1, size: huge, align: 1 }], Invalid::Size { size: huge }),
            (&[A, Event::Reallocate { slot: 0, size: u64::MAX }], Invalid::Size { size: u64::MAX }),
            (
                &[A, Event::Allocate { slot: 1, size: u64::MAX, align: 1 }],
                Invalid::Size { size: u64::MAX },
            ),
            (&[A, Event::Thread { thread: 2 }], Invalid::Thread { thread: 2 }),
        ];
        for (events, invalid) in cases {
            assert_eq!(enter(events), Err(*invalid), "{events:?}");
        }
    }
}
