//! All programs under all libraries, as a Markdown table.

use std::process::ExitCode;
use std::{iter, thread};

use crate::outcome::{self, Outcome};
use crate::programs::{Expected, Program, select};

/// Prints the table. Each library is given as `NAME=PATH`.
pub(crate) fn print(names: &[&str], libraries: &[&str]) -> ExitCode {
    let split = |library: &&'static str| library.split_once('=');
    let libraries: Vec<&'static str> =
        libraries.iter().map(|library| &*String::from(*library).leak()).collect();
    let (Some(programs), Some(libraries)) =
        (select(names), libraries.iter().map(split).collect::<Option<Vec<_>>>())
    else {
        return crate::usage();
    };
    print!("| line | program | glibc |");
    libraries.iter().for_each(|(name, _)| print!(" {name} |"));
    print!("\n|---:|---|---:|");
    libraries.iter().for_each(|_| print!("---:|"));
    println!();
    let mut bad = vec![0; libraries.len() + 1];
    for program in programs {
        // In parallel: most programs spend their time asleep, or in a deadlock.
        let outcomes: Vec<Outcome> = thread::scope(|scope| {
            let paths = iter::once(None).chain(libraries.iter().map(|(_, path)| Some(*path)));
            let runs: Vec<_> =
                paths.map(|path| scope.spawn(move || outcome::of(program, path))).collect();
            runs.into_iter().map(|run| run.join().expect("watching does not panic")).collect()
        });
        print!("| {} | {}{} |", program.line, program.about, bound(program));
        for (outcome, bad) in outcomes.iter().zip(&mut bad) {
            if outcome.is_good(program.expected, &outcomes[0]) == Some(false) {
                *bad += 1;
                print!(" **{outcome}** |");
            } else {
                print!(" {outcome} |");
            }
        }
        println!();
    }
    print!("| | **lines that fail** |");
    bad.iter().for_each(|bad| print!(" **{bad}** |"));
    println!();
    ExitCode::SUCCESS
}

/// Describes the bound on a figure.
fn bound(program: &Program) -> String {
    match program.expected {
        Expected::Survives => String::new(),
        Expected::AtMost { and, .. } => format!(" (at most glibc's × 1.1 + {and} MiB)"),
        Expected::AtLeast { times } => format!(" (at least {} % of glibc's)", times * 100.0),
        Expected::Below { mebibytes } => format!(" (below {mebibytes} MiB)"),
    }
}
