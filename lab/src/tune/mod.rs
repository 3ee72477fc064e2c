//! `pagewise tune`: searches for the parameters of the global allocator, and for the strategy and
//! parameters of an arena, that suit a program best, and measures their gain on data that the
//! search never saw.
//!
//! ```text
//!  trace ─┬─► first half  ─► search: cheap model ► measured generations ► finals ─► chosen, front
//!         └─► second half ──────────────────────────────────────────────────────► verdict, code
//!  PROGRAM ─► its own runs with the choice, the default and others ─────────────────┘
//! ```
//! The measures by which a candidate was chosen are biased in its favour, so they are no evidence
//! of a gain. Therefore a part of every trace is held out ([`split`]); gains are measured on that
//! part only, and reported only beyond the noise. A replay is not the program: if its command is
//! given, its own runs decide ([`program`]).

mod candidate;
mod emit;
mod found;
mod global;
mod goal;
mod held_out;
mod measure;
mod pages;
mod plan;
mod plot;
mod print;
mod program;
mod search;
mod split;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pagewise_replay::printable::printable;
use pagewise_replay::units::parse_bytes;
use pagewise_replay::usage::Usage;
use pagewise_replay::{input, output};

use self::goal::{Cap, Goal};
use self::plan::Plan;
use self::program::Program;
use crate::record::path_of;
use crate::system::library::{Library, OURS};

pub(crate) use self::candidate::Family;
pub(crate) use self::found::{Found, OnFront, Tuned};
pub(crate) use self::held_out::Standing;
pub(crate) use self::measure::Relative;
pub(crate) use self::print::{PROGRAM_HEADS, program_row};
pub(crate) use self::program::{CostArgs, InProgram, cost};

/// Search for the best allocator and parameters for a program, verify the gain, write the code
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Traces to tune for; with several, for their geometric mean; `-` is standard input
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,
    /// Goal: the quantity to minimise
    #[arg(long = "for", value_name = "GOAL", value_enum)]
    goal: Goal,
    /// Tune libpagewise.so, for a program not written in Rust: settings to paste. LIB is the
    /// library's path [default: beside this program, or where it was installed or built]
    #[arg(long, value_name = "LIB", num_args = 0..=1, require_equals = true, conflicts_with_all = ["global", "arena"])]
    preload: Option<Option<PathBuf>>,
    /// Tune only the global allocator, for a whole Rust program: a `Tuning` to paste
    #[arg(long, conflicts_with = "arena")]
    global: bool,
    /// Tune only an arena, for a part of a program: a strategy and its `Config` to paste
    #[arg(long)]
    arena: bool,
    /// Traces to verify the gain on, instead of the second half of each trace; may be given more
    /// than once
    #[arg(long, value_name = "TRACE")]
    held_out: Vec<PathBuf>,
    /// Other allocators to compare with: mimalloc, jemalloc, tcmalloc, or the path of a shared
    /// library; `none`: only the C library's and Lea's
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        default_value = "mimalloc,jemalloc,tcmalloc"
    )]
    against: Vec<String>,
    /// Cap on the peak memory, in bytes
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    cap: Option<usize>,
    /// Cap on the peak memory, as a multiple of the peak requested
    #[arg(long, value_name = "R", conflicts_with = "cap", value_parser = parse_ratio)]
    cap_ratio: Option<f64>,
    /// Number of candidates of each kind to measure, from 8 to 10,000
    #[arg(long, value_name = "N", default_value_t = 96, value_parser = clap::value_parser!(u32).range(8..=10_000))]
    candidates: u32,
    /// Seed of the search
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object, which `report --tune` reads
    #[arg(long)]
    json: bool,
    /// Write that JSON object into this file; `-` is standard output, and the text then goes to
    /// stderr; the same holds for the files below
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Draw the Pareto fronts into this SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Write the code into this file: Rust, or with --preload one setting per line. Without a gain,
    /// nothing is written
    #[arg(long, value_name = "FILE")]
    emit: Option<PathBuf>,
    /// Check the result: compile the Rust code with cargo against this pagewise, or have the
    /// library read the settings
    #[arg(long)]
    verify: bool,
    /// Number of runs of PROGRAM with each allocator
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u16).range(6..=1000), requires = "program", conflicts_with = "arena")]
    runs: u16,
    /// The program with its arguments: then its own runs decide about the gain. It must end by
    /// itself with status 0, and use the C library's malloc; it reads no input, and its output is
    /// discarded
    #[arg(last = true, value_name = "PROGRAM", conflicts_with = "arena")]
    program: Vec<OsString>,
}

