//! Compares every strategy over traces, in two passes per trace (metering would falsify times):
//!
//! - *metered*, all strategies at once on all cores: items visited, bytes held, OS pages touched;
//! - *timed*, alone on one CPU, the strategies taking turns, round after round.
//!
//! The system's allocator cannot be metered from within, nor started afresh in a process that has
//! used it; each of its runs has a process of its own (`served`).

mod compared;
mod metered;
mod plot;
mod row;
mod table;
mod timed;
mod verdict;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pagewise::paged::Config;

use crate::competitor::{Competitor, ConfigArgs};
use crate::progress::Progress;
use crate::workload::Workload;
use crate::{bundled, input, output, units};

pub(crate) use compared::Compared;
pub(crate) use row::Row;
pub(crate) use table::{Grid, Mean, grid, mean_of_each, means};
pub(crate) use timed::Rounds;
pub(crate) use verdict::{of as verdict, reference};

/// Measure every strategy over traces, and say which is fastest and leanest
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Traces to compare over; `-` is standard input; none: the bundled ones
    #[arg(value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) options: Options,
}

/// What is compared, and how.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Comparison")]
pub(crate) struct Options {
    /// A trace to compare over; may be given more than once
    #[arg(long = "trace", value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// A strategy, a family of them or `all` (`pagewise strategies` lists them); may be given more
    /// than once [default: the best of each family, LEA and SYSTEM]
    #[arg(long = "strategy", value_name = "NAME", value_delimiter = ',')]
    strategy: Vec<String>,
    /// Print one JSON row per trace and strategy instead of tables
    #[arg(long)]
    json: bool,
    /// Draw time against memory into this SVG file: each trace, and the means over all; `-` is
    /// standard output, and the tables go to stderr
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Timed rounds per trace; without it, as many as fit a few seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    #[command(flatten)]
    config: ConfigArgs,
}

const HELP: &str = "\
Examples:
  pagewise compare                                   the bundled traces, the usual strategies
  pagewise compare gawk.pwt --strategy MRU,SYSTEM    two strategies over one trace
  pagewise compare --strategy fits,SYSTEM            a family of strategies
  pagewise compare --page-size 4K --sizemap geometric=1.25
  pagewise compare --plot compared.svg               time against memory, to look at
  pagewise compare --json > rows.json

What is measured:
  ns/pair      processor time per allocation or reallocation with the free that matches it; median
               of the rounds. Each block's first and last byte are written. Blocks live at the end
               of the trace are freed inside the measurement. +/- is half the distance between the
               quartiles.
  items/pair   list items visited by the strategy's bookkeeping; \"paged\" counts only the pairs
               that pages served. Not known of LEA and SYSTEM.
  peak held    most bytes taken from the operating system at one time, bookkeeping included.
               Of SYSTEM, as its own mallinfo2 counts them (arena + hblkhd), in a fresh process
               whose other data lie elsewhere.
  frag         1 - (most bytes requested at one time / most bytes held)
  OS pages     distinct pages of the operating system in which a block or a visited item lies.
               Of SYSTEM: in which a block or its tag lies.

LEA is Doug Lea's allocator, as the crate dlmalloc has it, over memory of its own.
SYSTEM is timed twice. What its two results differ by is the noise, and no lead below it counts.";

/// Runs the subcommand.
///
/// # Errors
/// An unknown strategy, parameters out of range, a trace that cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = &args.options;
    let parameters = options.config.check()?;
    let competitors = Competitor::choose(&options.strategy)?;
    output::claim(options.plot.as_deref())?;
    let traces: Vec<_> = args.traces.iter().chain(&options.trace).cloned().collect();
    let mut traces = input::settle(&traces)?;
    if traces.is_empty() {
        traces = bundled::traces()?;
    }
    // What is wrong with any trace should be known before the first is measured.
    for path in &traces {
        input::open(path)?;
    }

    if !options.json {
        output::print_line(&parameters)?;
    }
    let rounds = timed::Rounds::new(options.repeat, traces.len());
    let progress = Progress::new((traces.len() * competitors.len() * 2) as u64);
    let mut compared = Vec::new();
    for trace in &traces {
        let config = options.config.for_trace(trace)?;
        let workload = Workload::load(trace)?;
        let compared_trace = over_trace(&workload, trace, &competitors, config, rounds, &progress)?;
        if !options.json {
            progress.above(|| output::print(&format!("\n{}", table::of_trace(&compared_trace))))?;
        }
        compared.push(compared_trace);
    }
    progress.finish();
    let compared: Vec<&Compared> = compared.iter().collect();
    if let Some(path) = &options.plot {
        plot::write(path, &compared)?;
    }
    if options.json {
        let rows: Vec<&Row> = compared.iter().flat_map(|trace| &trace.rows).collect();
        output::print_json(&rows)?;
    } else {
        output::print(&format!("\n{}", table::summary(&compared)))?;
        for sentence in verdict(&compared) {
            output::print_line(&sentence)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures one competitor over one trace, timed once.
///
/// # Errors
/// A trace that cannot be read.
pub(crate) fn once(
    workload: &Workload,
    path: &Path,
    competitor: Competitor,
    config: Config,
) -> anyhow::Result<Row> {
    let metered = metered::one(workload, path, competitor, config)?;
    let times = timed::one(workload, path, competitor, config)?;
    Ok(Row::new(competitor.name(), workload, metered, times))
}

/// Measures every competitor over one trace, in two steps of `progress` each.
///
/// # Errors
/// If the trace cannot be read any more, or the system's allocator not be run.
pub(crate) fn over_trace(
    workload: &Workload,
    path: &Path,
    competitors: &[Competitor],
    config: Config,
    rounds: timed::Rounds,
    progress: &Progress,
) -> anyhow::Result<Compared> {
    let metered = metered::all(workload, path, competitors, config, progress)?;
    let timed = timed::all(workload, path, competitors, config, rounds, progress)?;
    let rows = competitors
        .iter()
        .zip(metered)
        .zip(timed.times)
        .map(|((competitor, metered), time)| Row::new(competitor.name(), workload, metered, time))
        .collect();
    let facts = workload.facts;
    let about = format!(
        "{}, {}, {} live at the end, at most {} requested",
        units::count(facts.allocations, "allocation"),
        units::count(facts.reallocations, "reallocation"),
        units::thousands(facts.live_at_end),
        units::bytes(facts.peak_requested),
    );
    Ok(Compared { trace: workload.name.clone(), about, rows, noise: timed.noise })
}
