//! Misuses of memory, each with blocks of four sizes, and their outcomes: detected at once, late,
//! or not at all; harmless, or proved harmful. The programs call C's `malloc` and `free`, so they
//! test whichever library is preloaded.
//!
//! ```sh
//! misuse list
//! misuse run [LIBRARY] MISUSE…
//! misuse table [--json] [--times N] LIBRARY…
//! ```
//! A library is given as `NAME=PATH`, or with environment variables as `NAME=PATH,VARIABLE=VALUE…`;
//! without a path it is the C library's own. `run` prints a line for each size: misuse, size,
//! outcome, and the allocator's message.
//!
//! The watching process is never preloaded.

mod aftermath;
mod c;
mod live;
mod misuses;
mod outcome;
mod own;
#[path = "../../../child/process.rs"]
mod process;
#[path = "../../../random/mod.rs"]
mod random;
mod stage;
mod table;
mod watch;

use std::process::ExitCode;
use std::{env, io};

use live::Live;
use misuses::{CONTROL, MISUSES, Misuse, ON_STACK, Place};
use watch::Library;

#[global_allocator]
static OWN: own::Own = own::Own::new();

/// A small block, a medium one, one with boundary tags, and a separate mapping; each size with its
/// name.
const SIZES: [(usize, &str); 4] =
    [(64, "64 B"), (3000, "3,000 B"), (100_000, "100 KB"), (48 << 20, "48 MiB")];

const USAGE: &str = "misuse list | run [NAME=LIBRARY[,VARIABLE=VALUE…]] [MISUSE…] | \
                     table [--json] [--times N] NAME=LIBRARY[,VARIABLE=VALUE…]…";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["inside", name, size] => match (named(name), size.parse()) {
            (Some(misuse), Ok(size)) => inside(misuse, size),
            _ => return usage(),
        },
        ["list"] => {
            for misuse in MISUSES {
                println!("{:22} {}", misuse.name, misuse.about);
            }
            Ok(ExitCode::SUCCESS)
        }
        ["run", ref rest @ ..] => run(rest),
        ["table", ref rest @ ..] => table(rest),
        _ => return usage(),
    };
    done.unwrap_or_else(|error| {
        eprintln!("misuse: {error}");
        ExitCode::FAILURE
    })
}

fn usage() -> ExitCode {
    eprintln!("usage: {USAGE}");
    ExitCode::from(2)
}

fn named(name: &str) -> Option<&'static Misuse> {
    MISUSES.iter().chain([&CONTROL]).find(|misuse| misuse.name == name)
}

/// Runs the misuse itself, and its aftermath.
fn inside(misuse: &Misuse, size: usize) -> io::Result<ExitCode> {
    /// Bytes of the target to which a misuse plants a pointer; an allocator that follows it hands
    /// this memory out.
    const TARGET: usize = 1 << 16;

    let mut on_stack = [0u128; ON_STACK / 16];
    let mut live = Live::new();
    let target = misuses::mapping(TARGET);
    live.foreign(target, TARGET);
    stage::watch_faults();
    let planted = target.wrapping_add(TARGET / 2);
    (misuse.run)(&mut live, Place { size, planted, stack: on_stack.as_mut_ptr().cast() });
    stage::reached(stage::MISUSED);
    aftermath::run(&mut live, size);
    if live.overwritten {
        stage::reached("overwritten");
    } else {
        stage::reached(live.seen.unwrap_or("unnoticed"));
    }
    std::hint::black_box(&mut on_stack);
    Ok(ExitCode::SUCCESS)
}

/// Runs the named misuses, or all, and prints their outcomes.
fn run(arguments: &[&str]) -> io::Result<ExitCode> {
    let (library, names) = match arguments {
        [library, names @ ..] if library.contains('=') => (Library::parse(library), names),
        names => (Some(Library::default()), names),
    };
    let misuses = match names {
        [] => Some(MISUSES.iter().collect()),
        names => names.iter().map(|name| named(name)).collect::<Option<Vec<_>>>(),
    };
    let (Some(library), Some(misuses)) = (library, misuses) else { return Ok(usage()) };
    for misuse in misuses {
        for (size, words) in SIZES {
            let run = watch::run(misuse, size, library)?;
            let message = run.message.lines().collect::<Vec<_>>().join(" / ");
            println!("{}\t{}\t{}\t{message}", misuse.name, words, run.outcome);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn table(arguments: &[&str]) -> io::Result<ExitCode> {
    let (mut json, mut times, mut libraries) = (false, 1, Vec::new());
    let mut arguments = arguments.iter();
    while let Some(&argument) = arguments.next() {
        match argument {
            "--json" => json = true,
            "--times" => match arguments.next().and_then(|times| times.parse().ok()) {
                Some(number @ 1..) => times = number,
                _ => return Ok(usage()),
            },
            library => match Library::parse(library) {
                Some(library) => libraries.push(library),
                None => return Ok(usage()),
            },
        }
    }
    table::print(&libraries, times, json).map(|()| ExitCode::SUCCESS)
}
