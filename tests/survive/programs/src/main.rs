//! Programs under conditions that a malloc library must survive: forks, limits, sandboxes, sparse
//! memory, idle memory, many threads. They call C's `malloc` and `free`, so they test whichever
//! library is preloaded.
//!
//! ```sh
//! survive list
//! survive run [--preload LIBRARY] PROGRAM…
//! survive table [--programs NAME,NAME] NAME=LIBRARY…
//! ```
//! `run` prints each program's outcome and exits with 1 if one is not as required. `table` runs all
//! programs under glibc's allocator and under each library, and prints Markdown.
//!
//! Each program runs in its own process group under a time limit: a deadlock is the outcome
//! *hangs*. On a slow or busy machine `SURVIVE_PATIENCE=n` multiplies the limit by n. The watching
//! process is never preloaded.

mod attributes;
mod blocks;
mod calls;
mod cgroup;
mod clock;
mod early;
mod extensions;
mod fork;
mod limits;
mod memory;
mod outcome;
#[path = "../../../child/process.rs"]
mod process;
mod programs;
#[path = "../../../random/mod.rs"]
mod random;
mod sandbox;
mod system;
mod table;
mod threads;

use std::env;
use std::process::ExitCode;

use programs::PROGRAMS;

const USAGE: &str = "survive list | run [--preload LIBRARY] PROGRAM… | \
                     table [--programs NAME,NAME] NAME=LIBRARY…";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["inside", name, ..] => match programs::named(name) {
            Some(program) => (program.run)().report(),
            None => usage(),
        },
        ["list"] => {
            for program in PROGRAMS {
                println!("{:18} line {:2}  {}", program.name, program.line, program.about);
            }
            ExitCode::SUCCESS
        }
        ["run", "--preload", library, ref names @ ..] => run(names, Some(library)),
        ["run", ref names @ ..] => run(names, None),
        ["table", "--programs", names, ref libraries @ ..] => {
            table::print(&names.split(',').collect::<Vec<_>>(), libraries)
        }
        ["table", ref libraries @ ..] => table::print(&[], libraries),
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: {USAGE}");
    ExitCode::from(2)
}

/// Runs the named programs, or all, and prints their outcomes. With a library they also run without
/// it, to compare figures.
fn run(names: &[&str], library: Option<&str>) -> ExitCode {
    let Some(programs) = programs::select(names) else { return usage() };
    let mut all_good = true;
    for program in programs {
        let outcome = outcome::of(program, library);
        let glibc = match library {
            Some(_) if program.expected.is_relative() => outcome::of(program, None),
            _ => outcome.clone(),
        };
        let bad = outcome.is_good(program.expected, &glibc) == Some(false);
        let relative = if program.expected.is_relative() {
            format!("\tglibc: {glibc}")
        } else {
            String::new()
        };
        println!("{}\t{outcome}{relative}{}", program.name, if bad { "\tbad" } else { "" });
        all_good &= !bad;
    }
    if all_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
