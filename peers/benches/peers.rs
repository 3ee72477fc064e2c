//! Pagewise beside other allocators: time, peak memory and page faults of each workload, each run
//! in a process of its own.
//!
//! ```text
//! cargo bench                                   all allocators, all workloads, 5 rounds
//! cargo bench -- --rounds 9 --only json,tree
//! cargo bench -- --allocators pagewise,mimalloc3,system
//! cargo bench -- --instructions                 counts instructions (needs valgrind); no times
//! cargo bench -- --json                         one line for each workload and allocator
//! cargo bench -- --wine --allocators pagewise,pagewise-again,system
//!                                               built for Windows, run by wine; ratios to the system's
//! ```
//! The program of `src/` is built once for each allocator, with the feature of its name. The rounds
//! are interleaved: in each, every workload runs under every allocator in turn, so that what else
//! the machine does falls on all of them. The figures are medians over the rounds; what is printed
//! are ratios to the better of mimalloc 2 and 3, row by row, and their geometric means, each over the rows
//! that its allocator has: smmalloc lacks the functions of C's kind, which the last rows call (`src/c.rs`).
//!
//! mimalloc advises huge pages by default, which spares it faults and costs it memory; Pagewise does
//! beyond the first mebibytes of a heap. Columns named `…-small-pages` run them without
//! (MIMALLOC_ALLOW_THP=0, PAGEWISE_HUGE_PAGES=0), and `pagewise-huge` is Pagewise with them
//! everywhere (PAGEWISE_HUGE_PAGES=1). Compare what is equal. `pagewise-many-heaps` has sixteen heaps for each CPU instead of two, as
//! many as a larger machine would have. `pagewise-again` is `pagewise` once
//! more: what those two differ by is noise.
//!
//! The main thread of a workload runs on one CPU, the second on another. Workloads with threads
//! are marked where their CPU time does not exceed their time by a fifth: then the machine gave them
//! one CPU, mostly.

use std::collections::BTreeMap;
use std::env;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A row of the comparison: its name, the feature it is built with, the environment it runs in.
type Peer = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const PEERS: &[Peer] = &[
    ("pagewise", "pagewise", &[]),
    ("pagewise-again", "pagewise", &[]),
    ("pagewise-small-pages", "pagewise", &[("PAGEWISE_HUGE_PAGES", "0")]),
    ("pagewise-huge", "pagewise", &[("PAGEWISE_HUGE_PAGES", "1")]),
    ("pagewise-many-heaps", "many-heaps", &[]),
    ("mimalloc3", "mimalloc3", &[]),
    ("mimalloc3-small-pages", "mimalloc3", &[("MIMALLOC_ALLOW_THP", "0")]),
    ("mimalloc2", "mimalloc2", &[]),
    ("mimalloc-crate", "mimalloc-crate", &[]),
    ("jemalloc", "jemalloc", &[]),
    ("snmalloc", "snmalloc", &[]),
    ("rpmalloc", "rpmalloc", &[]),
    ("smmalloc", "smmalloc", &[]),
    ("rusty_alloc", "rusty_alloc", &[]),
    ("system", "", &[]),
];

/// What is measured against, row by row the better of them.
const BASE: &[&str] = &["mimalloc3", "mimalloc2"];

#[derive(Default)]
struct Options {
    rounds: usize,
    only: Option<Vec<String>>,
    allocators: Option<Vec<String>>,
    instructions: bool,
    json: bool,
    wine: bool,
}

/// One run, or the median of several.
#[derive(Clone)]
struct Figures {
    /// Nanoseconds, or instructions.
    time: f64,
    /// Nanoseconds of CPU time, of all threads.
    cpu: f64,
    /// KiB.
    peak: f64,
    faults: f64,
    /// What the workload found itself, by name.
    found: Vec<(String, f64)>,
}

type Results = BTreeMap<(usize, usize), Vec<Figures>>;

/// This file's head, for `--help`.
fn about() -> impl Iterator<Item = &'static str> {
    include_str!("peers.rs").lines().map_while(|line| line.strip_prefix("//!"))
}

