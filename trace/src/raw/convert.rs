//! Converts the records of a raw log, which name blocks by address, into events: [`Converter`].

use core::fmt;
use std::collections::hash_map::Entry;

use super::blocks::Blocks;
use super::record::Record;
use crate::event::Event;
use crate::hash::Numbers;
use crate::slots::Slots;

/// Converts records to events, one at a time. Memory is bounded by the peak number of live blocks
/// and the number of threads.
#[derive(Debug, Default)]
pub struct Converter {
    slots: Slots,
    /// The slot of each live block, by its address.
    blocks: Blocks,
    /// The number in the trace of each thread in the log.
    threads: Numbers<u32, u32>,
    /// The thread of the last event: its number in the log, if there is one, and in the trace.
    current: (Option<u32>, u32),
    /// The latest unfinished reallocation with its thread, if there is one; and the others. A
    /// thread has several if a signal handler interrupted it.
    latest: Option<(u32, Pending)>,
    pending: Numbers<u32, Vec<Pending>>,
    /// The number of reallocations in `pending`; no list there is empty.
    waiting: usize,
    dropped: Dropped,
}

/// A reallocation that has begun. Its block was removed from `blocks`, because its address may
/// already belong to another: only the record of its end is certain to come after the move.
#[derive(Debug)]
struct Pending {
    address: u64,
    /// `None` if the block is new or unknown.
    slot: Option<u32>,
    size: u64,
    align_log2: u8,
    site: u32,
}

/// Counts of records that could not be converted exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Frees of blocks unknown to the log: inherited by a forked child, allocated before the
    /// recorder started, or allocated in ways it does not see. They were left out.
    pub unknown_frees: u64,
    /// Reallocations of such blocks. They became allocations.
    pub unknown_reallocations: u64,
    /// Blocks whose address was allocated again although their free was not recorded. A free was
    /// inserted.
    pub missed_frees: u64,
    /// Ends of reallocations without a recorded beginning. They were left out.
    pub unpaired: u64,
    /// Allocations beyond 2²⁸ live blocks. They were left out.
    pub unnamed: u64,
}

impl Converter {
    /// Returns a converter for a log, at its beginning.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Converts a record and passes the resulting events, 0 to 3 of them, to `emit`.
    ///
    /// # Errors
    /// The first error of `emit`; the converter must not be used afterwards.
    pub fn convert<E>(
        &mut self,
        thread: u32,
        record: Record,
        mut emit: impl FnMut(Event) -> Result<(), E>,
    ) -> Result<(), E> {
        self.convert_at(thread, record, 0, |event, _| emit(event))
    }

    /// Like [`convert`](Self::convert), for a record made at `site`. Also passes the site of each
    /// event, which is 0 except for allocations and reallocations.
    ///
    /// # Errors
    /// As for `convert`.
    #[inline]
    pub fn convert_at<E>(
        &mut self,
        thread: u32,
        record: Record,
        site: u32,
        emit: impl FnMut(Event, u32) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut emit = InThread { thread, emit };
        match record {
            Record::Allocated { address, size, align_log2 } => {
                self.allocated(address, size, align_log2, site, &mut emit)
            }
            Record::Freeing { address: 0 } => Ok(()),
            Record::Freeing { address } => match self.blocks.remove(address) {
                Some(slot) => self.free(slot, &mut emit),
                None => {
                    self.dropped.unknown_frees += 1;
                    Ok(())
                }
            },
            Record::Reallocating { address, size, align_log2 } => {
                let slot = self.blocks.remove(address);
                let begun = Pending { address, slot, size, align_log2, site };
                if let Some((thread, before)) = self.latest.replace((thread, begun)) {
                    self.pending.entry(thread).or_default().push(before);
                    self.waiting += 1;
                }
                Ok(())
            }
            Record::Reallocated { address } => match self.begun(thread) {
                Some(pending) => self.reallocated(pending, address, &mut emit),
                None => {
                    self.dropped.unpaired += 1;
                    Ok(())
                }
            },
        }
    }

    /// Returns the latest reallocation that a thread has begun, which is finished now.
    fn begun(&mut self, thread: u32) -> Option<Pending> {
        match self.latest.take_if(|(of, _)| *of == thread) {
            Some((_, pending)) => Some(pending),
            None => {
                // A thread without any takes no memory.
                let Entry::Occupied(mut begun) = self.pending.entry(thread) else { return None };
                let pending = begun.get_mut().pop();
                if begun.get().is_empty() {
                    begun.remove();
                }
                self.waiting -= usize::from(pending.is_some());
                pending
            }
        }
    }

    /// Returns the counts so far of records that could not be converted exactly.
    #[must_use]
    pub fn dropped(&self) -> Dropped {
        self.dropped
    }

    /// Returns the number of blocks, threads and reallocations that the converter remembers, to
    /// which its memory is proportional.
    #[must_use]
    pub fn remembered(&self) -> u64 {
        let unfinished = self.waiting + usize::from(self.latest.is_some());
        (self.blocks.remembered() + self.threads.len() + unfinished) as u64
    }

