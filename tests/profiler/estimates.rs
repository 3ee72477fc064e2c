//! A profile's estimates are right on average, for each site and size: random sequences and
//! recorded programs are compared with their true allocations.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::mpsc;

use crate::random::Random;
use crate::sites::{SITES, Truth, block_of, figures, resized_by};
use crate::{ALLOCATOR, passes_in_both_modes, profiler};

/// How [unlikely](Truth::unlikelihood) an estimate may be: less likely than one in a billion fails.
const UNLIKELY: f64 = 21.0;

/// Largest block for which a resize within its class is not counted as an allocation.
const SMALL: usize = 16 << 10;

#[test]
fn sequences_of_every_size_are_estimated() {
    passes_in_both_modes("estimates::sequences");
}

struct Block(*mut u8, Layout, usize);
// SAFETY: blocks are owned.
unsafe impl Send for Block {}

impl Block {
    fn free(self) {
        // SAFETY: the block is in use with this layout, and not used afterwards.
        unsafe { ALLOCATOR.dealloc(self.0, self.1) };
    }
}

/// Returns a size for a site: around the site's own size, from 10 bytes to 200 KiB.
fn size_of(random: &mut Random, site: usize) -> usize {
    let typical = 10 << site;
    let typical = typical.min(200 << 10);
    1 + typical / 2 + random.below(typical)
}

/// Checks that no site's estimates are too unlikely.
fn compare(mean: usize, truth: &[Truth]) {
    let told = figures(&profiler().snapshot().expect("there is a profile"));
    let mut worst: f64 = 0.0;
    for site in 0..SITES {
        let off = truth[site].unlikelihood(&told[site]);
        println!("{mean}: site {site}: {off:.2}: {:?}, true {:?}", told[site], truth[site].figures);
        worst = worst.max(off);
    }
    assert!(worst < UNLIKELY, "e^-{worst}");
}

/// Threads allocate, resize and free, also each other's blocks; each site has its own sizes.
#[test]
#[ignore = "in a process of its own"]
fn sequences() {
    for mean in [300, 5_000, 100_000] {
        let rounds = if mean < 10_000 { 40_000 } else { 100_000 };
        profiler().start(mean).expect("it begins");
        let (sender, receiver) = mpsc::sync_channel::<Block>(100);
        let freeing = std::thread::spawn(move || receiver.into_iter().for_each(Block::free));
        let mut random = Random(mean as u64);
        let mut truth = [Truth::default(); SITES + 1];
        let mut blocks: Vec<(Block, usize)> = Vec::with_capacity(4000);
        for round in 0..rounds {
            // Sites with large sizes are rare.
            let site = random.below(SITES).min(random.below(SITES + 4));
            let size = size_of(&mut random, site);
            match random.below(10) {
                0 if !blocks.is_empty() => {
                    let at = random.below(blocks.len());
                    let (held, of) = &mut blocks[at];
                    let Block(block, layout, told) = held;
                    let resized = resized_by(site, *block, *layout, size);
                    if resized != *block || size > SMALL {
                        truth[*of].count(*told, mean, -1.0);
                        truth[site].count(size, mean, 1.0);
                        (*told, *of) = (size, site);
                    }
                    *block = resized;
                    *layout = Layout::from_size_align(size, layout.align()).expect("valid");
                }
                1..=5 => {
                    let align = if random.below(4) == 0 { 64 } else { 8 };
                    let layout = Layout::from_size_align(size, align).expect("a layout");
                    let block = block_of(site, layout);
                    assert!(block.addr().is_multiple_of(align), "{size}");
                    truth[site].count(size, mean, 1.0);
                    blocks.push((Block(block, layout, size), site));
                }
                _ if !blocks.is_empty() => {
                    // Usually one of the newest, otherwise a random one.
                    let among = if round % 3 > 0 { blocks.len().min(2) } else { blocks.len() };
                    let at = blocks.len() - 1 - random.below(among);
                    let (block, of) = blocks.swap_remove(at);
                    truth[of].count(block.2, mean, -1.0);
                    if round % 7 == 0 {
                        sender.send(block).expect("somebody frees");
                    } else {
                        block.free();
                    }
                }
                _ => {}
            }
        }
        drop(sender);
        freeing.join().expect("it ends");
        compare(mean, &truth);
        profiler().stop().expect("it ends");
        blocks.into_iter().for_each(|(block, _)| block.free());
    }
}

/// Replays of recorded programs: the estimates for their sizes.
#[cfg(feature = "trace")]
mod traces {
    use std::path::{Path, PathBuf};

    use pagewise::trace::{self, Event};

    use super::*;
    use crate::child;

