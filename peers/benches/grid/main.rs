//! A grid of patterns, sizes and numbers of blocks under `libpagewise.so` and other allocators,
//! preloaded, to find where one takes several times as long as another.
//!
//! ```text
//! cargo build --release -p pagewise-preload      in the workspace above
//! cargo bench --bench grid -- LIBRARY…
//! cargo bench --bench grid -- --worse 1.5 LIBRARY…
//! cargo bench --bench grid -- --patterns "pair,in turn" --sizes 24,200000 --live 8,100 LIBRARY…
//! ```
//! Options: `--patterns`, `--sizes` (bytes) and `--live` (blocks in use at a time) choose the points
//! of the grid; `--write` writes blocks all over, instead of the first and the last byte; `--rounds`
//! is the number of interleaved runs (2), the least of which counts, and `--part` a fifth of a run's
//! CPU time in seconds (0.01); `--worse` prints only the points at which the first library takes at
//! least so many times the time of the best other.
//!
//! Libraries are given by path, with optional settings after colons:
//! `libpagewise.so:PAGEWISE_HUGE_PAGES=1`. The output for each is the CPU time of a call in
//! nanoseconds (of `malloc` and `free` together, where blocks are replaced) and the peak resident
//! memory in MiB; then the first library's time and memory, the best other library's = 1. Each point
//! is a process of its own. Where most blocks are not written, the differences between allocators
//! are the largest: what a program does with its blocks takes longer.

#[path = "../preloaded/library.rs"]
mod library;
mod pattern;
#[path = "../../src/random.rs"]
mod random;

use std::process::{Command, ExitCode};
use std::{env, io};

use library::Library;
use pattern::{Figures, Pattern, Point};

/// Environment variable with the point for the process that runs it, and the seconds of a part.
const POINT: &str = "PAGEWISE_GRID_POINT";

/// Blocks in use take this many bytes at most.
const MOST: usize = 400 << 20;

struct Options {
    patterns: Vec<Pattern>,
    sizes: Vec<usize>,
    live: Vec<usize>,
    writes_all: bool,
    rounds: usize,
    part: f64,
    worse: f64,
    libraries: Vec<Library>,
}

fn main() -> ExitCode {
    if let Ok(text) = env::var(POINT) {
        return match parse(&text) {
            Some((point, part)) => {
                let Figures { nanoseconds, mebibytes } = pattern::measure(point, part);
                println!("{nanoseconds} {mebibytes}");
                ExitCode::SUCCESS
            }
            None => ExitCode::FAILURE,
        };
    }
    let result = options().and_then(|options| options.map_or(Ok(()), |options| measure(&options)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}; see --help");
            ExitCode::FAILURE
        }
    }
}

/// Parses a point and the seconds of a part, as [`describe`] writes them.
fn parse(text: &str) -> Option<(Point, f64)> {
    let mut parts = text.split(';');
    let point = Point {
        pattern: parts.next()?.parse().ok()?,
        size: parts.next()?.parse().ok()?,
        live: parts.next()?.parse().ok()?,
        writes_all: parts.next()?.parse().ok()?,
    };
    Some((point, parts.next()?.parse().ok()?))
}

fn describe(Point { pattern, size, live, writes_all }: Point, part: f64) -> String {
    format!("{};{size};{live};{writes_all};{part}", pattern.name)
}

/// Parses the options; `None` if they asked for help, which has been given.
fn options() -> Result<Option<Options>, String> {
    let mut options = Options {
        patterns: Pattern::ALL.to_vec(),
        sizes: vec![24, 200, 1_500, 6_000, 20_000, 50_000, 131_072, 200_000, 1 << 20, 8_000_000],
        live: vec![8, 100, 2_000],
        writes_all: false,
        rounds: 2,
        part: 0.01,
        worse: 0.0,
        libraries: Vec::new(),
    };
    let mut arguments = env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} takes a value"));
        match argument.as_str() {
            "--help" => {
                let about = include_str!("main.rs").lines();
                let about = about.map_while(|line| line.strip_prefix("//!"));
                about.filter(|line| !line.contains("```")).for_each(|line| println!("{line}"));
                let names: Vec<_> = Pattern::ALL.iter().map(|pattern| pattern.name).collect();
                println!(" Patterns: {}.", names.join(", "));
                return Ok(None);
            }
            "--patterns" => options.patterns = list(&value()?, |part| part.parse())?,
            "--sizes" => options.sizes = list(&value()?, number)?,
            "--live" => options.live = list(&value()?, number)?,
            "--write" => options.writes_all = true,
            "--rounds" => options.rounds = number(&value()?)?,
            "--part" => options.part = positive(&argument, &value()?)?,
            "--worse" => options.worse = positive(&argument, &value()?)?,
            _ => {
                let library = Library::parse(&argument);
                options.libraries.push(library.ok_or(format!("unknown library {argument}"))?);
            }
        }
    }
    if options.libraries.is_empty() {
        return Err("no library".into());
    }
    Ok(Some(options))
}

