//! The lengths of the blocks that are live at one moment, which show how an allocator rounds the
//! requested sizes.
//!
//! A strategy lists its blocks ([`Strategy::walk`]), a process's own allocator reports the length
//! of each block ([`Target::usable_size`]). Tags before a block, page headers and free memory do
//! not count.

use std::alloc::Layout;
use std::collections::HashMap;
use std::path::Path;
use std::ptr::NonNull;

use pagewise::Strategy;
use pagewise::walk::SpanKind;
use pagewise_replay::workload::{Observer, Stop, Target, Workload};
use serde::{Deserialize, Serialize};

use crate::child::{self, Job};
use crate::competitor::{Competitor, Parameters};
use crate::served::{Replay, Server};

/// Returns the lengths in bytes of the blocks that are live after `operation` operations, in the
/// order in which they were last allocated or resized. `None` if the competitor does not report
/// lengths, or ran out of memory.
///
/// # Errors
/// If the trace cannot be read, or a child process cannot be run.
pub(crate) fn of(
    competitor: &Competitor,
    parameters: &Parameters,
    workload: &Workload,
    path: &Path,
    operation: u64,
) -> anyhow::Result<Option<Vec<u64>>> {
    let server = competitor.server(parameters);
    let found = match competitor {
        Competitor::Strategy(_) | Competitor::Hybrid => {
            let mut look = Look::new(operation, walked);
            finished(workload.replay(&mut *server.strategy()?, &mut look)).map(|()| look.found)
        }
        Competitor::Lea => return Ok(None),
        Competitor::Global | Competitor::System | Competitor::Library(_) => {
            child::run_in_child(&Lengths { server, operation }, path, competitor.library())?
        }
    };
    match found {
        Ok(found) => Ok(found),
        Err(Stop::Trace(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

/// The lengths of the blocks of a process's own allocator.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Lengths {
    server: Server,
    operation: u64,
}

impl Job for Lengths {
    const NAME: &'static str = "lengths";
    type Found = Option<Vec<u64>>;

    fn run(&self, workload: &Workload) -> anyhow::Result<Option<Vec<u64>>> {
        let mut looking = Looking { workload, operation: self.operation, found: None };
        self.server.serve(&mut looking)?;
        Ok(looking.found)
    }
}

/// The process's replay.
struct Looking<'w> {
    workload: &'w Workload,
    operation: u64,
    found: Option<Vec<u64>>,
}

impl Replay for Looking<'_> {
    fn of<T: Target + ?Sized>(&mut self, target: &mut T) -> Result<(), Stop> {
        let mut look = Look::new(self.operation, queried::<T>);
        finished(self.workload.replay(target, &mut look))?;
        self.found = look.found;
        Ok(())
    }
}

/// A replay has done its part once the lengths are measured, wherever it was stopped.
fn finished<O>(outcome: Result<O, Stop>) -> Result<(), Stop> {
    match outcome {
        Ok(_) | Err(Stop::Fault { .. }) => Ok(()),
        Err(stop) => Err(stop),
    }
}

/// Measures the live blocks after `operation` operations, and ends the replay there.
struct Look<M> {
    operation: u64,
    done: u64,
    /// For each live block, the operation that last allocated or resized it.
    made: HashMap<NonNull<u8>, u64>,
    measure: M,
    found: Option<Vec<u64>>,
}

impl<M> Look<M> {
    fn new(operation: u64, measure: M) -> Self {
        Self { operation, done: 0, made: HashMap::new(), measure, found: None }
    }
}

impl<T: ?Sized, M: Fn(&T, &[NonNull<u8>]) -> Option<Vec<u64>>> Observer<T> for Look<M> {
    unsafe fn allocated(&mut self, block: NonNull<u8>, _: Layout) {
        self.made.insert(block, self.done);
    }

    unsafe fn leaving(&mut self, block: NonNull<u8>, _: Layout) -> Result<(), String> {
        self.made.remove(&block);
        Ok(())
    }

    fn done(&mut self, target: &T) -> Result<(), String> {
        self.done += 1;
        if self.done < self.operation {
            return Ok(());
        }
        let mut blocks: Vec<_> = self.made.iter().map(|(&block, &made)| (made, block)).collect();
        blocks.sort_unstable();
        let blocks: Vec<_> = blocks.into_iter().map(|(_, block)| block).collect();
        self.found = (self.measure)(target, &blocks);
        Err("everything was seen".to_owned())
    }
}

/// Returns the lengths of a strategy's blocks; `None` if an address is not the start of one.
fn walked<S: Strategy + ?Sized>(strategy: &S, blocks: &[NonNull<u8>]) -> Option<Vec<u64>> {
    let mut spans = Vec::with_capacity(blocks.len());
    strategy.walk(&mut |span| {
        if span.kind == SpanKind::Block {
            spans.push(span);
        }
    });
    let length = |block: &NonNull<u8>| {
        let address = block.addr().get();
        let after = spans.partition_point(|span| span.start <= address);
        let span = spans.get(after.checked_sub(1)?)?;
        (address < span.end()).then_some(span.len as u64)
    };
    blocks.iter().map(length).collect()
}

/// Asks a target for the length of each block.
fn queried<T: Target + ?Sized>(target: &T, blocks: &[NonNull<u8>]) -> Option<Vec<u64>> {
    let length = |&block: &NonNull<u8>| {
        // SAFETY: the block is live: it was allocated, and not freed since.
        let length = unsafe { target.usable_size(block) }?;
        Some(length as u64)
    };
    blocks.iter().map(length).collect()
}

#[cfg(test)]
mod tests {
    use pagewise::catalogue;
    use pagewise::pages::Config;
    use pagewise::trace::Event;

    use super::*;

    const EVENTS: [Event; 6] = [
        Event::Allocate { slot: 0, size: 100, align: 16 },
        Event::Allocate { slot: 1, size: 24, align: 16 },
        Event::Reallocate { slot: 0, size: 3000 },
        Event::Allocate { slot: 2, size: 0, align: 16 },
        Event::Free { slot: 1 },
        Event::Free { slot: 0 },
    ];

    #[test]
    fn every_strategy_reports_the_lengths_of_live_blocks() {
        let workload = Workload::of(&EVENTS).expect("sound events");
        for entry in catalogue::all() {
            let mut strategy = entry.build(Config::new(), 1 << 30).expect("sound parameters");
            let mut look = Look::new(4, walked);
            finished(workload.replay(&mut *strategy, &mut look)).expect("enough memory");
            let found = look.found.unwrap_or_else(|| panic!("{} does not tell", entry.name));
            // Requested in this order: 24, 3000 and 0 bytes; a request of 0 bytes gets one byte.
            assert_eq!(found.len(), 3, "{}", entry.name);
            let least = [24, 3000, 1];
            assert!(found.iter().zip(least).all(|(&found, least)| found >= least), "{found:?}");
            assert_eq!(found.iter().sum::<u64>(), {
                let mut strategy = entry.build(Config::new(), 1 << 30).expect("sound parameters");
                let mut used = Used(0);
                workload.replay(&mut *strategy, &mut used).expect("enough memory");
                used.0
            });
        }
    }

    /// Bytes of blocks after the fourth operation, by the strategy's count.
    struct Used(u64);

    impl<T: Strategy + ?Sized> Observer<T> for Used {
        fn done(&mut self, target: &T) -> Result<(), String> {
            if target.usage().allocations - target.usage().frees == 3 && self.0 == 0 {
                self.0 = target.usage().block as u64;
            }
            Ok(())
        }
    }
}