const HELP: &str = "\
Examples:
  pagewise record -o app.pwt -- target/release/app
      first, a trace of your program
  pagewise tune app.pwt --for memory --global
      a Rust program: the Tuning to paste
  pagewise tune app.pwt --for speed --arena  an arena: the Config to paste
  pagewise tune app.pwt --for memory         both, one after the other
  pagewise tune redis.pwt --for memory --preload
      a program in C: PAGEWISE_... LD_PRELOAD=...
  pagewise tune app.pwt --for speed --cap-ratio 1.3 --emit tuned.rs --verify
  pagewise tune app.pwt --for speed --global -- target/release/app --once
      measure the gain in the program itself, not only in a replay
  pagewise tune monday.pwt --for balanced --held-out tuesday.pwt --seed 7
  pagewise tune app.pwt --for memory -o tune.json
      for `pagewise report app.pwt --tune tune.json`

Search space:
  the global allocator, Pagewise: page size, SIZEMAP (four classes per doubling,
  optimal by dynamic programming, page-fitting, geometric), FREETOL,
  FFCROSSOVER, the limits of quick lists, the size from which blocks are
  mappings, huge pages. Each candidate serves a replay in its own process.
  libpagewise.so: the same, as environment variables, called as malloc.
  an arena: strategies (the paged ones, PAGEWISE, fits, BUDDY, Hasan & Chang's
  hybrid, Kingsley) and their parameters: pages as above, and their unit;
  QL_HIGH, coalescing, the threshold and the growth unit of the hybrid.
Goals:
  speed     processor time
  memory    global: peak resident memory (less that before the replay; every
            page of every block is written); arena: peak bytes held, bookkeeping
            included
  faults    global: minor page faults; arena: page faults (LRU) with memory for
            half of the peak requested
  balanced  the geometric mean of the three
  The other two measures have a small weight, to break ties.
The gain is measured on data held out from the search: the second half of each
trace, which begins by allocating the blocks live at its middle, or the traces
of --held-out. The best candidates of the search are tried there in order, and
the first with a gain is chosen (for memory, the leanest). The output says if
none has a gain. The C library's allocator, Lea's and those of --against replay
the same, in their own processes; if one of them does better, the output says
so first.
A replay has one thread and does nothing but allocate, so a program gains less.
With PROGRAM, the program itself is run with the choice, the default, its own
allocator and those of --against, in turns, without tuning compiled in: with
libpagewise.so preloaded. Then code is written if the program gains: if all of
the interval that has the goal's measure with a confidence of 95 % is below the
default's, and its median by 0.5 %. Processor time is that of all threads, and
of processes that the program waits for. docs/tuning.md is a step-by-step
guide.";

fn parse_ratio(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|ratio| (1.0..=1e6).contains(ratio))
        .ok_or_else(|| "expected a number of at least 1".to_owned())
}

/// Runs the subcommand.
///
/// # Errors
/// A trace that cannot be read or split, a cap that no candidate keeps, a file that cannot be
/// written, code that does not compile.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let families = match (&args.preload, args.global, args.arena) {
        (Some(_), ..) => vec![Family::Preload],
        (_, true, _) => vec![Family::Global],
        (.., true) => vec![Family::Arena],
        _ => vec![Family::Global, Family::Arena],
    };
    let program = (!args.program.is_empty())
        .then_some(Program { command: &args.program, runs: args.runs.into() });
    let ours = match (&args.preload, &program) {
        (None, None) => None,
        (path, _) => Some(ours(path.as_ref().and_then(Option::as_deref))?),
    };
    let cap = match (args.cap, args.cap_ratio) {
        (Some(bytes), _) => Cap::Bytes(bytes as u64),
        (None, Some(ratio)) => Cap::Ratio(ratio),
        (None, None) => Cap::None,
    };
    let (libraries, not_compared) = rivals(&args.against)?;
    args.claim_files()?;
    if let Some(program) = &program {
        program.try_out()?;
    }
    let (traces, held_out) = (input::rereadable(&args.traces)?, input::rereadable(&args.held_out)?);
    let plan = Plan {
        traces: &traces,
        held_out: &held_out,
        families,
        ours,
        goal: args.goal,
        cap,
        candidates: args.candidates as usize,
        seed: args.seed,
        libraries,
        not_compared,
        program,
    };
    let tuned = plan.carry_out()?;
    let used = args.use_result(&tuned);
    // Printed in any case: the search took long.
    if args.json {
        output::print_json(&tuned)?;
    } else {
        output::print(&print::text(&tuned, args.verify && used.is_ok()))?;
    }
    used.map(|()| ExitCode::SUCCESS)
}

