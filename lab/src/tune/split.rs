//! Splits a trace into two halves: one to search with, one held out.
//!
//! The second half must be complete by itself: it begins by allocating the blocks that are live at
//! the middle, in the order in which they were allocated.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pagewise::trace::{Event, Origin, Slots, Writer};
use pagewise_replay::{input, units};

/// Minimum number of events of a half.
const LEAST: u64 = 64;

/// Returns the halves of these traces, as temporary files.
///
/// # Errors
/// If a trace cannot be read or is too short, or there is no space for its halves.
pub(super) fn halves(traces: &[PathBuf]) -> anyhow::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let mut halves = (Vec::new(), Vec::new());
    for path in traces {
        let (first, second) = split(path)?;
        halves.0.push(first);
        halves.1.push(second);
    }
    Ok(halves)
}

fn split(path: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    let events = input::open(path)?.header().events;
    if events < 2 * LEAST {
        bail!(
            "{}: a trace of {} is too short to hold half of it out; name another trace with \
             --held-out",
            input::shown(path),
            units::count(events, "event")
        );
    }
    let middle = events / 2;
    let create = |which: &str| {
        let name = format!("the {which} half of {}", input::shown(path));
        let file = input::temporary(&name)
            .with_context(|| format!("cannot make a temporary file for {name}"));
        let (file, path) = file?;
        anyhow::Ok((Half::new(name, file)?, path))
    };
    let ((mut before, first), (mut after, second)) = (create("first")?, create("second")?);
    let mut thread = 0;
    // Size, alignment and slot of the live blocks by age; and the age of each slot's block.
    let mut live = BTreeMap::new();
    let mut ages = BTreeMap::new();
    for (index, event) in (0..).zip(input::open(path)?.with_progress()) {
        let event = event?;
        if index == middle {
            after.threads = Numbers::starting_with(thread);
            for &(slot, size, align) in live.values() {
                after.write(Event::Allocate { slot, size, align })?;
            }
        }
        if index >= middle {
            after.write(event)?;
            continue;
        }
        before.write(event)?;
        match event {
            Event::Allocate { slot, size, align } => {
                ages.insert(slot, index);
                live.insert(index, (slot, size, align));
            }
            Event::Reallocate { slot, size } => {
                let block = ages.get(&slot).and_then(|age| live.get_mut(age));
                block.context("no such block")?.1 = size;
            }
            Event::Free { slot } => {
                ages.remove(&slot).and_then(|age| live.remove(&age)).context("no such block")?;
            }
            Event::Thread { thread: next } => thread = next,
            Event::Tick { .. } => {}
        }
    }
    before.finish()?;
    after.finish()?;
    Ok((first, second))
}

/// Writes one half, with slots and threads numbered by the format's rules.
struct Half {
    /// For messages.
    name: String,
    writer: Writer<File>,
    slots: Slots,
    /// By the slot in the whole trace.
    names: BTreeMap<u32, u32>,
    /// Threads of the whole trace.
    threads: Numbers<u32>,
}

impl Half {
    fn new(name: String, file: File) -> anyhow::Result<Self> {
        let writer = Writer::new(file, Origin::default());
        let writer = writer.with_context(|| format!("{name} cannot be written"))?;
        let threads = Numbers::starting_with(0);
        Ok(Self { name, writer, slots: Slots::new(), names: BTreeMap::new(), threads })
    }

    fn finish(self) -> anyhow::Result<()> {
        self.writer.finish().with_context(|| format!("{} cannot be written", self.name))?;
        Ok(())
    }

    fn write(&mut self, event: Event) -> anyhow::Result<()> {
        let unknown = "no such block";
        let renamed = match event {
            Event::Allocate { slot, size, align } => {
                let name = self.slots.take().context("too many blocks")?;
                self.names.insert(slot, name);
                Event::Allocate { slot: name, size, align }
            }
            Event::Reallocate { slot, size } => {
                Event::Reallocate { slot: *self.names.get(&slot).context(unknown)?, size }
            }
            Event::Free { slot } => {
                let name = self.names.remove(&slot).context(unknown)?;
                self.slots.free(name);
                Event::Free { slot: name }
            }
            Event::Thread { thread } => Event::Thread { thread: self.threads.number(thread) },
            tick @ Event::Tick { .. } => tick,
        };
        let written = self.writer.write(renamed);
        written.with_context(|| format!("{} cannot be written", self.name))
    }
}