    #[inline]
    fn allocated<E, F: FnMut(Event, u32) -> Result<(), E>>(
        &mut self,
        address: u64,
        size: u64,
        align_log2: u8,
        site: u32,
        emit: &mut InThread<F>,
    ) -> Result<(), E> {
        self.vacate(address, emit)?;
        let Some(slot) = self.slots.take() else {
            self.dropped.unnamed += 1;
            return Ok(());
        };
        self.blocks.insert(address, slot);
        // The largest that a trace can express.
        let align = 1 << align_log2.min(31);
        self.emit(Event::Allocate { slot, size, align }, site, emit)
    }

    fn reallocated<E, F: FnMut(Event, u32) -> Result<(), E>>(
        &mut self,
        pending: Pending,
        address: u64,
        emit: &mut InThread<F>,
    ) -> Result<(), E> {
        let Pending { address: old, slot, size, align_log2, site } = pending;
        match (slot, address) {
            (Some(slot), 0) if size == 0 => self.free(slot, emit),
            (Some(slot), 0) => {
                self.blocks.insert(old, slot);
                Ok(())
            }
            (Some(slot), address) => {
                self.vacate(address, emit)?;
                self.blocks.insert(address, slot);
                self.emit(Event::Reallocate { slot, size }, site, emit)
            }
            (None, address) => {
                self.dropped.unknown_reallocations += u64::from(old != 0);
                if address == 0 {
                    Ok(())
                } else {
                    self.allocated(address, size, align_log2, site, emit)
                }
            }
        }
    }

    /// Frees the block at an address that is allocated again, if there is one.
    fn vacate<E, F: FnMut(Event, u32) -> Result<(), E>>(
        &mut self,
        address: u64,
        emit: &mut InThread<F>,
    ) -> Result<(), E> {
        match self.blocks.remove(address) {
            Some(slot) => {
                self.dropped.missed_frees += 1;
                self.free(slot, emit)
            }
            None => Ok(()),
        }
    }

    fn free<E, F: FnMut(Event, u32) -> Result<(), E>>(
        &mut self,
        slot: u32,
        emit: &mut InThread<F>,
    ) -> Result<(), E> {
        self.slots.free(slot);
        self.emit(Event::Free { slot }, 0, emit)
    }

    /// Emits an event, after a change of thread if its thread differs from the last one's.
    #[inline]
    fn emit<E, F: FnMut(Event, u32) -> Result<(), E>>(
        &mut self,
        event: Event,
        site: u32,
        to: &mut InThread<F>,
    ) -> Result<(), E> {
        if self.current.0 != Some(to.thread) {
            self.change(to)?;
        }
        (to.emit)(event, site)
    }

    /// Changes to another thread.
    #[cold]
    fn change<E, F: FnMut(Event, u32) -> Result<(), E>>(
        &mut self,
        to: &mut InThread<F>,
    ) -> Result<(), E> {
        let new = self.threads.len() as u32;
        let thread = *self.threads.entry(to.thread).or_insert(new);
        let before = core::mem::replace(&mut self.current, (Some(to.thread), thread));
        if thread == before.1 { Ok(()) } else { (to.emit)(Event::Thread { thread }, 0) }
    }
}

/// The destination of events, and the log's number of their thread.
struct InThread<F> {
    thread: u32,
    emit: F,
}

