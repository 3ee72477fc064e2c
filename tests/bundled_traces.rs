//! Checks properties of the bundled traces of real programs under every strategy of the catalogue.

use std::alloc::Layout;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use pagewise::meter::Counter;
use pagewise::pages::Config;
use pagewise::trace::{self, Event};
use pagewise::{Strategy, catalogue};

/// Bytes of address space, more than any of the programs needs: git under NOFREE takes 548 MiB. On
/// 32-bit targets three tests take that much at the same time.
const CAPACITY: usize = if usize::BITS == 64 { 1 << 30 } else { 3 << 28 };

fn traces() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("traces");
    let files = std::fs::read_dir(folder).expect("the repository has traces");
    let mut traces: Vec<PathBuf> = files
        .map(|file| file.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "pwt"))
        .collect();
    traces.sort();
    traces
}

/// Returns the most bytes that a strategy can hold: on 32-bit targets SMALL numbers words of four
/// bytes with 16 bits.
fn most(name: &str) -> usize {
    if name == "SMALL" && usize::BITS == 32 { 256 << 10 } else { CAPACITY }
}

/// Replays a trace on the strategy of this name, to its end or until the strategy can hold no more;
/// calls `now_and_then` fifty times on the way and once at the end.
fn replay(
    path: &Path,
    name: &str,
    strategy: &mut dyn Strategy,
    mut now_and_then: impl FnMut(&dyn Strategy),
) {
    let mut blocks: Vec<Option<(NonNull<u8>, Layout)>> = Vec::new();
    let layout = |size: u64, align: u32| {
        Layout::from_size_align((size as usize).max(1), align as usize).expect("a valid layout")
    };
    let reader = trace::open(path).expect("a trace");
    let stride = reader.header().events / 50 + 1;
    for (number, event) in (1u64..).zip(reader) {
        let refused = match event.expect("an intact trace") {
            Event::Allocate { slot, size, align } => {
                let layout = layout(size, align);
                if blocks.len() <= slot as usize {
                    blocks.resize(slot as usize + 1, None);
                }
                strategy
                    .allocate(layout)
                    .map(|block| blocks[slot as usize] = Some((block.cast(), layout)))
                    .map_err(|error| (size, error))
            }
            Event::Reallocate { slot, size } => {
                let (block, old) = blocks[slot as usize].expect("a live block");
                let new = layout(size, old.align() as u32);
                // SAFETY: the block is in use with this layout.
                unsafe { strategy.reallocate(block, old, new.size()) }
                    .map(|moved| blocks[slot as usize] = Some((moved.cast(), new)))
                    .map_err(|error| (size, error))
            }
            Event::Free { slot } => {
                let (block, layout) = blocks[slot as usize].take().expect("a live block");
                // SAFETY: the block is in use with this layout.
                unsafe { strategy.deallocate(block, layout) };
                Ok(())
            }
            Event::Thread { .. } | Event::Tick { .. } => Ok(()),
        };
        if let Err((size, error)) = refused {
            let (held, path) = (strategy.usage().held, path.display());
            assert!(
                held + size as usize > most(name),
                "{name}, which holds {held} bytes, refuses {size} in event {number} of {path}: {error}"
            );
            break;
        }
        if number % stride == 0 {
            now_and_then(strategy);
        }
    }
    now_and_then(strategy);
}

/// Returns the traces to replay: the three shortest under an emulator (which `tests/targets.sh`
/// announces), otherwise all.
fn replayed() -> Vec<PathBuf> {
    let mut traces = traces();
    if std::env::var_os("EMULATED").is_some() {
        traces.sort_by_key(|path| std::fs::metadata(path).expect("a readable file").len());
        traces.truncate(3);
    }
    traces
}

#[test]
fn there_are_at_least_twelve_programs() {
    assert!(traces().len() >= 12);
}

/// Brent §4 promises constant time; his own count in Table 7.2 is between 5 and 6.
#[test]
fn pages_serve_a_pair_with_fewer_than_seven_items_visited() {
    for path in replayed() {
        for name in ["MOST-FREE", "LEAST-FREE", "MRU"] {
            let meter = Counter::new();
            let entry = catalogue::find(name).expect("a strategy of the catalogue");
            let mut strategy = entry
                .build_metered(Config::new(), CAPACITY, &meter)
                .expect("a valid configuration");
            replay(&path, name, &mut *strategy, |_| ());
            let pairs = meter.paged_operations() as f64 / 2.0;
            let items = meter.paged_items() as f64 / pairs;
            assert!(items < 7.0, "{name} visits {items} items per pair on {}", path.display());
        }
    }
}

/// For each of these traces: the spans of `walk` add up to the bytes held, and bookkeeping is apart
/// from blocks.
fn adds_up_and_keeps_its_bookkeeping_apart(traces: impl Iterator<Item = PathBuf>) {
    for path in traces {
        for entry in catalogue::all().filter(|entry| !entry.linear) {
            let mut strategy = entry.build(Config::new(), CAPACITY).expect("a valid configuration");
            replay(&path, entry.name, &mut *strategy, |strategy| {
                pagewise::walk::check(strategy).expect("the walk agrees with usage");
                if !entry.in_band {
                    pagewise::walk::check_apart(strategy).expect("no header lies in a page");
                }
            });
            strategy.audit().expect("every invariant holds");
        }
    }
}

// Two tests, for two cores: the traces take turns.

#[test]
fn every_heap_adds_up_and_keeps_its_bookkeeping_apart() {
    adds_up_and_keeps_its_bookkeeping_apart(replayed().into_iter().step_by(2));
}

#[test]
fn every_heap_adds_up_on_the_other_traces_too() {
    adds_up_and_keeps_its_bookkeeping_apart(replayed().into_iter().skip(1).step_by(2));
}