/// Numbers things in the order of their appearance. There may be as many threads as events, so no
/// list is searched.
struct Numbers<T>(BTreeMap<T, u32>);

impl<T: Ord> Numbers<T> {
    fn starting_with(first: T) -> Self {
        Self(BTreeMap::from([(first, 0)]))
    }

    fn number(&mut self, one: T) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(one).or_insert(next)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;

    use super::*;
    use pagewise_replay::workload::Workload;

    #[test]
    fn each_half_is_complete_and_both_contain_the_whole_trace() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("whole.pwt");
        let file = File::create(&path).expect("a file");
        let mut half = Half::new("whole".to_owned(), file).expect("a writer");
        for block in 0..200_u32 {
            half.write(Event::Allocate { slot: block, size: u64::from(block) + 1, align: 16 })
                .unwrap();
            // A second thread, and another one in the second half, which begins with the second
            // thread.
            if [30, 150, 170].contains(&block) {
                half.write(Event::Thread { thread: if block == 150 { 2 } else { 1 } }).unwrap();
            }
            if block % 3 == 2 {
                half.write(Event::Free { slot: block - 1 }).unwrap();
                half.write(Event::Reallocate { slot: block, size: 7 }).unwrap();
            }
        }
        half.finish().expect("finished");
        let whole = Workload::load(&path).expect("sound").facts;
        let (first, second) = halves(&[path]).expect("split");
        let facts = |path: &Path| Workload::load(path).expect("sound").facts;
        let (first, second) = (facts(&first[0]), facts(&second[0]));
        assert_eq!(first.frees + second.frees, whole.frees);
        assert_eq!(first.reallocations + second.reallocations, whole.reallocations);
        let carried = first.live_at_end;
        assert_eq!(first.allocations + second.allocations, whole.allocations + carried);
        assert_eq!(second.live_at_end, whole.live_at_end);
        assert_eq!(second.peak_requested, whole.peak_requested);
    }

    /// A thread that counts how often it is compared with others.
    #[derive(Clone, Copy)]
    struct Counted<'c>(u32, &'c Cell<u64>);

    impl Ord for Counted<'_> {
        fn cmp(&self, other: &Self) -> Ordering {
            self.1.set(self.1.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Counted<'_> {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other).is_eq()
        }
    }

    impl Eq for Counted<'_> {}

    #[test]
    fn many_threads_are_numbered_in_few_steps() {
        const THREADS: u32 = 200_000;
        let steps = Cell::new(0);
        let mut numbers = Numbers::starting_with(Counted(7, &steps));
        assert_eq!(numbers.number(Counted(0, &steps)), 1);
        for thread in 8..THREADS {
            assert_eq!(numbers.number(Counted(thread, &steps)), thread - 6);
        }
        assert_eq!(numbers.number(Counted(7, &steps)), 0);
        assert_eq!(numbers.number(Counted(THREADS - 1, &steps)), THREADS - 7);
        // Less than a hundred for each, rather than half of all.
        assert!(steps.get() < 100 * u64::from(THREADS), "{} steps", steps.get());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_half_without_space_is_named() {
        let full = File::options().write(true).open("/dev/full").expect("the device");
        let half = Half::new("the first half of x".to_owned(), full).and_then(|mut half| {
            half.write(Event::Allocate { slot: 0, size: 1, align: 1 })?;
            half.finish()
        });
        let told = format!("{:#}", half.unwrap_err());
        assert!(told.starts_with("the first half of x cannot be written: No space left"), "{told}");
    }

    #[test]
    fn a_trace_that_is_too_short_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("short.pwt");
        let file = File::create(&path).expect("a file");
        Writer::new(file, Origin::default()).and_then(Writer::finish).expect("written");
        let error = halves(&[path]).unwrap_err().to_string();
        let expected =
            ": a trace of 0 events is too short to hold half of it out; name another trace ";
        assert!(error.contains(expected) && error.contains("--held-out"), "{error}");
    }
}
