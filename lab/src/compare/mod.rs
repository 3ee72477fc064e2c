//! Compares every strategy over traces, in two passes per trace (metering would distort times):
//!
//! - *metered*, all strategies at once on all cores: items visited, bytes held, OS pages touched;
//! - *timed*, alone on one CPU: the strategies take turns, in rounds.
//!
//! The system's allocator can be neither metered from within nor restarted in a process that has
//! used it; each of its runs has its own process (`served`).

mod advice;
mod compared;
mod measure;
mod metered;
mod plot;
mod row;
mod screen;
mod table;
mod timed;
mod verdict;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pagewise_replay::progress::Progress;
use pagewise_replay::workload::Workload;
use pagewise_replay::{bundled, input, output, units};

use crate::competitor::{Competitor, ConfigArgs, Parameters};

pub(crate) use compared::Compared;
pub(crate) use measure::reference;
pub(crate) use row::Row;
use screen::Screen;
pub(crate) use table::{Grid, Mean, grid, mean_of_each, means};
pub(crate) use timed::Rounds;
pub(crate) use verdict::of as verdict;

/// Measure allocators over traces, and say which is fastest and leanest
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Traces to compare over; `-` is standard input [default: the bundled traces]
    #[arg(value_name = "TRACE")]
    pub(crate) traces: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) options: Options,
}

/// The comparison: which traces, and how.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Comparison")]
pub(crate) struct Options {
    /// A trace to compare over, the same as TRACE of `compare`; may be given more than once
    #[arg(long = "trace", value_name = "FILE")]
    trace: Vec<PathBuf>,
    /// A strategy, a family of them or `all` (`pagewise strategies` lists them); may be given more
    /// than once [default: the usual choices and SYSTEM; LIBPAGEWISE, MIMALLOC, JEMALLOC and
    /// TCMALLOC where installed]
    #[arg(long = "strategy", value_name = "NAME", value_delimiter = ',')]
    strategy: Vec<String>,
    /// With several traces, also show a table for each
    #[arg(long, conflicts_with = "json")]
    each: bool,
    /// Print one JSON row per trace and strategy instead of tables
    #[arg(long)]
    json: bool,
    /// Draw time against memory into this SVG file, for each trace and the means over all; `-` is
    /// standard output, and the tables then go to stderr
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Timed rounds per trace [default: as many as fit into a few seconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    #[command(flatten)]
    config: ConfigArgs,
}

const HELP: &str = "\
Examples:
  pagewise compare  the bundled traces, under the usual allocators
  pagewise compare gawk.pwt --strategy MRU,SYSTEM
      two strategies over one trace
  pagewise compare --strategy fits,SYSTEM
      a family of strategies
  pagewise compare --page-size 4K --sizemap geometric=1.25
  pagewise compare --plot compared.svg
      plot time against memory
  pagewise compare --json > rows.json

Measures, each in a fresh heap:
  ns/pair      processor time per allocation or reallocation with the free that
               matches it; median of the rounds. Each block's first and last
               byte are written. Blocks live at the end of the trace are freed
               inside the measurement. +/- is half the interquartile range,
               unknown after a single round.
  resident     peak anonymous memory of a separate process, less the memory in
               use before the first block. Each OS page of each block is
               written.
  held         peak bytes taken from the operating system, bookkeeping included.
               For SYSTEM, mallinfo2 counts them (arena + hblkhd), in a fresh
               process whose other data are elsewhere. Unknown for GLOBAL and
               libraries.
  frag         1 - (peak bytes requested / peak bytes held)
  OS pages     distinct pages of the operating system that contain a block or a
               visited item; for SYSTEM a block or its tag, for GLOBAL and
               libraries a block.
  items        list items that the strategy's bookkeeping visits, per pair;
               --json also has those of the pairs that pages served. Known only
               for strategies.

An allocator without a result on a trace, because it ran out of memory or
crashed, has the reason in its place: `stopped` of --json. The exit status is 1
if there is no result at all.

One thread replays a trace, also one of several threads, in the order of its
events: locks, and memory that an allocator keeps for each thread, are not
measured.

GLOBAL is pagewise's global allocator, PAGEWISE the strategy of its arenas. LEA
is Doug Lea's allocator (crate dlmalloc), over its own memory. Without a
parameter option, every allocator has its default parameters. SYSTEM is timed
twice; the difference between its two results is the noise, and a smaller lead
does not count.";

/// Runs the subcommand. The exit status is 1 if no allocator finished any trace.
///
/// # Errors
/// An unknown strategy, parameters out of range, a trace that cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = &args.options;
    let parameters = options.config.check()?;
    let mut competitors = match &options.strategy[..] {
        [] => Competitor::choices(),
        names => Competitor::choose(names)?,
    };
    options.config.add_hc(&mut competitors);
    let traces: Vec<_> = args.traces.iter().chain(&options.trace).cloned().collect();
    output::claim(traces.iter().map(PathBuf::as_path), options.plot.as_deref())?;
    let mut traces = input::rereadable(&traces)?;
    if traces.is_empty() {
        traces = bundled::traces()?;
    }
    // Report faults of any trace before measuring the first.
    for path in &traces {
        input::open(path)?;
    }

    let rounds = timed::Rounds::new(options.repeat, traces.len());
    let progress = Progress::new((traces.len() * competitors.len() * 2) as u64);
    let mut compared = Vec::new();
    for trace in &traces {
        let of_trace = options.config.for_trace(trace)?;
        let workload = Workload::load(trace)?;
        compared.push(over_trace(&workload, trace, &competitors, &of_trace, rounds, &progress)?);
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
        let (all, parameters) = (&compared[..], &*parameters);
        let screen = Screen { all, competitors: &competitors, parameters, each: options.each };
        output::print(&screen.text())?;
    }
    let mut rows = compared.iter().flat_map(|trace| &trace.rows);
    let any = rows.any(|row| row.stopped().is_none());
    Ok(if any { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures one competitor over one trace; times it once.
///
/// # Errors
/// If a trace cannot be read.
pub(crate) fn once(
    workload: &Workload,
    path: &Path,
    competitor: Competitor,
    parameters: &Parameters,
) -> anyhow::Result<Row> {
    let metered = metered::one(workload, path, competitor, parameters)?;
    let times = timed::one(workload, path, competitor, parameters)?;
    Ok(Row::new(competitor.name(), workload, metered, times))
}

/// Measures every competitor over one trace, in two steps of `progress` each.
///
/// # Errors
/// If the trace can no longer be read, or the system's allocator cannot be run.
pub(crate) fn over_trace(
    workload: &Workload,
    path: &Path,
    competitors: &[Competitor],
    parameters: &Parameters,
    rounds: timed::Rounds,
    progress: &Progress,
) -> anyhow::Result<Compared> {
    let metered = metered::all(workload, path, competitors, parameters, progress)?;
    let timed = timed::all(workload, path, competitors, parameters, rounds, progress)?;
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
    let threads = input::open(path)?.header().threads;
    let (trace, argument) = (workload.name.clone(), input::argument(path));
    Ok(Compared { trace, argument, about, threads, rows, noise: timed.noise })
}
