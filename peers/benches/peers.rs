//! Pagewise beside other allocators: time, peak memory and page faults of each workload, each run
//! in its own process.
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
//! Under wine each workload is shortened, as the tables show, and workloads that measure single
//! calls run only if they are named, since wine's thread clocks have a resolution of 10 ms. The CPU
//! time is Linux's figure for the process, minus that of a run without a workload; wine's server is
//! not included. The peak includes wine's own memory.
//!
//! The program of `src/` is built once per allocator, with the feature of its name. The rounds are
//! interleaved: in each, every workload runs under every allocator in turn, so that other load on
//! the machine affects all of them. The order of the turns differs from round to round, but is the
//! same in each run of the bench. That matters because a run that uses other memory than its
//! predecessor left may have to wait until a virtual machine's host supplies it, up to four times
//! as long as the workload takes. The figures are medians over the rounds. The tables print ratios
//! to the better of mimalloc 2 and 3, row by row, and geometric means, each over the rows that the
//! allocator has: smmalloc lacks the C functions that the last rows call (`src/c.rs`).
//!
//! mimalloc advises huge pages by default, which saves faults and costs memory; Pagewise does so
//! beyond the first mebibytes of a heap. Columns named `…-small-pages` run them without huge pages
//! (MIMALLOC_ALLOW_THP=0, PAGEWISE_HUGE_PAGES=0), and `pagewise-huge` is Pagewise with huge pages
//! everywhere (PAGEWISE_HUGE_PAGES=1). Compare like with like. `pagewise-many-heaps` has sixteen
//! heaps per CPU instead of two, as many as a larger machine would have. `pagewise-again` is
//! `pagewise` once more: the difference between the two is noise.
//!
//! The main thread of a workload runs on one CPU, the second on another. Workloads with threads are
//! marked if their CPU time does not exceed their elapsed time by a fifth: then the machine mostly
//! gave them only one CPU.

use std::collections::BTreeMap;
use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

mod options;
mod tables;
mod wine;

use options::{Options, Peer};

/// One run, or the median of several.
#[derive(Clone)]
struct Figures {
    /// Nanoseconds, or instructions.
    time: f64,
    /// Nanoseconds of CPU time, all threads.
    cpu: f64,
    /// KiB.
    peak: f64,
    faults: f64,
    /// Figures measured by the workload itself, by name.
    found: Vec<(String, f64)>,
}

/// By row and column.
type Results = BTreeMap<(usize, usize), Vec<Figures>>;
type Medians = BTreeMap<(usize, usize), Figures>;

/// Returns this file's module documentation, for `--help`.
fn about() -> impl Iterator<Item = &'static str> {
    include_str!("peers.rs").lines().map_while(|line| line.strip_prefix("//!"))
}