/// Parses parts separated by commas.
fn list<T>(text: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').map(parse).collect()
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&number| number > 0).ok_or(format!("no number from 1: {text}"))
}

fn positive(option: &str, text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|&number: &f64| number > 0.0 && number.is_finite());
    number.ok_or(format!("{option} takes no {text}"))
}

fn measure(options: &Options) -> Result<(), String> {
    print!("| pattern | size | live |");
    options.libraries.iter().for_each(|library| print!(" {library} |"));
    println!(" beside the best other |");
    println!("|---|---:|---:|{}---:|", "---:|".repeat(options.libraries.len()));
    let (mut points, mut printed, mut logarithm) = (0, 0, 0.0);
    for point in grid(options) {
        let mut all = vec![Figures::MOST; options.libraries.len()];
        for _ in 0..options.rounds {
            for (library, least) in options.libraries.iter().zip(&mut all) {
                let figures = run(point, options.part, library);
                *least = least.min(figures.map_err(|error| {
                    format!("{} {} under {library}: {error}", point.pattern.name, point.size)
                })?);
            }
        }
        let best = |of: fn(&Figures) -> f64| all[1..].iter().map(of).fold(f64::INFINITY, f64::min);
        let time = all[0].nanoseconds / best(|figures| figures.nanoseconds);
        let memory = all[0].mebibytes / best(|figures| figures.mebibytes);
        points += 1;
        logarithm += time.ln();
        let Point { pattern, size, live, .. } = point;
        let live = if pattern.has_several { live.to_string() } else { "–".into() };
        let cells: String = all
            .iter()
            .map(|Figures { nanoseconds, mebibytes }| {
                format!(" {nanoseconds:.0} / {mebibytes:.1} |")
            })
            .collect();
        let row = format!("| {} | {size} | {live} |{cells}", pattern.name);
        match all.len() {
            1 => println!("{row} – |"),
            _ if time >= options.worse => {
                println!("{row} {time:.2} / {memory:.2} |");
                printed += 1;
            }
            _ => {}
        }
    }
    if options.libraries.len() > 1 {
        let mean = (logarithm / f64::from(points)).exp();
        println!(
            "\nThe first library takes {mean:.2} of the best other's time, the geometric mean"
        );
        println!("over {points} points; {printed} of them are printed.");
    }
    Ok(())
}

/// Returns the points that the options name and whose blocks are not too many.
fn grid(options: &Options) -> Vec<Point> {
    let mut points = Vec::new();
    for &pattern in &options.patterns {
        for &size in &options.sizes {
            let numbers = if pattern.has_several { &options.live[..] } else { &[1] };
            let fit = |&&live: &&usize| size.saturating_mul(live) <= MOST;
            let point =
                |&live: &usize| Point { pattern, size, live, writes_all: options.writes_all };
            points.extend(numbers.iter().filter(fit).map(point));
        }
    }
    points
}

fn run(point: Point, part: f64, library: &Library) -> io::Result<Figures> {
    let mut command = Command::new(env::current_exe()?);
    library.preload(command.env(POINT, describe(point, part)));
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text.trim().split_once(' ').and_then(|(nanoseconds, mebibytes)| {
        Some(Figures { nanoseconds: nanoseconds.parse().ok()?, mebibytes: mebibytes.parse().ok()? })
    });
    figures.filter(|_| output.status.success()).ok_or_else(|| {
        let last = String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("").to_owned();
        io::Error::other(format!("{}: {last}", output.status))
    })
}
