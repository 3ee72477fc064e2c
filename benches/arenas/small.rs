//! Small regions: how full they get, and the cost of an action.
//!
//! `cargo bench --bench arenas -- --small`: for regions of 4 to 256 KiB and sizes of 1 to 64, 200
//! and 1,000 bytes, the share of the region that was requested when a request first failed, after
//! the region was filled and emptied once, with few and with many frees in between; then the time
//! of an action in a half-full region. `--fill`, `--time`, `--peers NAME,NAME`, `--seeds N` work as
//! without `--small`.
//!
//! `-- --small --only NAME REGION MAX` performs the actions of one allocator alone, for counting
//! instructions.

use super::mixes::SmallFilling;
use super::peers::{Peer, SMALL, known};
use super::{Memory, chosen, median, processor_time};

const REGIONS: [usize; 5] = [4 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10];
const MAXIMA: [usize; 3] = [64, 200, 1_000];

/// Percentage of the actions that free a block while a region is filled.
const FREES: [usize; 3] = [17, 33, 45];

/// The share of a region that is requested during timing.
const SHARE: f64 = 0.5;

const ACTIONS: usize = 100_000;

fn number(arguments: &[String], option: &str) -> Option<u64> {
    let index = arguments.iter().position(|argument| argument == option)?;
    arguments.get(index + 1)?.parse().ok()
}

/// Returns a fresh allocator over the memory's first bytes.
fn heap<'m>(name: &str, memory: &'m mut Memory, region: usize) -> Peer<'m> {
    // SAFETY: while this allocator is in use, the borrow prevents other access to the memory.
    unsafe { Peer::new(name, memory.0.as_mut_ptr().cast(), region) }
}

fn cells() -> impl Iterator<Item = (usize, usize)> {
    MAXIMA.into_iter().flat_map(|max| REGIONS.map(|region| (max, region)))
}

fn head() {
    for (heading, row) in [("sizes to", 0), ("region, KiB", 1)] {
        print!("{heading:<24}");
        cells().for_each(|(max, region)| print!("{:>7}", [max, region >> 10][row]));
        println!();
    }
}

/// Prints how full regions get: means over seeds, and the number of cells in which each allocator
/// is first or within a percent of the first.
fn fill(names: &[&str], frees: usize, seeds: u64) {
    println!(
        "per cent of a region requested when a request fails, mean of {seeds} seeds; {frees} of 100 actions free"
    );
    head();
    let mut memory = Memory::new(REGIONS[REGIONS.len() - 1]);
    let mut rows = Vec::new();
    for name in names {
        print!("{name:<24}");
        let mut row = Vec::new();
        for (max, region) in cells() {
            let filling = SmallFilling { region, max, frees };
            let mut peer = heap(name, &mut memory, region);
            // Fill it once before, to wear it.
            filling.fill(&mut peer, 0);
            let sum: f64 = (1..=seeds).map(|seed| filling.fill(&mut peer, seed)).sum();
            row.push(100.0 * sum / seeds as f64);
            print!("{:>7.1}", row[row.len() - 1]);
        }
        println!();
        rows.push(row);
    }
    for (name, row) in names.iter().zip(&rows) {
        let of = |cell: usize| rows.iter().map(move |row| row[cell]);
        let near = (0..row.len()).filter(|&cell| row[cell] >= of(cell).fold(0.0, f64::max) - 1.0);
        let last = (0..row.len()).filter(|&cell| row[cell] <= of(cell).fold(100.0, f64::min));
        println!("{name:<24} first or within 1 % in {}, last in {}", near.count(), last.count());
    }
    println!();
}

/// Prints the time of an action: medians of rounds in which all allocators take turns.
fn time(names: &[&str], rounds: usize) {
    println!("ns of processor time per action, {rounds} rounds of {ACTIONS}, regions half full");
    head();
    let mut table = vec![Vec::new(); names.len()];
    for (max, region) in cells() {
        let filling = SmallFilling { region, max, frees: 0 };
        let mut memories: Vec<Memory> = names.iter().map(|_| Memory::new(region)).collect();
        let mut times = vec![Vec::new(); names.len()];
        for _ in 0..rounds {
            for (index, (name, memory)) in names.iter().zip(&mut memories).enumerate() {
                let mut peer = heap(name, memory, region);
                let start = processor_time();
                filling.churn(&mut peer, SHARE, ACTIONS);
                times[index].push((processor_time() - start) / ACTIONS as f64);
            }
        }
        table.iter_mut().zip(times).for_each(|(row, times)| row.push(median(times)));
    }
    for (name, row) in names.iter().zip(&table) {
        print!("{name:<24}");
        row.iter().for_each(|time| print!("{time:>7.1}"));
        println!();
    }
}

pub(super) fn run(arguments: &[String]) -> Result<(), String> {
    let asked = |option| arguments.iter().any(|argument| argument == option);
    if let Some(index) = arguments.iter().position(|argument| argument == "--only") {
        let [name, region, max, ..] = &arguments[index + 1..] else {
            return Err("--small --only needs NAME REGION MAX".to_owned());
        };
        let number =
            |text: &str| text.parse().map_err(|_| format!("{text:?} is no number of bytes"));
        let (name, region, max) = (known(name)?, number(region)?, number(max)?);
        let filling = SmallFilling { region, max, frees: 0 };
        let failed = {
            let mut memory = Memory::new(region);
            filling.churn(&mut heap(name, &mut memory, region), SHARE, ACTIONS)
        };
        println!("{ACTIONS} actions, {failed} failed");
        return Ok(());
    }
    let names = chosen(arguments, &SMALL)?;
    if !asked("--time") {
        let seeds = number(arguments, "--seeds").unwrap_or(64);
        for frees in FREES {
            fill(&names, frees, seeds);
        }
    }
    if !asked("--fill") {
        time(&names, 11);
    }
    Ok(())
}