impl Dropped {
    /// Returns whether every record was converted exactly.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.unknown_frees, "free", "of unknown blocks left out"),
            (self.unknown_reallocations, "reallocation", "of unknown blocks made allocations"),
            (self.missed_frees, "missing free", "inserted"),
            (self.unpaired, "end", "of reallocations without a beginning left out"),
            (self.unnamed, "allocation", "beyond 2^28 live blocks left out"),
        ];
        let mut separator = "";
        for (count, what, how) in parts.into_iter().filter(|(count, ..)| *count > 0) {
            let plural = if count == 1 { "" } else { "s" };
            write!(f, "{separator}{count} {what}{plural} {how}")?;
            separator = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::convert::Infallible;

    fn convert(records: &[(u32, Record)]) -> (Vec<Event>, Dropped) {
        let (mut converter, mut events) = (Converter::new(), Vec::new());
        for &(thread, record) in records {
            let Ok(()) = converter.convert(thread, record, |event| {
                events.push(event);
                Ok::<_, Infallible>(())
            });
        }
        (events, converter.dropped())
    }

    const fn allocated(address: u64) -> Record {
        Record::Allocated { address, size: 10, align_log2: 4 }
    }

    const fn reallocating(address: u64, size: u64) -> Record {
        Record::Reallocating { address, size, align_log2: 4 }
    }

    const fn allocate(slot: u32, size: u64) -> Event {
        Event::Allocate { slot, size, align: 16 }
    }

    /// A record may have any alignment; 32 and more overflowed.
    #[test]
    fn an_alignment_beyond_a_traces_is_the_largest_it_has() {
        for align_log2 in [31, 32, 40, 64, u8::MAX] {
            let (events, _) =
                convert(&[(7, Record::Allocated { address: 8, size: 1, align_log2 })]);
            assert_eq!(events, [Event::Allocate { slot: 0, size: 1, align: 1 << 31 }]);
        }
    }

    #[test]
    fn memory_is_proportional_to_the_live_blocks() {
        let mut converter = Converter::new();
        let mut after = |record| {
            let Ok(()) = converter.convert(0, record, |_| Ok::<_, Infallible>(()));
            converter.remembered()
        };
        let one = after(allocated(100));
        assert!(one >= 1);
        assert_eq!(after(allocated(200)), one + 1);
        assert_eq!(after(allocated(300)), one + 2);
        assert_eq!(after(Record::Freeing { address: 200 }), one + 1);
    }

    /// (Regression: each thread that had waited kept an empty list, which nothing counted.)
    #[test]
    fn a_finished_reallocation_is_forgotten() {
        let mut converter = Converter::new();
        let mut convert = |thread, record| {
            let Ok(()) = converter.convert(thread, record, |_| Ok::<_, Infallible>(()));
            (converter.pending.len(), converter.remembered())
        };
        let ended = Record::Reallocated { address: 0 };
        for thread in 0..1000 {
            convert(thread, reallocating(100, 10));
            // Makes the other wait.
            assert_eq!(convert(thread + 1, reallocating(100, 10)), (1, 2));
            convert(thread, ended);
            assert_eq!(convert(thread + 1, ended), (0, 0));
        }
    }

    #[test]
    #[cfg(target_pointer_width = "64")]
    #[cfg_attr(miri, ignore = "fills a gibibyte with Miri; there is nothing unsafe")]
    fn blocks_beyond_the_last_slot_are_left_out_and_counted() {
        let slots = Slots::all_in_use(1 << 28);
        let mut converter = Converter { slots, ..Converter::default() };
        for address in [16, 32] {
            let Ok(()) =
                converter.convert(0, allocated(address), |event| -> Result<_, Infallible> {
                    panic!("{event:?}")
                });
        }
        assert_eq!(converter.dropped(), Dropped { unnamed: 2, ..Dropped::default() });
        let words = "2 allocations beyond 2^28 live blocks left out";
        assert_eq!(converter.dropped().to_string(), words);
    }

    #[test]
    fn a_converter_is_shown_without_its_tables() {
        let mut converter = Converter::new();
        for address in 1..=1000 {
            let Ok(()) = converter.convert(0, allocated(address), |_| Ok::<_, Infallible>(()));
        }
        let shown = format!("{:?}", converter.blocks);
        assert_eq!(shown, "Blocks { len: 1000, .. }");
    }

    #[test]
    fn an_address_reused_during_a_reallocation_is_not_confused() {
        let (events, dropped) = convert(&[
            (7, allocated(100)),
            (7, reallocating(100, 50)),
            (8, allocated(100)),
            (7, Record::Reallocated { address: 200 }),
            (8, Record::Freeing { address: 100 }),
            (7, Record::Freeing { address: 200 }),
        ]);
        let (first, second) = (Event::Thread { thread: 0 }, Event::Thread { thread: 1 });
        let expected = [
            allocate(0, 10),
            second,
            allocate(1, 10),
            first,
            Event::Reallocate { slot: 0, size: 50 },
            second,
            Event::Free { slot: 1 },
            first,
            Event::Free { slot: 0 },
        ];
        assert_eq!(events, expected);
        assert!(dropped.is_nothing());
    }

    #[test]
    fn edge_cases_of_c_are_kept() {
        let (events, dropped) = convert(&[
            (1, Record::Freeing { address: 0 }),
            (1, reallocating(0, 10)),
            (1, Record::Reallocated { address: 100 }),
            (1, reallocating(100, 1 << 40)),
            (1, Record::Reallocated { address: 0 }),
            (1, reallocating(100, 0)),
            (1, Record::Reallocated { address: 0 }),
        ]);
        assert_eq!(events, [allocate(0, 10), Event::Free { slot: 0 }]);
        assert!(dropped.is_nothing());
    }

    #[test]
    fn blocks_unknown_to_the_log_are_counted() {
        let (events, dropped) = convert(&[
            (1, Record::Freeing { address: 100 }),
            (1, reallocating(100, 10)),
            (1, Record::Reallocated { address: 200 }),
            (1, allocated(200)),
            (2, Record::Reallocated { address: 300 }),
        ]);
        assert_eq!(events, [allocate(0, 10), Event::Free { slot: 0 }, allocate(0, 10)]);
        let expected = Dropped {
            unknown_frees: 1,
            unknown_reallocations: 1,
            missed_frees: 1,
            unpaired: 1,
            unnamed: 0,
        };
        assert_eq!(dropped, expected);
        let words = "1 free of unknown blocks left out, 1 reallocation of unknown blocks made \
                     allocations, 1 missing free inserted, 1 end of reallocations without a \
                     beginning left out";
        assert_eq!(dropped.to_string(), words);
    }
}
