//! Instructions per action, counted by callgrind, which other load on the machine does not affect.

use std::env;
use std::process::Command;

use super::{ACTIONS, LIVE, MAXIMA, json_line};

/// The functions to count: the allocators and their callees, except copying.
const COUNTED: [&str; 2] =
    ["--toggle-collect=*as arenas::peers::Heap>*", "--toggle-collect=__mem*"];

/// Returns one allocator's instructions and mispredicted branches (as modelled by callgrind) per
/// action.
fn count(name: &str, max: usize, live: usize, reallocates: bool) -> Result<(f64, f64), String> {
    let failed = |what: &str| format!("valgrind, {name}, {max} bytes, {live} live blocks: {what}");
    let this = env::current_exe().map_err(|error| failed(&error.to_string()))?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--branch-sim=yes"]);
    command.args(COUNTED).arg(this);
    command.args(["--only", name, &max.to_string(), &live.to_string()]);
    command.args((!reallocates).then_some("--no-realloc"));
    let output = command.output().map_err(|error| failed(&error.to_string()))?;
    let report = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(failed(&report));
    }
    let figure = |of: &str| {
        let figures = report.lines().find_map(|line| line.split(of).nth(1));
        let first = figures?.trim_start_matches([':', ' ']).split_whitespace().next()?;
        first.replace(',', "").parse::<f64>().ok()
    };
    let figures = figure("Collected").zip(figure("Mispredicts"));
    let (instructions, mispredicted) = figures.ok_or_else(|| failed(&report))?;
    let actions = (2 * ACTIONS) as f64;
    Ok((instructions / actions, mispredicted / actions))
}

/// Prints a table per number of live blocks, with and without reallocations.
pub(super) fn run(names: &[&str], json: bool) -> Result<(), String> {
    for reallocates in [true, false] {
        for live in LIVE {
            if !json {
                let without = if reallocates { "" } else { ", without reallocations" };
                println!("instructions / mispredicted branches per action, {live} live{without}");
                print!("{:<24}", "largest size");
                MAXIMA.iter().for_each(|max| print!("{max:>18}"));
                println!();
            }
            for name in names {
                if !json {
                    print!("{name:<24}");
                }
                for max in MAXIMA {
                    let (instructions, mispredicted) = count(name, max, live, reallocates)?;
                    if json {
                        json_line(
                            name,
                            &[
                                ("largest_size", &max),
                                ("live", &live),
                                ("reallocations", &reallocates),
                                ("instructions", &instructions),
                                ("mispredicted", &mispredicted),
                            ],
                        );
                    } else {
                        print!("{:>18}", format!("{instructions:.1} / {mispredicted:.2}"));
                    }
                }
                if !json {
                    println!();
                }
            }
            if !json {
                println!();
            }
        }
    }
    Ok(())
}
