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
#[path = "../preloaded/mod.rs"]
mod preloaded;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::{env, fs};

use list::{PROGRAMS, Program, THREADS};
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
    let mut rounds = 5;
    let mut only = None;
    let mut libraries = vec![Library::default()];
    let mut arguments = env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(argument) = arguments.next() {
        if argument == "--rounds" {
            rounds = arguments.next().and_then(|value| value.parse().ok()).unwrap_or(rounds);
        } else if argument == "--only" {
            only = arguments.next();
        } else if let Some(library) = Library::parse(&argument) {
            libraries.push(library);
        } else {
            eprintln!("unknown library {argument}; see --help");
            return ExitCode::FAILURE;
        }
    }
    let mut logarithms = vec![(0.0, 0.0); libraries.len()];
    let mut measured = 0.0;
    println!("CPU time and peak memory; without a library = 1\n");
    print!("| program |");
    libraries.iter().skip(1).for_each(|library| print!(" {library} |"));
    print!("\n|---|");
    libraries.iter().skip(1).for_each(|_| print!("---:|"));
    println!();
    let folder = env::temp_dir().join(format!("pagewise-programs-{}", std::process::id()));
    if let Err(error) = fs::create_dir(&folder) {
        eprintln!("{} cannot be made: {error}", folder.display());
        return ExitCode::FAILURE;
    }
    let run = |script: &str, library: &Library| run(script, library, &folder);
    let is_wanted =
        |name: &str| only.as_ref().is_none_or(|only| only.split(',').any(|one| one == name));
    for Program { name, needs, prepare, script } in
        PROGRAMS.iter().filter(|one| is_wanted(one.name))
    {
        if run(&format!("command -v {needs} && {{ :\n{prepare}\n}}"), &libraries[0]).is_none() {
            continue;
        }
        let mut runs = vec![Vec::new(); libraries.len()];
        for _ in 0..rounds {
            for (library, runs) in libraries.iter().zip(&mut runs) {
                let Some(figures) = run(script, library) else {
                    eprintln!("{name} failed under “{library}”; its files are in {folder:?}");
                    return ExitCode::FAILURE;
                };
                runs.push(figures);
            }
        }
        let medians: Vec<Figures> = runs.iter().map(|runs| median(runs)).collect();
        print!("| {name} |");
        for (one, logarithm) in medians.iter().zip(&mut logarithms).skip(1) {
            let (time, peak) = (one.seconds / medians[0].seconds, one.peak / medians[0].peak);
            logarithm.0 += time.ln();
            logarithm.1 += peak.ln();
            print!(" {time:.2} / {peak:.2} |");
        }
        println!();
        measured += 1.0;
    }
    print!("| **geometric mean** |");
    for (time, peak) in logarithms.iter().skip(1) {
        print!(" **{:.2}** / **{:.2}** |", f64::exp(time / measured), f64::exp(peak / measured));
    }
    println!();
    // Leftovers stay among temporary files.
    let _ = fs::remove_dir_all(&folder);
    ExitCode::SUCCESS
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
