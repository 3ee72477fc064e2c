//! A trace prepared for replay, and the one loop that replays it.
//!
//! ```text
//!  trace file ──Reader──► Event ──Decoder──► Op ──replay──► Target (a strategy, or the system)
//!                                                   └─────► Observer (writes, marks, audits)
//! ```
//! An operation has everything that a call needs, including sizes before and after, so the loop
//! keeps only a table of block addresses by slot. Blocks live at the end of the trace are freed by
//! operations that the decoder appends, so that every allocation has its free.
//!
//! Traces of up to four million operations are decoded once and kept; longer ones are decoded again
//! for each replay, a batch at a time, outside the timed part. If the file has changed meanwhile,
//! the replay ends with an error.

mod decode;
mod drive;
mod op;
mod target;

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use pagewise::catalogue::Entry;
use pagewise::trace::Event;

use crate::input::{self, Stamp};
use decode::Decoder;
use op::Batch;

pub use decode::Facts;
pub use drive::{Observer, Outcome, Stop};
pub use target::{System, Target};

/// Bytes of address space that a strategy may use. They are only reserved; touched pages take
/// memory.
pub const CAPACITY: usize = 64 << 30;

/// Returns the bytes of address space that a strategy may use in a replay. The trace's peak bounds
/// the memory of those that reuse blocks; another one would touch all of [`CAPACITY`], so it gets
/// no more than `--memory` allows.
pub fn capacity(entry: &Entry) -> usize {
    if entry.reuses { CAPACITY } else { CAPACITY.min(input::most_memory()) }
}

/// Maximum number of operations kept in memory (24 bytes each); longer traces are decoded for every
/// replay.
const HELD_OPS: usize = 4 << 20;
/// Operations decoded at a time, for longer traces.
const BATCH_OPS: usize = 1 << 16;

/// A trace prepared for replay.
#[derive(Debug)]
pub struct Workload {
    /// The trace's file name without its extension.
    pub name: String,
    /// The trace's figures, which do not depend on the allocator.
    pub facts: Facts,
    ops: Ops,
}

#[derive(Debug)]
enum Ops {
    Held(Batch),
    Streamed(Source),
}

/// A trace that is read again for each replay.
#[derive(Debug)]
struct Source {
    path: PathBuf,
    /// The state of the file at the first reading.
    stamp: Stamp,
}

impl Source {
    /// Reads the trace again, which must have the same facts as before, and passes its operations
    /// to `each`, a batch at a time.
    fn read(
        &self,
        facts: Facts,
        mut each: impl FnMut(&Batch) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let changed = |cause: anyhow::Error| {
            let name = input::shown(&self.path);
            Stop::Trace(cause.context(format!("{name}: changed since it was first read")))
        };
        let mut events = input::open(&self.path).map_err(changed)?;
        if events.stamp() != self.stamp {
            return Err(changed(anyhow!("its length, date or location differs")));
        }
        // All tables have their final size before the first operation: the process's memory is
        // measured from there on.
        events.reserve(facts.slots);
        let mut decoder = Decoder::new(events);
        decoder.reserve(facts.slots);
        let mut batch = Batch::default();
        while !decoder.is_done() {
            batch.clear();
            decoder.fill(&mut batch, BATCH_OPS).map_err(changed)?;
            if batch.slots() > facts.slots {
                return Err(changed(anyhow!("more blocks are live at one time")));
            }
            each(&batch)?;
        }
        if decoder.facts() != facts {
            return Err(changed(anyhow!("the totals of its events differ")));
        }
        Ok(())
    }
}