impl Args {
    /// Checks the requested files.
    fn claim_files(&self) -> anyhow::Result<bool> {
        let is_searched =
            |held: &&PathBuf| self.traces.iter().any(|path| output::are_same(path, held));
        if let Some(both) = self.held_out.iter().find(is_searched) {
            return Err(Usage(format!(
                "{} is searched as well as held out; hold another recording of the program out",
                both.display()
            ))
            .into());
        }
        let library = self.preload.iter().flatten();
        let read = self.traces.iter().chain(&self.held_out).chain(library).map(PathBuf::as_path);
        let files = [&self.emit, &self.output, &self.plot].into_iter().flatten();
        output::claim(read.chain(path_of(&self.program)), files.map(PathBuf::as_path))
    }

    /// Writes the requested files, and verifies the code or the settings if that is requested.
    fn use_result(&self, tuned: &Tuned) -> anyhow::Result<()> {
        if let Some(path) = &self.emit
            && let Some(left) = write_code(path, &tuned.code)?
        {
            output::say(&left);
        }
        if let Some(path) = &self.output {
            write(path, &output::json(tuned)?)?;
        }
        if let Some(path) = &self.plot {
            plot::write(path, tuned)?;
        }
        match self.preload {
            _ if tuned.code.is_empty() || !self.verify => Ok(()),
            Some(_) => emit::verify_settings(&tuned.code),
            None => emit::verify(&tuned.code),
        }
    }
}

/// Writes code to a file. Without a gain there is no code; then a file that is there already stays
/// as it is, and the result is a line that says so.
fn write_code(path: &Path, code: &str) -> anyhow::Result<Option<String>> {
    if !code.is_empty() {
        return write(path, code).map(|()| None);
    }
    let left = || {
        format!(
            "pagewise: {} was not written: without a gain there is no code. It holds what it held \
             before",
            printable(&path.display().to_string())
        )
    };
    Ok(path.is_file().then(left))
}

/// Few candidates, for a report that should be ready soon.
const SHORT: usize = 16;

/// Makes a short search for both families, with equal weights for all measures.
///
/// # Errors
/// If a trace cannot be read or split, or a process cannot be run.
pub(crate) fn quick_search(traces: &[PathBuf]) -> anyhow::Result<Tuned> {
    let plan = Plan {
        traces,
        held_out: &[],
        families: vec![Family::Global, Family::Arena],
        ours: None,
        goal: Goal::Balanced,
        cap: Cap::None,
        candidates: SHORT,
        seed: 1,
        libraries: Vec::new(),
        not_compared: Vec::new(),
        program: None,
    };
    plan.carry_out()
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    output::create(path, |out| Ok(std::io::Write::write_all(out, text.as_bytes())?))
}

/// Returns the library to which settings apply: at this path, or found by name.
fn ours(path: Option<&Path>) -> Result<&'static Library, Usage> {
    let library = match path {
        Some(path) => Library::find(path)?,
        None => Library::installed(OURS)?.map_err(Usage)?,
    };
    // Leaked once per process.
    Ok(Box::leak(Box::new(library)))
}

/// Returns the libraries of these names, and why others are missing.
fn rivals(names: &[String]) -> Result<(Vec<Library>, Vec<String>), Usage> {
    let (mut libraries, mut missing) = (Vec::new(), Vec::new());
    for name in names.iter().filter(|name| *name != "none") {
        match Library::installed(name)? {
            Ok(library) => libraries.push(library),
            Err(why) => missing.push(why),
        }
    }
    Ok((libraries, missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (Regression: an earlier result stayed in the file, and nothing was said.)
    #[test]
    fn a_file_of_earlier_code_is_told() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("code.rs");
        assert_eq!(write_code(&path, "").expect("nothing is written"), None);
        assert!(!path.exists());
        assert_eq!(write_code(&path, "first").expect("it is written"), None);
        let told = write_code(&path, "").expect("nothing is written").expect("it is there");
        assert!(told.contains("code.rs was not written: without a gain"), "{told}");
        assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "first");
    }
}
