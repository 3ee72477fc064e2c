//! `pagewise tune`: searches for the strategy and the parameters that suit a program best, and
//! shows on data the search never saw what they are worth.
//!
//! ```text
//!  trace ─┬─► first half  ─► search: cheap model ► measured generations ► finals ─► chosen, front
//!         └─► second half ──────────────────────────────────────────────────────► verdict, code
//! ```
//! What was chosen for its figures has good figures; that is no evidence. So a part of every trace
//! is held out ([`split`]), and gains are claimed from it alone, and only beyond the noise.

mod candidate;
mod emit;
mod goal;
mod held_out;
mod measure;
mod print;
mod search;
mod split;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use pagewise::trace;
use serde::Serialize;

use self::candidate::Candidate;
use self::goal::{Cap, Goal};
use self::held_out::HeldOut;
use self::measure::Relative;
use self::search::Search;
use crate::error::Usage;
use crate::output;
use crate::units::parse_bytes;

/// Search for the strategy and parameters that suit a program best, and verify the gain
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Traces to tune for; with several, for their geometric mean
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// What is to be as little as possible
    #[arg(long = "for", value_name = "GOAL", value_enum)]
    goal: Goal,
    /// Traces to verify the gain on, instead of the second half of each trace; may be given more
    /// than once
    #[arg(long, value_name = "TRACE")]
    held_out: Vec<PathBuf>,
    /// The most that may be held at one time, in bytes
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    cap: Option<usize>,
    /// The most that may be held, as a multiple of the most that is requested at one time
    #[arg(long, value_name = "R", conflicts_with = "cap", value_parser = parse_ratio)]
    cap_ratio: Option<f64>,
    /// How many candidates to measure
    #[arg(long, value_name = "N", default_value_t = 96, value_parser = clap::value_parser!(u32).range(8..=10_000))]
    candidates: u32,
    /// Seed of the search
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write the Rust code into this file
    #[arg(long, value_name = "FILE")]
    emit: Option<PathBuf>,
    /// Compile the Rust code, with cargo, against this pagewise
    #[arg(long)]
    verify: bool,
}

const HELP: &str = "\
Examples:
  pagewise tune gawk.pwt --for memory
  pagewise tune gawk.pwt --for speed --cap-ratio 1.3 --emit tuned.rs --verify
  pagewise tune monday.pwt --for balanced --held-out tuesday.pwt --seed 7

What is searched:
  strategies (the paged ones, PAGEWISE, fits, BUDDY, Hasan & Chang's hybrid, Kingsley) and their
  parameters: page size, SIZEMAP (optimal by dynamic programming, page-fitting, geometric), FREETOL,
  FFCROSSOVER; QL_HIGH, joining, the threshold and the growth unit of the hybrid.
Goals:
  speed     processor time        memory    the most bytes held at one time
  faults    page faults (LRU) with memory for half of what is requested at most
  balanced  the geometric mean of the three
  The other two measures count a little, to tell apart what is equal.
The gain is measured on what the search has not seen: the second half of each trace, which begins by
allocating what lives at its middle, or the traces of --held-out. If nothing is gained, that is said.";

fn parse_ratio(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|ratio| (1.0..=1e6).contains(ratio))
        .ok_or_else(|| "a number from 1".to_owned())
}

/// What came out: the fields of `--json`.
#[derive(Debug, Serialize)]
struct Tuned {
    goal: Goal,
    seed: u64,
    /// Candidates measured.
    measured: usize,
    /// What nothing else measured beats in time, memory and faults, on the searched part.
    front: Vec<OnFront>,
    chosen: String,
    held_out: HeldOut,
    /// The Rust code of what was chosen.
    code: String,
}

/// A candidate of the Pareto front; its measures relative to the default's.
#[derive(Debug, Serialize)]
struct OnFront {
    candidate: String,
    #[serde(flatten)]
    relative: Relative,
    chosen: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// A trace that cannot be read or split, a cap that nothing keeps, a file that cannot be written,
/// code that does not compile.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // What is wrong with any trace should be known before the first is measured.
    for path in args.traces.iter().chain(&args.held_out) {
        trace::open(path)?;
    }
    let directory = tempfile::tempdir().context("no place for the halves of the traces")?;
    let (searched, held_out) = if args.held_out.is_empty() {
        split::halves(&args.traces, directory.path())?
    } else {
        (args.traces.clone(), args.held_out.clone())
    };
    let cap = match (args.cap, args.cap_ratio) {
        (Some(bytes), _) => Cap::Bytes(bytes as u64),
        (None, Some(ratio)) => Cap::Ratio(ratio),
        (None, None) => Cap::None,
    };
    let mut search = Search::new(&searched, args.goal, cap, args.seed, args.candidates as usize)?;
    search.run()?;
    let Some(chosen) = search.chosen()? else {
        return Err(Usage(format!(
            "no candidate keeps the cap; the least that was held is {}",
            search.least_held()
        ))
        .into());
    };
    let verdict = held_out::judge(&chosen, &held_out, args.goal, cap)?;
    let code = emit::code(&chosen, &args.traces, args.goal);
    if let Some(path) = &args.emit {
        output::create(path, |out| Ok(std::io::Write::write_all(out, code.as_bytes())?))?;
    }
    if args.verify {
        emit::verify(&code)?;
    }
    let tuned = Tuned {
        goal: args.goal,
        seed: args.seed,
        measured: search.measured(),
        front: search.front(&chosen),
        chosen: chosen.to_string(),
        held_out: verdict,
        code,
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&tuned)?);
    } else {
        print!("{}", print::text(&tuned, args.held_out.is_empty(), args.verify));
    }
    Ok(ExitCode::SUCCESS)
}

/// The candidate that all are compared with.
fn default() -> Candidate {
    Candidate::default_of("PAGEWISE")
}