fn main() -> ExitCode {
    if env::args().any(|argument| argument == "--help") {
        about().filter(|line| !line.contains("```")).for_each(|line| println!("{line}"));
        return ExitCode::SUCCESS;
    }
    match Options::parse(env::args().skip(1)).and_then(|options| compare(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(options: &Options) -> Result<(), String> {
    let columns = columns(options)?;
    let workloads = chosen(options, &columns)?;
    let (results, failures) = measure(options, &columns, &workloads);
    let names: Vec<&str> = columns.iter().map(|column| column.peer.0).collect();
    let medians: Medians =
        results.into_iter().map(|(place, runs)| (place, median(&runs))).collect();
    if options.json {
        tables::json(&workloads, &names, &medians);
    } else {
        print(options, &workloads, &names, &medians);
    }
    match failures.len() {
        0 => Ok(()),
        _ => Err(format!("{} runs failed:\n{}", failures.len(), failures.join("\n"))),
    }
}

/// An allocator of the comparison, built.
struct Column {
    peer: &'static Peer,
    program: PathBuf,
    /// The workloads that it has.
    workloads: Vec<String>,
    /// CPU time under wine without a workload.
    alone: f64,
}

/// Builds the chosen allocators.
fn columns(options: &Options) -> Result<Vec<Column>, String> {
    let peers = options.peers.iter().copied();
    let built: Vec<(&Peer, PathBuf)> = peers
        .map(|peer| build(peer.1, options.wine).map(|program| (peer, program)))
        .collect::<Result<_, _>>()?;
    if options.wine {
        progress("setting up wine");
        wine::set_up()?;
    }
    let column = |(peer, program): (&'static Peer, PathBuf)| {
        let workloads = workloads(&program)?;
        let alone = if options.wine { wine::alone(&program) } else { 0.0 };
        Ok(Column { peer, program, workloads, alone })
    };
    built.into_iter().map(column).collect()
}

/// Returns the chosen workloads.
fn chosen(options: &Options, columns: &[Column]) -> Result<Vec<String>, String> {
    // One without C's functions lists fewer.
    let all = columns.iter().map(|column| &column.workloads).max_by_key(|names| names.len());
    let all = all.ok_or("no allocator was chosen")?;
    if let Some(unknown) = options.only.iter().flatten().find(|name| !all.contains(name)) {
        return Err(format!("unknown workload {unknown:?}; available: {}", all.join(", ")));
    }
    let is_chosen = |name: &&String| match &options.only {
        Some(only) => only.contains(name),
        None => !options.wine || !name.starts_with("latency "),
    };
    Ok(all.iter().filter(is_chosen).cloned().collect())
}

/// Runs each workload under each allocator, in rounds. Returns the figures, and why runs failed.
fn measure(options: &Options, columns: &[Column], workloads: &[String]) -> (Results, Vec<String>) {
    let mut results = Results::new();
    let mut failures = Vec::new();
    let runs = options.rounds * workloads.len();
    let in_rounds =
        (0..options.rounds).flat_map(|round| (0..workloads.len()).map(move |row| (round, row)));
    for (done, (round, row)) in in_rounds.enumerate() {
        let workload = &workloads[row];
        for index in turns(round, row, columns.len()) {
            let column = &columns[index];
            if !column.workloads.contains(workload) {
                continue;
            }
            progress(&format!("{} of {runs}: {workload} under {}", done + 1, column.peer.0));
            match run(column, workload, options.instructions) {
                Ok(figures) => results.entry((row, index)).or_default().push(figures),
                Err(failure) => {
                    progress("");
                    eprintln!("{failure}");
                    failures.push(failure);
                }
            }
        }
        if !stderr().is_terminal() && options.wine {
            eprintln!("{} of {runs}: {workload}", done + 1);
        }
    }
    progress("");
    (results, failures)
}

/// Prints the tables.
fn print(options: &Options, workloads: &[String], names: &[&str], medians: &Medians) {
    let rows: Vec<String> = workloads
        .iter()
        .map(|name| match wine::parts(name) {
            parts if options.wine => format!("{name}, 1/{parts}"),
            _ => name.clone(),
        })
        .collect();
    let time = if options.instructions { "instructions" } else { "time" };
    tables::table(time, &rows, names, medians, |figures| figures.time);
    if !options.instructions {
        tables::table("CPU time", &rows, names, medians, |figures| figures.cpu);
        tables::table("peak memory", &rows, names, medians, |figures| figures.peak);
        if !options.wine {
            tables::table("minor page faults", &rows, names, medians, |figures| figures.faults);
        }
        tables::found(workloads, names, medians);
        tables::alone(workloads, names, medians);
    }
}

/// Returns the order of `count` allocators in a round, for a workload.
fn turns(round: usize, row: usize, count: usize) -> Vec<usize> {
    let mut turns: Vec<usize> = (0..count).collect();
    turns.sort_by_cached_key(|column| {
        let mut hasher = DefaultHasher::new();
        (round, row, column).hash(&mut hasher);
        hasher.finish()
    });
    turns
}

/// Shows the running program on the terminal, if there is one, over the previous message.
fn progress(what: &str) {
    if stderr().is_terminal() {
        eprint!("\r\x1b[K{what}");
    }
}

/// Builds the program with a feature, for this system or for Windows; returns its path.
fn build(feature: &str, windows: bool) -> Result<PathBuf, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = env::current_exe().map_err(|error| error.to_string())?;
    // …/release/deps/peers-0123
    let release = program.ancestors().nth(2).ok_or("the bench lies in a target directory")?;
    let target = release.parent().ok_or("release lies in a target directory")?;
    progress(&format!("building {}", if feature.is_empty() { "system" } else { feature }));
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--features", feature])
        .args(if windows { &["--target", wine::TARGET][..] } else { &[] })
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
        let built = target.join(wine::TARGET).join("release/pagewise-peers.exe");
        (built, release.join(format!("peer-{feature}.exe")))
    } else {
        (release.join("pagewise-peers"), release.join(format!("peer-{feature}")))
    };
    std::fs::copy(built, &kept).map_err(|error| error.to_string())?;
    Ok(kept)
}

/// Returns the names of the workloads, as the program lists them.
fn workloads(program: &Path) -> Result<Vec<String>, String> {
    let output = wine::command(program).output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr);
    let names: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("  ")).map(str::to_owned).collect();
    if names.is_empty() {
        return Err(format!("{} lists no workloads: {text}", program.display()));
    }
    Ok(names)
}

/// Workloads are divided by this under the instruction counter.
const PARTS: &str = "20";

/// Runs a workload once under an allocator.
fn run(column: &Column, workload: &str, instructions: bool) -> Result<Figures, String> {
    let Column { peer: (_, _, environment), program, alone, .. } = column;
    let failed = || format!("{} failed at {workload}", program.display());
    let windows = program.extension().is_some();
    let mut command = if instructions {
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
        command.args([workload, PARTS]);
        command
    } else {
        let mut command = wine::command(program);
        command.arg(workload).args(windows.then(|| wine::parts(workload).to_string()));
        command
    };
    let before = wine::children_time();
    let output = command.envs(environment.iter().copied()).output().map_err(|_| failed())?;
    let taken = wine::children_time() - before;
    if windows && output.status.code() == Some(wine::TIMED_OUT) {
        return Err(format!("{}: not done in {} s", failed(), wine::LIMIT));
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}\n{said}", failed(), output.status));
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
    if windows {
        figures.cpu = (taken - alone).max(0.0);
    }
    if instructions {
        let report = String::from_utf8_lossy(&output.stderr);
        let collected = report.lines().find_map(|line| line.split("Collected : ").nth(1));
        figures.time = collected.and_then(|count| count.trim().parse().ok()).ok_or_else(failed)?;
    }
    Ok(figures)
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