fn main() -> ExitCode {
    if env::args().any(|argument| argument == "--help") {
        about().filter(|line| !line.contains("```")).for_each(|line| println!("{line}"));
        return ExitCode::SUCCESS;
    }
    match options().and_then(|options| compare(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options { rounds: 5, ..Options::default() };
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        let list = |value: String| Some(value.split(',').map(str::to_owned).collect());
        match argument.as_str() {
            "--rounds" => {
                options.rounds = value()?.parse().map_err(|_| "--rounds needs a number")?;
            }
            "--only" => options.only = list(value()?),
            "--allocators" => options.allocators = list(value()?),
            "--instructions" => options.instructions = true,
            "--json" => options.json = true,
            "--wine" => options.wine = true,
            // Cargo passes it to every bench.
            "--bench" => {}
            other => return Err(format!("there is no option {other}; --help tells all")),
        }
    }
    if options.instructions {
        options.rounds = 1;
    }
    Ok(options)
}

fn compare(options: &Options) -> Result<(), String> {
    let peers: Vec<(&Peer, PathBuf)> = PEERS
        .iter()
        .filter(|(name, ..)| {
            options.allocators.as_ref().is_none_or(|chosen| chosen.iter().any(|c| c == name))
        })
        .map(|peer| build(peer.1, options.wine).map(|program| (peer, program)))
        .collect::<Result<_, _>>()?;
    let listed =
        peers.iter().map(|(_, program)| workloads(program)).collect::<Result<Vec<_>, _>>()?;
    // One without C's functions lists fewer.
    let workloads = listed.iter().max_by_key(|names| names.len());
    let workloads = workloads.ok_or("no allocator of that name")?;
    if let Some(unknown) = options.only.iter().flatten().find(|name| !workloads.contains(name)) {
        return Err(format!(
            "there is no workload {unknown:?}; there are: {}",
            workloads.join(", ")
        ));
    }
    let workloads: Vec<String> = workloads
        .iter()
        .filter(|name| options.only.as_ref().is_none_or(|only| only.contains(name)))
        .cloned()
        .collect();

    let mut results = Results::new();
    for round in 0..options.rounds {
        for (row, workload) in workloads.iter().enumerate() {
            progress(&format!("round {} of {}: {workload}", round + 1, options.rounds));
            let able = |&(column, _): &(usize, _)| listed[column].contains(workload);
            for (column, (peer, program)) in peers.iter().enumerate().filter(able) {
                match run(program, peer.2, workload, options.instructions)? {
                    Some(figures) => results.entry((row, column)).or_default().push(figures),
                    None => eprintln!("{workload} under {}: not done in {WINE_LIMIT} s", peer.0),
                }
            }
        }
    }
    progress("");

    let names: Vec<&str> = peers.iter().map(|(peer, _)| peer.0).collect();
    let medians: BTreeMap<(usize, usize), Figures> =
        results.into_iter().map(|(place, runs)| (place, median(&runs))).collect();
    if options.json {
        print_json(&workloads, &names, &medians);
        return Ok(());
    }
    let time = if options.instructions { "instructions" } else { "time" };
    print_table(time, &workloads, &names, &medians, |figures| figures.time);
    if !options.instructions {
        print_table("CPU time", &workloads, &names, &medians, |figures| figures.cpu);
        print_table("peak memory", &workloads, &names, &medians, |figures| figures.peak);
        print_table("minor page faults", &workloads, &names, &medians, |figures| figures.faults);
        print_found(&workloads, &names, &medians);
        print_alone(&workloads, &names, &medians);
    }
    Ok(())
}

/// Workloads with two threads or more.
const THREADED: &[&str] = &[
    "producer/consumer",
    "4 producers 4 consumers",
    "larson 2 threads",
    "all to all",
    "medium blocks 2 threads",
    "medium blocks 32 threads",
    "thread for each request",
    "5 to 16 KiB 4 threads",
    "latency small",
    "latency medium",
];

/// Names the runs of several threads that took hardly more CPU time than time.
fn print_alone(workloads: &[String], names: &[&str], medians: &BTreeMap<(usize, usize), Figures>) {
    for (&(row, column), figures) in medians {
        if THREADED.contains(&workloads[row].as_str()) && figures.cpu < 1.2 * figures.time {
            println!(
                "\n{} under {}: {:.2} of its time as CPU time, so one thread mostly waited",
                workloads[row],
                names[column],
                figures.cpu / figures.time
            );
        }
    }
}

/// Prints what workloads found themselves, a table for each.
fn print_found(workloads: &[String], names: &[&str], medians: &BTreeMap<(usize, usize), Figures>) {
    for (row, workload) in workloads.iter().enumerate() {
        let of_row: Vec<(usize, &Figures)> = medians
            .iter()
            .filter(|((of, _), figures)| *of == row && !figures.found.is_empty())
            .map(|((_, column), figures)| (*column, figures))
            .collect();
        let Some((_, first)) = of_row.first() else { continue };
        print!("\n| {workload} |");
        first.found.iter().for_each(|(name, _)| print!(" {name} |"));
        println!("\n|---|{}", "---:|".repeat(first.found.len()));
        for (column, figures) in of_row {
            print!("| {} |", names[column]);
            figures.found.iter().for_each(|(_, value)| print!(" {value} |"));
            println!();
        }
    }
}

/// Says on the terminal, if there is one, what is being done, in the place of what was said before.
fn progress(what: &str) {
    if stderr().is_terminal() {
        eprint!("\r\x1b[K{what}");
    }
}

/// The target that wine runs.
const WINDOWS: &str = "x86_64-pc-windows-gnu";

/// Builds the program with a feature, for this system or for Windows, and gives its path.
fn build(feature: &str, windows: bool) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = env::current_exe().map_err(|error| error.to_string())?;
    // …/release/deps/peers-0123
    let release = program.ancestors().nth(2).ok_or("the bench lies in a target directory")?;
    let target = release.parent().ok_or("release lies in a target directory")?;
    progress(&format!("building {}", if feature.is_empty() { "system" } else { feature }));
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--features", feature])
        .args(if windows { &["--target", WINDOWS][..] } else { &[] })
        .current_dir(folder)
        .arg("--target-dir")
        .arg(target)
        .status()
        .map_err(|error| error.to_string())?;
    if !status.success() {
        return Err(format!(
            "the program could not be built with {feature:?}: see above; a C or C++ compiler and \
             cmake may be missing. Leave it out with --allocators"
        ));
    }
    let (built, kept) = if windows {
        let built = target.join(WINDOWS).join("release/pagewise-peers.exe");
        (built, release.join(format!("peer-{feature}.exe")))
    } else {
        (release.join("pagewise-peers"), release.join(format!("peer-{feature}")))
    };
    std::fs::copy(built, &kept).map_err(|error| error.to_string())?;
    Ok(kept)
}

