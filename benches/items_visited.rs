//! Items visited per allocation and its free, as the number of live blocks grows from 10³ to 10⁶.
//!
//! Not a timing: the counts come from the engines' own [`Meter`](pagewise::meter::Meter) and are
//! the same on every machine. The current-page strategies and the pools take constant time (Brent
//! §4), so their rows must stay below a bound; FIRST-FIT's grow with log n and with the free blocks
//! in a segment.
//!
//! Two settings. With the papers' (blocks of 20 bytes in pages of 512, as in PQSIM, Brent §3.2) a
//! thousand blocks fill forty pages, so the counts are those of a steady state from the start. With
//! pages of 64 KiB, a thousand blocks of many sizes are all in their current pages; larger heaps
//! must choose pages, which shows as the number grows.
//!
//! `cargo bench --bench items_visited`

use std::alloc::Layout;
use std::ptr::NonNull;

use pagewise::catalogue;
use pagewise::meter::Counter;
use pagewise::pages::Config;
use rand::{RngExt, SeedableRng, rngs::SmallRng};

/// Minimum and maximum block size in the two settings, and their pages.
fn settings() -> [(usize, usize, Config); 2] {
    let papers = Config::new().page_size(512).unit(4).ffcrossover(120);
    [(20, 20, papers), (8, 1024, Config::new())]
}

/// Returns a block size from `least` to `largest` as programs request it: small ones are more
/// frequent.
fn size(least: usize, largest: usize, random: &mut SmallRng) -> usize {
    let magnitude = random.random_range(least.ilog2()..=largest.ilog2());
    random.random_range(least.max(1 << magnitude)..=largest.min((2 << magnitude) - 1))
}

/// Returns the items per pair in a steady state of `live` blocks, in a heap that was a quarter
/// larger before, so that the share of free blocks does not depend on the number. Any live block
/// may be the next one freed.
fn items_per_pair(
    strategy: &catalogue::Entry,
    (least, largest, config): (usize, usize, Config),
    live: usize,
    pairs: u64,
) -> f64 {
    let meter = Counter::new();
    let mut heap = strategy.build_metered(config, 1 << 38, &meter).expect("a valid configuration");
    let mut random = SmallRng::seed_from_u64(1984);
    let peak = live + live / 4;
    let mut blocks: Vec<(NonNull<u8>, Layout)> = Vec::with_capacity(peak);
    let mut before = 0;
    let (shrinking, steps) = (peak - live, 2 * pairs);
    for step in 0..peak as u64 + shrinking as u64 + steps {
        let churned = step.checked_sub(peak as u64 + shrinking as u64);
        if churned == Some(pairs) {
            before = meter.items();
        }
        if step >= peak as u64 {
            let (block, layout) = blocks.swap_remove(random.random_range(0..blocks.len()));
            // SAFETY: the block is in use with this layout.
            unsafe { heap.deallocate(block, layout) };
        }
        if step < peak as u64 || churned.is_some() {
            let layout = Layout::from_size_align(size(least, largest, &mut random), 4);
            let layout = layout.expect("a valid layout");
            blocks.push((heap.allocate(layout).expect("room enough").cast(), layout));
        }
    }
    (meter.items() - before) as f64 / pairs as f64
}

fn main() {
    // `cargo test --benches` runs benches too, to check that they work.
    let quick = !std::env::args().any(|argument| argument == "--bench");
    let counts: &[usize] = if quick { &[1_000] } else { &[1_000, 10_000, 100_000, 1_000_000] };
    for setting in settings() {
        let (least, largest, config) = setting;
        let p = config.page_size;
        println!("items visited per pair; pages of {p} B, blocks of {least} to {largest} B");
        print!("{:<12}", "live blocks");
        counts.iter().for_each(|live| print!("{live:>12}"));
        println!();
        for strategy in catalogue::all().filter(|entry| !entry.linear) {
            print!("{:<12}", strategy.name);
            for &live in counts {
                let pairs = if quick { 2_000 } else { 100_000.max(2 * live as u64) };
                print!("{:>12.2}", items_per_pair(strategy, setting, live, pairs));
            }
            println!();
        }
        println!();
    }
}
