//! Arenas in a fixed region: ours beside other pure-Rust allocators for fixed regions, by time and
//! heap efficiency.
//!
//! Nanoseconds per action and their ratio to ours, at 300, 1,000 and 3,000 live blocks; and heap
//! efficiency, the share of the region that was requested and not yet freed when a request first
//! failed: in a fresh region, and in one that was filled and emptied before. All are
//! single-threaded, without locks, and called through the same trait object; every round runs all
//! of them in turn, with the same actions.
//!
//! ```sh
//! cargo bench --bench arenas                        times and efficiency
//! cargo bench --bench arenas -- --time              only times
//! cargo bench --bench arenas -- --fill              only efficiency
//! cargo bench --bench arenas -- --instructions      instructions per action (needs valgrind)
//!                               --peers NAME,NAME   only these allocators, the first as the base
//!                               --json              one line for each figure
//! cargo bench --bench arenas -- --only NAME MAX LIVE
//!     performs the actions of one allocator alone: largest size, live blocks
//!                               --no-realloc        without reallocations
//!                               --align N           aligns every request, as C does to 16
//! cargo bench --bench arenas -- --small             in regions of 4 to 256 KiB
//! ```
//!
//! `--instructions` counts ours and talc's unless `--peers` names others. `--small` compares
//! allocators for small machines (`small.rs`); it can be combined with `--time`, `--fill`,
//! `--peers` and `--only`, but not with `--json`.

mod instructions;
mod mixes;
mod peers;
mod small;

use std::fmt::Display;
use std::process::ExitCode;

use mixes::{Actions, Filling, Live};
use peers::{NAMES, Peer, known};

/// Largest sizes of the random actions, bytes.
const MAXIMA: [usize; 5] = [200, 1_000, 3_000, 10_000, 30_000];

/// Numbers of live blocks.
const LIVE: [usize; 3] = [300, 1_000, 3_000];

/// Region for the random actions, bytes: so large that no request fails.
const REGION: usize = 512 << 20;

/// Rounds; the median counts.
const ROUNDS: usize = 11;
/// Actions per round.
const ACTIONS: usize = 200_000;

/// A region's memory, with every OS page touched.
struct Memory(Vec<u64>);

impl Memory {
    fn new(bytes: usize) -> Self {
        Self(vec![0; bytes / 8])
    }

    /// Returns a fresh allocator over all of it.
    fn peer(&mut self, name: &str) -> Peer<'_> {
        // SAFETY: while this allocator is in use, the borrow prevents other access to the memory.
        unsafe { Peer::new(name, self.0.as_mut_ptr().cast(), self.0.len() * 8) }
    }
}

/// Returns the processor time of this process in nanoseconds, which excludes other programs.
fn processor_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Prints an allocator's figures as a line of JSON. Names need no escapes.
fn json_line(name: &str, figures: &[(&str, &dyn Display)]) {
    print!("{{\"allocator\":\"{name}\"");
    figures.iter().for_each(|(key, figure)| print!(",\"{key}\":{figure}"));
    println!("}}");
}

/// Performs random actions. Returns, for each allocator and largest size, the median time, and the
/// median of each round's ratio to the first allocator.
fn measure(
    names: &[&str],
    live: Live,
    reallocates: bool,
    (rounds, actions): (usize, usize),
) -> [Vec<(f64, f64)>; MAXIMA.len()] {
    MAXIMA.map(|max| {
        let mut memories: Vec<Memory> = names.iter().map(|_| Memory::new(REGION)).collect();
        let mut runs: Vec<_> = memories
            .iter_mut()
            .zip(names)
            .map(|(memory, name)| {
                (memory.peer(name), Actions::new(max, live, reallocates), Vec::new())
            })
            .collect();
        for round in 0..rounds + 2 {
            for (peer, mix, times) in &mut runs {
                let actions = actions / peer.slowness;
                let start = processor_time();
                let failed = mix.perform(peer, actions);
                let nanoseconds = (processor_time() - start) / actions as f64;
                assert_eq!(failed, 0, "the region is large enough");
                if round >= 2 {
                    times.push(nanoseconds);
                }
            }
        }
        let ours = runs[0].2.clone();
        runs.into_iter()
            .map(|(mut peer, mut mix, times)| {
                mix.finish(&mut peer);
                let ratios = times.iter().zip(&ours).map(|(time, ours)| time / ours).collect();
                (median(times), median(ratios))
            })
            .collect()
    })
}