impl Workload {
    /// Reads a whole trace, checks it, and keeps its operations if they are few enough.
    ///
    /// # Errors
    /// If the file is not a valid trace; the error says where.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        Self::load_holding(path, HELD_OPS)
    }

    /// Like [`load`](Self::load); keeps up to `most` operations.
    fn load_holding(path: &Path, most: usize) -> anyhow::Result<Self> {
        let events = input::open(path)?.with_progress();
        // A replay requests all of it.
        input::within_memory(path, events.header().peak_bytes, "a replay")?;
        let source = Source { path: path.to_owned(), stamp: events.stamp() };
        let mut decoder = Decoder::new(events);
        let mut batch = Batch::default();
        let complete = decoder.fill(&mut batch, most)?;
        let ops = if complete { Ops::Held(batch) } else { Ops::Streamed(source) };
        let mut rest = Batch::default();
        while !decoder.is_done() {
            rest.clear();
            decoder.fill(&mut rest, BATCH_OPS)?;
        }
        Ok(Self { name: input::trace_name(path), facts: decoder.facts(), ops })
    }

    /// Returns the workload of these events.
    ///
    /// # Errors
    /// The first invalid event, by its number.
    pub fn of(events: &[Event]) -> anyhow::Result<Self> {
        let mut decoder = Decoder::new(events.iter().copied().map(anyhow::Ok));
        let mut batch = Batch::default();
        decoder.fill(&mut batch, usize::MAX)?;
        Ok(Self { name: "test".into(), facts: decoder.facts(), ops: Ops::Held(batch) })
    }

    /// Replays the whole trace.
    ///
    /// # Errors
    /// [`Stop`]: the target ran out of memory, the observer found a fault, or the file can no
    /// longer be read.
    pub fn replay<T: Target + ?Sized, O: Observer<T>>(
        &self,
        target: &mut T,
        observer: &mut O,
    ) -> Result<Outcome, Stop> {
        let mut table = drive::Table::new(self.facts.slots);
        match &self.ops {
            Ops::Held(batch) => table.drive(batch, target, observer)?,
            Ops::Streamed(source) => {
                source.read(self.facts, |batch| table.drive(batch, target, observer))?;
            }
        }
        Ok(table.outcome())
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::Layout;
    use std::io::Cursor;
    use std::ptr::NonNull;

    use pagewise::trace::{Origin, Writer};

    use super::*;

    /// Records each operation and its size.
    #[derive(Default)]
    struct Log(Vec<(char, usize)>);

    impl<T: ?Sized> Observer<T> for Log {
        unsafe fn allocated(&mut self, block: NonNull<u8>, layout: Layout) {
            assert!(block.addr().get().is_multiple_of(layout.align()));
            self.0.push(('a', layout.size()));
        }
        unsafe fn leaving(&mut self, _: NonNull<u8>, layout: Layout) -> Result<(), String> {
            self.0.push(('l', layout.size()));
            Ok(())
        }
    }

    const EVENTS: [Event; 6] = [
        Event::Allocate { slot: 0, size: 0, align: 1 },
        Event::Allocate { slot: 1, size: 100, align: 4096 },
        Event::Reallocate { slot: 1, size: 5000 },
        Event::Free { slot: 0 },
        Event::Tick { ticks: 1 },
        Event::Allocate { slot: 0, size: 7, align: 16 },
    ];

    #[test]
    fn a_replay_makes_every_call_and_frees_the_rest() {
        let mut log = Log::default();
        Workload::of(&EVENTS).unwrap().replay(&mut System, &mut log).unwrap();
        let calls = [
            ('a', 1),
            ('a', 100),
            ('l', 100),
            ('a', 5000),
            ('l', 1),
            ('a', 7),
            ('l', 7),
            ('l', 5000),
        ];
        assert_eq!(log.0, calls);
    }

    #[test]
    fn a_streamed_trace_replays_as_a_held_one() {
        let mut content = Cursor::new(Vec::new());
        let mut writer = Writer::new(&mut content, Origin::default()).unwrap();
        EVENTS.iter().for_each(|&event| writer.write(event).unwrap());
        writer.finish().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content.into_inner()).unwrap();

        let calls = |workload: &Workload| {
            let mut log = Log::default();
            workload.replay(&mut System, &mut log).unwrap();
            log.0
        };
        let held = Workload::load(file.path()).unwrap();
        let streamed = Workload::load_holding(file.path(), 2).unwrap();
        assert!(matches!(streamed.ops, Ops::Streamed(_)));
        assert_eq!(streamed.facts, held.facts);
        assert_eq!(calls(&streamed), calls(&held));
    }

    /// Replaces a file's contents by a trace of these events.
    fn write(path: &Path, events: &[Event]) {
        let mut content = Cursor::new(Vec::new());
        let mut writer = Writer::new(&mut content, Origin::default()).unwrap();
        events.iter().for_each(|&event| writer.write(event).unwrap());
        writer.finish().unwrap();
        std::fs::write(path, content.into_inner()).unwrap();
    }

    #[test]
    fn a_file_that_changed_meanwhile_ends_the_replay() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let events: Vec<_> =
            (0..70_000).map(|slot| Event::Allocate { slot, size: 8, align: 16 }).collect();
        // If the file had grown, the replay used to write beyond its table of blocks.
        for (first, second) in [(1, 70_000), (70_000, 1), (70_000, 69_999)] {
            write(file.path(), &events[..first]);
            let mut workload = Workload::load_holding(file.path(), 0).unwrap();
            write(file.path(), &events[..second]);
            let message = |workload: &Workload| {
                workload.replay(&mut System, &mut Log::default()).unwrap_err().to_string()
            };
            let told = message(&workload);
            let expected = format!("{}: changed since it was first read", file.path().display());
            assert!(told.starts_with(&expected), "{told}");
            // Even with the same date and length, its events would differ.
            let Ops::Streamed(source) = &mut workload.ops else { panic!("it is streamed") };
            source.stamp = input::open(file.path()).unwrap().stamp();
            let told = message(&workload);
            assert!(told.starts_with(&expected), "{told}");
        }
    }

    #[test]
    fn running_out_of_memory_names_the_operation() {
        let huge = Event::Allocate { slot: 1, size: 1 << 60, align: 1 };
        let workload = Workload::of(&[EVENTS[0], huge]).unwrap();
        let stop = workload.replay(&mut System, &mut Log::default()).unwrap_err();
        assert!(stop.to_string().starts_with("out of memory at operation 2"), "{stop}");
    }
}