/// The names of the workloads, as the program lists them.
fn workloads(program: &Path) -> Result<Vec<String>, String> {
    let output = command(program).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr);
    let names: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("  ")).map(str::to_owned).collect();
    if names.is_empty() {
        return Err(format!("{} lists no workloads: {text}", program.display()));
    }
    Ok(names)
}

/// Seconds that a workload may take under wine.
const WINE_LIMIT: &str = "60";

/// How `timeout` ends when it has ended a command.
const TIMED_OUT: i32 = 124;

/// A command that runs the program, by wine if it is one for Windows, which has an extension.
fn command(program: &Path) -> Command {
    if program.extension().is_none() {
        return Command::new(program);
    }
    // The system's heap, as wine has it, may take hours.
    let mut command = Command::new("timeout");
    command.args([WINE_LIMIT, "wine"]).arg(program).env("WINEDEBUG", "-all");
    if env::var_os("WINEPREFIX").is_none() {
        // What `tests/targets.sh windows` set up.
        command.env("WINEPREFIX", concat!(env!("CARGO_MANIFEST_DIR"), "/../target/wine"));
    }
    command
}

/// Parts a workload is divided by under the instruction counter, and under wine.
const PARTS: &str = "20";

fn run(
    program: &Path,
    environment: &[(&str, &str)],
    workload: &str,
    instructions: bool,
) -> Result<Option<Figures>, String> {
    let failed = || format!("{} failed at {workload}", program.display());
    let windows = program.extension().is_some();
    let mut command = if instructions {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
        command.args([workload, PARTS]);
        command
    } else {
        let mut command = command(program);
        command.arg(workload).args(windows.then_some(PARTS));
        command
    };
    let output = command.envs(environment.iter().copied()).output().map_err(|_| failed())?;
    if windows && output.status.code() == Some(TIMED_OUT) {
        return Ok(None);
    }
    if !output.status.success() {
        return Err(failed());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let first = lines.next().ok_or_else(failed)?;
    let mut numbers = first.split(' ').map_while(|number| number.parse::<f64>().ok());
    let mut next = || numbers.next().ok_or_else(failed);
    let found = lines.filter_map(|line| {
        let (value, name) = line.split_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    let mut figures = Figures {
        time: next()?,
        cpu: next()?,
        peak: next()?,
        faults: next()?,
        found: found.collect(),
    };
    if instructions {
        let report = String::from_utf8_lossy(&output.stderr);
        let collected = report.lines().find_map(|line| line.split("Collected : ").nth(1));
        figures.time = collected.and_then(|count| count.trim().parse().ok()).ok_or_else(failed)?;
    }
    Ok(Some(figures))
}

fn median(runs: &[Figures]) -> Figures {
    let middle = |of: &dyn Fn(&Figures) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let found = runs[0].found.iter().enumerate();
    Figures {
        time: middle(&|f| f.time),
        cpu: middle(&|f| f.cpu),
        peak: middle(&|f| f.peak),
        faults: middle(&|f| f.faults),
        found: found.map(|(at, (name, _))| (name.clone(), middle(&|f| f.found[at].1))).collect(),
    }
}

fn print_json(workloads: &[String], names: &[&str], medians: &BTreeMap<(usize, usize), Figures>) {
    for (&(row, column), figures) in medians {
        let line = serde_json::json!({
            "workload": workloads[row],
            "allocator": names[column],
            "time": figures.time,
            "cpu_time": figures.cpu,
            "peak_kib": figures.peak,
            "minor_faults": figures.faults,
            "found": figures.found,
        });
        println!("{line}");
    }
}

/// Prints ratios to the better of [`BASE`]; if none of those ran, to the system's allocator, or else the first.
fn print_table(
    what: &str,
    workloads: &[String],
    names: &[&str],
    medians: &BTreeMap<(usize, usize), Figures>,
    of: fn(&Figures) -> f64,
) {
    let base: Vec<usize> =
        (0..names.len()).filter(|&column| BASE.contains(&names[column])).collect();
    let system = names.iter().position(|&name| name == "system");
    let base = if base.is_empty() { vec![system.unwrap_or(0)] } else { base };
    let base_names: Vec<&str> = base.iter().map(|&column| names[column]).collect();
    println!("\n{what}, {} = 1 (the best of them in each row)\n", base_names.join(", "));
    print!("| workload |");
    names.iter().for_each(|name| print!(" {name} |"));
    print!("\n|---|");
    names.iter().for_each(|_| print!("---:|"));
    println!();
    let mut logarithms = vec![(0.0, 0.0_f64); names.len()];
    for (row, workload) in workloads.iter().enumerate() {
        let value = |column: usize| medians.get(&(row, column)).map(|figures| of(figures).max(1.0));
        let one = base.iter().filter_map(|&column| value(column)).fold(f64::INFINITY, f64::min);
        print!("| {workload} |");
        for (column, (logarithm, rows)) in logarithms.iter_mut().enumerate() {
            // Of a row that the base lacks nothing can be said.
            match value(column).map(|value| value / one).filter(|_| one.is_finite()) {
                Some(ratio) => {
                    *logarithm += ratio.ln();
                    *rows += 1.0;
                    print!(" {ratio:.2} |");
                }
                None => print!(" |"),
            }
        }
        println!();
    }
    print!("| **geometric mean** |");
    for (logarithm, rows) in logarithms {
        print!(" **{:.2}** |", (logarithm / rows.max(1.0)).exp());
    }
    println!();
}
