//! Random programs under `libpagewise.so` and other allocators, preloaded, to find weaknesses that
//! our workloads do not show.
//!
//! ```text
//! cargo build --release -p pagewise-preload      in the workspace above
//! cargo bench --bench random -- --seeds 200..260 --rounds 3 LIBRARY…
//! cargo bench --bench random -- --describe 254
//! ```
//! A seed determines a program: one to three phases, each with its own sizes (8 bytes to 128 MiB:
//! of all magnitudes, evenly distributed, of four sizes, or small ones and some large), a number of
//! blocks, and an order: blocks are replaced in turn, at random, or mostly a few of them, or built
//! up and freed in waves; by `malloc`, `calloc`, `posix_memalign` or `realloc`, in one thread or up
//! to eight. Most programs write all of a block or one byte per OS page; one phase in seven writes
//! only the first byte.
//!
//! Libraries are given by path, with optional settings after colons:
//! `libpagewise.so:PAGEWISE_HUGE_PAGES=1`. The output for each is CPU time and peak resident set,
//! the least of all rounds, and their geometric means, relative to the first library's. Runs take
//! tens of milliseconds: with fewer than three rounds, or on a busy machine, single rows mean
//! nothing. Many programs write most of their memory once, so that page faults, and hence huge
//! pages, weigh more than in long-running programs.

#[path = "../preloaded/mod.rs"]
mod preloaded;
#[path = "../../src/random.rs"]
mod random;
mod workload;

use std::ops::Range;
use std::process::{Command, ExitCode};
use std::{env, io};

use preloaded::{Figures, Library};

/// Environment variable with the seed of the program, for the process that runs it.
const SEED: &str = "PAGEWISE_RANDOM_SEED";

/// The choice of programs, the number of rounds, and the libraries.
struct Options {
    seeds: Range<u64>,
    rounds: usize,
    libraries: Vec<Library>,
}

fn main() -> ExitCode {
    if let Some(seed) = env::var(SEED).ok().and_then(|seed| seed.parse().ok()) {
        workload::run(seed);
        return ExitCode::SUCCESS;
    }
    match options() {
        Ok(Some(options)) => measure(options),
        Ok(None) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}; see --help");
            ExitCode::FAILURE
        }
    }
}

/// Parses the options; `None` if they asked for something else, which has been done.
fn options() -> Result<Option<Options>, String> {
    let (mut seeds, mut rounds, mut libraries) = (0..40, 3, Vec::new());
    let mut arguments = env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} takes a value"));
        let wrong = |value: &str| format!("{argument} takes no {value}");
        match argument.as_str() {
            "--help" => {
                let about = include_str!("main.rs").lines();
                let about = about.map_while(|line| line.strip_prefix("//!"));
                about.filter(|line| !line.contains("```")).for_each(|line| println!("{line}"));
                return Ok(None);
            }
            "--describe" => {
                let value = value()?;
                let seed = value.parse().map_err(|_| wrong(&value))?;
                workload::phases(seed).iter().for_each(|phase| println!("{phase:?}"));
                return Ok(None);
            }
            "--seeds" => {
                let value = value()?;
                let ends = value
                    .split_once("..")
                    .and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?));
                seeds = ends.ok_or_else(|| wrong(&value))?;
            }
            "--rounds" => {
                let value = value()?;
                rounds =
                    value.parse().ok().filter(|&rounds| rounds > 0).ok_or_else(|| wrong(&value))?;
            }
            _ => libraries
                .push(Library::parse(&argument).ok_or(format!("unknown library {argument}"))?),
        }
    }
    if libraries.is_empty() {
        libraries.push(Library::default());
    }
    Ok(Some(Options { seeds, rounds, libraries }))
}

fn measure(Options { seeds, rounds, libraries }: Options) -> ExitCode {
    let run = |seed: u64, library: &Library| -> io::Result<Option<Figures>> {
        let mut command = Command::new(env::current_exe()?);
        Ok(preloaded::run(command.env(SEED, seed.to_string()), library))
    };
    println!("CPU time, milliseconds / peak memory, MiB\n");
    print!("| seed |");
    libraries.iter().for_each(|library| print!(" {library} |"));
    print!("\n|---|");
    libraries.iter().for_each(|_| print!("---:|"));
    println!();
    let mut logarithms = vec![(0.0, 0.0); libraries.len()];
    let count = seeds.end.saturating_sub(seeds.start) as f64;
    for seed in seeds {
        let mut least =
            vec![Figures { seconds: f64::INFINITY, peak: f64::INFINITY }; libraries.len()];
        for _ in 0..rounds {
            for (library, least) in libraries.iter().zip(&mut least) {
                let Ok(Some(figures)) = run(seed, library) else {
                    eprintln!("seed {seed} failed under “{library}”");
                    return ExitCode::FAILURE;
                };
                least.seconds = least.seconds.min(figures.seconds);
                least.peak = least.peak.min(figures.peak);
            }
        }
        print!("| {seed} |");
        for (figures, logarithm) in least.iter().zip(&mut logarithms) {
            print!(" {:.0} / {:.0} |", figures.seconds * 1e3, figures.peak / 1024.0);
            logarithm.0 += (figures.seconds / least[0].seconds).ln() / count;
            logarithm.1 += (figures.peak / least[0].peak).ln() / count;
        }
        println!();
    }
    print!("| **geometric mean** |");
    logarithms
        .iter()
        .for_each(|(time, peak)| print!(" **{:.3}** / **{:.3}** |", time.exp(), peak.exp()));
    println!();
    ExitCode::SUCCESS
}
