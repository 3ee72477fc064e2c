//! Whole programs under `libpagewise.so` and other allocators, preloaded.
//!
//! ```text
//! cargo build --release -p pagewise-preload      in the workspace above
//! cargo bench --bench programs -- --rounds 7 LIBRARY…
//! cargo bench --bench programs -- --only gawk,redis LIBRARY…
//! ```
//! Libraries are given by path, `libpagewise.so` among them; a run without any is always included,
//! as the reference. Settings may follow a path after a colon:
//! `libpagewise.so:PAGEWISE_HARDENED=1`. Programs that are not installed are left out. CPU time
//! (user and system) and peak resident set are those of the shell's children; medians over
//! interleaved rounds.
//!
//! In `cargo build`, rustc has an allocator of its own, which a preloaded library does not replace:
//! only cargo and the linker differ.

mod list;
mod options;
#[path = "../preloaded/mod.rs"]
mod preloaded;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::{env, fs};

use list::{Program, THREADS};
use options::Options;
use preloaded::{Figures, Library};

/// Returns this file's module documentation, for `--help`.
fn about() -> impl Iterator<Item = &'static str> {
    include_str!("main.rs").lines().map_while(|line| line.strip_prefix("//!"))
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

/// Runs every program that is installed, and prints the table row by row.
fn compare(options: &Options) -> Result<(), String> {
    let folder = env::temp_dir().join(format!("pagewise-programs-{}", std::process::id()));
    fs::create_dir(&folder)
        .map_err(|error| format!("{} cannot be made: {error}", folder.display()))?;
    print_head(&options.libraries);
    let mut means = Means::new(options.libraries.len());
    for program in &options.programs {
        if let Some(medians) = measure(program, options, &folder)? {
            means.enter(&medians);
            print_row(program.name, &medians);
        }
    }
    means.print();
    // Leftovers stay among temporary files.
    let _ = fs::remove_dir_all(&folder);
    Ok(())
}

/// Returns the medians of a program, library by library; `None` if it is not installed.
///
/// # Errors
/// The program failed under a library.
fn measure(
    program: &Program,
    options: &Options,
    folder: &Path,
) -> Result<Option<Vec<Figures>>, String> {
    let Program { name, needs, prepare, script } = program;
    let libraries = &options.libraries;
    let prepared = format!("command -v {needs} && {{ :\n{prepare}\n}}");
    if run(&prepared, &libraries[0], folder).is_none() {
        return Ok(None);
    }
    let mut runs = vec![Vec::new(); libraries.len()];
    for _ in 0..options.rounds {
        for (library, runs) in libraries.iter().zip(&mut runs) {
            let figures = run(script, library, folder).ok_or_else(|| {
                format!("{name} failed under “{library}”; its files are in {folder:?}")
            })?;
            runs.push(figures);
        }
    }
    Ok(Some(runs.iter().map(|runs| median(runs)).collect()))
}

fn print_head(libraries: &[Library]) {
    println!("CPU time and peak memory; without a library = 1\n");
    print!("| program |");
    libraries.iter().skip(1).for_each(|library| print!(" {library} |"));
    print!("\n|---|");
    libraries.iter().skip(1).for_each(|_| print!("---:|"));
    println!();
}

fn print_row(name: &str, medians: &[Figures]) {
    print!("| {name} |");
    for [time, peak] in ratios(medians) {
        print!(" {time:.2} / {peak:.2} |");
    }
    println!();
}

/// Returns time and peak memory under each library, divided by those without one.
fn ratios(medians: &[Figures]) -> impl Iterator<Item = [f64; 2]> {
    let without = medians[0];
    let libraries = medians.iter().skip(1);
    libraries.map(move |one| [one.seconds / without.seconds, one.peak / without.peak])
}

/// Geometric means over the programs, of each library's ratios.
struct Means {
    programs: f64,
    /// Sums of logarithms.
    sums: Vec<[f64; 2]>,
}

impl Means {
    /// Returns the means of `runs` kinds of runs, the first of which is the reference.
    fn new(runs: usize) -> Self {
        Self { programs: 0.0, sums: vec![[0.0; 2]; runs - 1] }
    }

    fn enter(&mut self, medians: &[Figures]) {
        self.programs += 1.0;
        for (sums, ratios) in self.sums.iter_mut().zip(ratios(medians)) {
            *sums = [sums[0] + ratios[0].ln(), sums[1] + ratios[1].ln()];
        }
    }

    fn print(&self) {
        if self.programs == 0.0 {
            return println!("| none of them is installed |");
        }
        print!("| **geometric mean** |");
        for sums in &self.sums {
            let [time, peak] = sums.map(|sum| f64::exp(sum / self.programs));
            print!(" **{time:.2}** / **{peak:.2}** |");
        }
        println!();
    }
}

/// Runs a script in a folder with a library preloaded; `None` if it fails.
fn run(script: &str, library: &Library, folder: &Path) -> Option<Figures> {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(folder);
    command.env("WORKSPACE", env!("CARGO_MANIFEST_DIR")).env("THREADS", THREADS);
    preloaded::run(&mut command, library)
}

fn median(runs: &[Figures]) -> Figures {
    let middle = |of: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    Figures { seconds: middle(|f| f.seconds), peak: middle(|f| f.peak) }
}