/// Prints the results of [`measure`].
fn time(names: &[&str], live: Live, reallocates: bool, runs: (usize, usize), json: bool) {
    let columns = measure(names, live, reallocates, runs);
    if json {
        for (max, column) in MAXIMA.iter().zip(&columns) {
            for (name, (time, ratio)) in names.iter().zip(column) {
                let live: &dyn Display = match &live {
                    Live::Held(blocks) => blocks,
                    Live::Drifting => &"null",
                };
                json_line(
                    name,
                    &[
                        ("largest_size", max),
                        ("live", live),
                        ("reallocations", &reallocates),
                        ("nanoseconds", time),
                        ("ratio", ratio),
                    ],
                );
            }
        }
        return;
    }
    let (rounds, actions) = runs;
    print!("ns of processor time per action (× ours), {rounds} rounds of {actions}, ");
    match live {
        Live::Held(blocks) => print!("{blocks} live blocks"),
        Live::Drifting => print!("300 live blocks and more, as chance has it"),
    }
    println!("{}", if reallocates { "" } else { ", without reallocations" });
    print!("{:<24}", "largest size");
    MAXIMA.iter().for_each(|max| print!("{max:>18}"));
    println!();
    for (row, name) in names.iter().enumerate() {
        print!("{name:<24}");
        for column in &columns {
            let (time, ratio) = column[row];
            print!("{:>18}", format!("{time:.1} ({ratio:.2})"));
        }
        println!();
    }
    println!();
}

/// Prints heap efficiency: means over seeds.
fn efficiency(names: &[&str], seeds: u64, json: bool) {
    let fillings = Filling::all();
    if !json {
        println!(
            "heap efficiency, per cent of the region, mean of {seeds} seeds: fresh, emptied and filled again"
        );
        print!("{:<24}", "");
        fillings.iter().for_each(|filling| print!("{:>18}", filling.name));
        println!();
    }
    let mut memory = Memory::new(fillings.iter().map(|filling| filling.region).max().unwrap_or(0));
    for name in names {
        if !json {
            print!("{name:<24}");
        }
        for filling in &fillings {
            // Searching long lists would take hours.
            if !filling.feasible(name) {
                if !json {
                    print!("{:>18}", "–");
                }
                continue;
            }
            let mut heap = || {
                // SAFETY: the memory is borrowed for one allocator at a time.
                unsafe { Peer::new(name, memory.0.as_mut_ptr().cast(), filling.region) }
            };
            let fresh: f64 = (0..seeds).map(|seed| filling.fill(&mut heap(), seed)).sum();
            let mut worn = heap();
            let again = (0..2 * seeds).map(|seed| filling.fill(&mut worn, seed));
            let again: f64 = again.skip(seeds as usize).sum();
            let mean = |total: f64| 100.0 * total / seeds as f64;
            let (fresh, again) = (mean(fresh), mean(again));
            if json {
                let mix = format!("\"{}\"", filling.name);
                json_line(name, &[("mix", &mix), ("fresh", &fresh), ("again", &again)]);
            } else {
                print!("{:>18}", format!("{fresh:.1} {again:.1}"));
            }
        }
        if !json {
            println!();
        }
    }
}

/// Performs the actions of one allocator, for `--only NAME MAX LIVE`.
fn only(arguments: &[String], reallocates: bool) -> Result<(), String> {
    let number = |index: usize| arguments.get(index)?.parse().ok();
    let (Some(name), Some(max), Some(live)) = (arguments.first(), number(1), number(2)) else {
        return Err("--only needs NAME MAX LIVE".to_owned());
    };
    let name = known(name)?;
    let mut memory = Memory::new(REGION);
    let mut peer = memory.peer(name);
    let align = arguments.iter().position(|argument| argument == "--align");
    let align = align.and_then(|index| number(index + 1));
    let mut mix = Actions::new(max, Live::Held(live), reallocates).aligned(align);
    let failed = mix.perform(&mut peer, 2 * ACTIONS);
    println!("{} actions, {failed} failed", 2 * ACTIONS);
    Ok(())
}

/// Returns the allocators that `--peers` names, or else `all`.
fn chosen<'a>(arguments: &'a [String], all: &[&'a str]) -> Result<Vec<&'a str>, String> {
    let Some(index) = arguments.iter().position(|argument| argument == "--peers") else {
        return Ok(all.to_vec());
    };
    let names = arguments.get(index + 1).ok_or("--peers needs NAME,NAME")?;
    names.split(',').map(known).collect()
}

/// Returns this file's module documentation, for `--help`.
fn about() -> impl Iterator<Item = &'static str> {
    include_str!("main.rs").lines().map_while(|line| line.strip_prefix("//!"))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let asked = |option| arguments.iter().any(|argument| argument == option);
    if asked("--help") {
        about().filter(|line| !line.contains("```")).for_each(|line| println!("{line}"));
        return Ok(());
    }
    if asked("--small") {
        return small::run(arguments);
    }
    if let Some(index) = arguments.iter().position(|argument| argument == "--only") {
        return only(&arguments[index + 1..], !asked("--no-realloc"));
    }
    let json = asked("--json");
    // `cargo test --benches` runs benches too, to check that they work.
    if !asked("--bench") {
        time(&NAMES, Live::Held(300), true, (1, 2_000), json);
        return Ok(());
    }
    let all = if asked("--instructions") { &NAMES[..2] } else { &NAMES[..] };
    let names = chosen(arguments, all)?;
    if asked("--instructions") {
        return instructions::run(&names, json);
    }
    if !asked("--fill") {
        for reallocates in [true, false] {
            for live in LIVE.map(Live::Held).into_iter().chain([Live::Drifting]) {
                time(&names, live, reallocates, (ROUNDS, ACTIONS), json);
            }
        }
    }
    if !asked("--time") {
        efficiency(&names, 16, json);
    }
    Ok(())
}