    fn traces() -> Vec<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
        let files = std::fs::read_dir(folder).expect("the repository has traces");
        let mut traces: Vec<PathBuf> = files
            .map(|file| file.expect("a readable folder").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "pwt"))
            .collect();
        traces.sort();
        traces
    }

    /// Returns the site that allocates a size: the size's logarithm.
    fn site_of(size: usize) -> usize {
        (size / 8).checked_ilog2().map_or(0, |log| 1 + log as usize).min(SITES - 1)
    }

    /// Replays a trace. For each site, returns the bytes and blocks live at the overall peak, and
    /// those allocated until then.
    fn replay(path: &Path, mean: usize, events: u64) -> [Truth; SITES] {
        let mut truth = [Truth::default(); SITES];
        let mut blocks: Vec<Option<(*mut u8, Layout, usize)>> = Vec::new();
        let layout = |size: u64, align: u32| {
            Layout::from_size_align((size as usize).max(1), align as usize).expect("valid")
        };
        for event in trace::open(path).expect("a trace").take(events as usize) {
            match event.expect("an intact trace") {
                Event::Allocate { slot, size, align } => {
                    let layout = layout(size, align);
                    let site = site_of(layout.size());
                    let block = block_of(site, layout);
                    truth[site].count(layout.size(), mean, 1.0);
                    if blocks.len() <= slot as usize {
                        blocks.resize(slot as usize + 1, None);
                    }
                    blocks[slot as usize] = Some((block, layout, layout.size()));
                }
                Event::Reallocate { slot, size } => {
                    let (block, old, told) = blocks[slot as usize].expect("a live block");
                    let new = layout(size, old.align() as u32);
                    let site = site_of(new.size());
                    let moved = resized_by(site, block, old, new.size());
                    let mut now = told;
                    if moved != block || new.size() > SMALL {
                        truth[site_of(told)].count(told, mean, -1.0);
                        truth[site].count(new.size(), mean, 1.0);
                        now = new.size();
                    }
                    blocks[slot as usize] = Some((moved, new, now));
                }
                Event::Free { slot } => {
                    let (block, layout, told) = blocks[slot as usize].take().expect("live");
                    truth[site_of(told)].count(told, mean, -1.0);
                    // SAFETY: the block is in use with this layout.
                    unsafe { ALLOCATOR.dealloc(block, layout) };
                }
                Event::Thread { .. } | Event::Tick { .. } => {}
            }
        }
        truth
    }

    /// Returns the event after which the most bytes are live.
    fn peak(path: &Path) -> u64 {
        let mut sizes: Vec<u64> = Vec::new();
        let (mut live, mut most, mut peak) = (0, 0, 0);
        for (number, event) in (1..).zip(trace::open(path).expect("a trace")) {
            match event.expect("an intact trace") {
                Event::Allocate { slot, size, .. } => {
                    if sizes.len() <= slot as usize {
                        sizes.resize(slot as usize + 1, 0);
                    }
                    sizes[slot as usize] = size;
                    live += size;
                }
                Event::Reallocate { slot, size } => {
                    live = live + size - sizes[slot as usize];
                    sizes[slot as usize] = size;
                }
                Event::Free { slot } => live -= sizes[slot as usize],
                Event::Thread { .. } | Event::Tick { .. } => {}
            }
            if live > most {
                (most, peak) = (live, number);
            }
        }
        peak
    }

    /// Compares the estimates for a trace at its peak with the truth; asserts that they are close,
    /// and returns the differences.
    fn compare(path: &Path, mean: usize) -> String {
        let events = peak(path);
        profiler().start(mean).expect("it begins");
        let truth = replay(path, mean, events);
        let snapshot = profiler().snapshot().expect("there is a profile");
        profiler().stop().expect("it ends");
        let told = figures(&snapshot);
        let worst =
            (0..SITES).map(|site| truth[site].unlikelihood(&told[site])).fold(0.0, f64::max);
        assert!(worst < UNLIKELY, "{}: e^-{worst}", path.display());
        let sums = |at: usize| {
            let truth: f64 = truth.iter().map(|truth| truth.figures[at]).sum();
            (truth, told[..SITES].iter().map(|told| told[at]).sum::<f64>())
        };
        // Share of the bytes attributed to another size.
        let misplaced = |at: usize| {
            let off = (0..SITES).map(|site| (told[site][at] - truth[site].figures[at]).abs());
            off.sum::<f64>() / 2.0 / sums(at).0
        };
        let samples: u64 = snapshot.sites().map(|site| site.samples()).sum();
        let (live, live_told) = sums(1);
        let (all, all_told) = sums(3);
        let percent = |told: f64, truth: f64| 100.0 * (told / truth - 1.0);
        let name = path.file_stem().expect("it has a name").to_string_lossy();
        format!(
            "| {name} | {samples} | {:.0} | {:+.1} | {:.1} | {:.0} | {:+.1} | {:.1} | {worst:.1} |",
            live / 1024.0,
            percent(live_told, live),
            100.0 * misplaced(1),
            all / 1024.0,
            percent(all_told, all),
            100.0 * misplaced(3),
        )
    }

    #[test]
    fn recorded_programs_are_estimated() {
        child::passes("estimates::traces::some");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn some() {
        for path in traces().iter().filter(|path| {
            ["gawk", "jq", "sqlite3"]
                .iter()
                .any(|name| path.file_stem().is_some_and(|stem| stem == *name))
        }) {
            println!("{}", compare(path, 4 << 10));
        }
    }

    /// Prints the table of docs/profiler.md: `cargo test --release --features trace --test profiler
    /// -- --ignored --nocapture estimates::traces::all`.
    #[test]
    #[ignore = "takes long, for a record"]
    fn all() {
        for mean in [512 << 10, 16 << 10] {
            println!("\n{} KiB per sample\n", mean >> 10);
            println!(
                "| trace | samples | live, KiB | error, % | by size, % | allocated, KiB | error, % | by size, % | −ln chance |"
            );
            println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
            for path in traces() {
                println!("{}", compare(&path, mean));
            }
        }
    }
}
