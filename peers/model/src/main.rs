//! How the global allocator's designs scale to many cores: a discrete-event simulation, since we
//! have no such machine.
//!
//! ```text
//! cargo run --release -p pagewise-cores                          the table, and the picture in docs/many-cores.svg
//! cargo run --release -p pagewise-cores -- --measure             with times measured on this machine
//! ```
//!
//! | file | |
//! |---|---|
//! | `times` | the times of single steps: recorded, measured, or assumed |
//! | `machine` | cores, and cache lines that move between them |
//! | `heap` | a heap: its lock, its bookkeeping, its deferred frees |
//! | `design` | an allocator's work when blocks enter and leave a thread's list |
//! | `load` | the programs' behaviour, and the events |
//! | `picture` | the curves |

mod design;
mod heap;
mod load;
mod machine;
mod picture;
mod times;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use design::Design;
use load::{Load, Point};
use times::Times;

/// Simulate the global allocator on machines of 2 to 384 cores.
///
/// Prints the operations (allocations and frees) per core and microsecond, for each design, load
/// and number of cores, and plots them. docs/many-cores.md lists the model's simplifications.
#[derive(Debug, Parser)]
#[command(name = "pagewise-cores")]
struct Arguments {
    /// Numbers of cores to simulate; even, at least 2.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384],
        value_parser = cores)]
    cores: Vec<usize>,
    /// Measure the times of single steps here, instead of using the recorded ones.
    #[arg(long)]
    measure: bool,
    /// SVG file to write the picture to.
    #[arg(long, value_name = "FILE", default_value = "docs/many-cores.svg")]
    picture: PathBuf,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

fn cores(argument: &str) -> Result<usize, String> {
    const MOST: usize = 1 << 12;
    match argument.parse() {
        Ok(cores) if (2..=MOST).contains(&cores) && cores % 2 == 0 => Ok(cores),
        _ => Err(format!("expected an even number from 2 to {MOST}")),
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let times = if arguments.measure { times::measure()? } else { times::RECORDED };
    let mut points = Vec::new();
    for load in Load::ALL {
        for design in Design::ALL {
            for &cores in &arguments.cores {
                let operations = load::simulate(&times, load, design, cores);
                points.push(Point { load, design, cores, operations });
            }
        }
    }
    if arguments.json {
        let all = serde_json::json!({ "times": times, "points": points });
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        print(&times, &points, &arguments.cores);
    }
    let picture = &arguments.picture;
    picture::draw(picture, &points)
        .with_context(|| format!("{} cannot be written", picture.display()))?;
    eprintln!("the picture is in {}", picture.display());
    Ok(())
}

fn print(times: &Times, points: &[Point], cores: &[usize]) {
    println!("{times}");
    for load in Load::ALL {
        println!("\n{load}: operations of each core in a microsecond\n");
        print!("| |");
        cores.iter().for_each(|cores| print!(" {cores} |"));
        print!("\n|---|{}\n", "---:|".repeat(cores.len()));
        for design in Design::ALL {
            print!("| {design} |");
            for point in points.iter().filter(|point| point.load == load && point.design == design)
            {
                print!(" {:.2} |", point.operations);
            }
            println!();
        }
    }
}
