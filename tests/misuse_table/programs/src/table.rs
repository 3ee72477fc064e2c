//! All misuses under all libraries, as a Markdown table or as JSON.

use std::io;

use crate::SIZES;
use crate::misuses::{CONTROL, MISUSES};
use crate::outcome::Outcome;
use crate::watch::{self, Library, Run};

/// Runs every misuse `times` times; the worst outcome per misuse, size and library counts.
pub(crate) fn print(libraries: &[Library], times: usize, json: bool) -> io::Result<()> {
    if !json {
        head(libraries);
    }
    let mut cells = Vec::new();
    // Per library, the number of misuses that silently did harm or faulted.
    let mut bad = vec![0; libraries.len()];
    for misuse in MISUSES.iter().chain([&CONTROL]) {
        for (size, words) in SIZES {
            let worst = |&library| {
                let runs = (0..times).map(|_| watch::run(misuse, size, library));
                let runs = runs.collect::<io::Result<Vec<Run>>>()?;
                Ok(runs.into_iter().max_by_key(|run| run.outcome).expect("it ran"))
            };
            let runs = libraries.iter().map(worst).collect::<io::Result<Vec<Run>>>()?;
            if json {
                cells.extend(libraries.iter().zip(runs).map(|(library, run)| {
                    serde_json::json!({
                        "misuse": misuse.name,
                        "size": size,
                        "library": library.name,
                        "outcome": run.outcome.to_string(),
                        "message": run.message,
                    })
                }));
            } else {
                print!("| {} | {} |", misuse.name, words);
                for (run, bad) in runs.iter().zip(&mut bad) {
                    let mark = if run.outcome > Outcome::Unnoticed { "**" } else { "" };
                    *bad += usize::from(!mark.is_empty());
                    print!(" {mark}{}{mark} |", run.outcome);
                }
                println!();
            }
        }
    }
    if json {
        println!("{}", serde_json::Value::from(cells));
    } else {
        print!("| **bold** | of {} |", MISUSES.len() * SIZES.len());
        bad.iter().for_each(|bad| print!(" **{bad}** |"));
        println!();
    }
    Ok(())
}

fn head(libraries: &[Library]) {
    for misuse in MISUSES.iter().chain([&CONTROL]) {
        println!("- {}: {}", misuse.name, misuse.about);
    }
    print!("\n| misuse | size |");
    libraries.iter().for_each(|library| print!(" {} |", library.name));
    print!("\n|---|---|");
    libraries.iter().for_each(|_| print!("---|"));
    println!();
}
