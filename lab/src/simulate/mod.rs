//! Simulates paging: replays traces, and counts the page faults that each strategy's choice of
//! addresses would cause in memory of any size.
//!
//! Brent §7.3 assumes "that each block was referenced twice, once when allocated and once just
//! before being freed". So the reference string consists of the blocks' own pages and, on request,
//! of the items that bookkeeping visits. Strict LRU gives the results for all working sets in one
//! pass ([`paging`](pagewise_replay::paging)).
//!
//! A trace's working sets have the same number of pages for every strategy, so that a strategy that
//! spreads its blocks pays for it: percentages are of the *peak*, the most bytes that the program
//! ever requested at one time, in pages, rounded up. No allocator can use fewer pages for these.

mod memory;
mod overview;
mod plot;
mod row;
mod setup;
mod system;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pagewise::catalogue::Entry;
use pagewise_replay::lea::Lea;
use pagewise_replay::progress::Progress;
use pagewise_replay::usage::Usage;
use pagewise_replay::workload::{CAPACITY, Stop, Target, Workload, capacity};
use pagewise_replay::{bundled, input, output, text};
use rayon::prelude::*;

use self::memory::{Found, Memory, Program};
use self::setup::{Touch, parse_page_size};
use crate::child;
use crate::competitor::{Competitor, ConfigArgs, Parameters};
use crate::served::Server;
use crate::strategies;
use crate::system::library::Library;
use crate::touched::os_page_size;

pub(crate) use self::row::{Row, Simulated};
pub(crate) use self::setup::WorkingSet;
pub(crate) use self::system::Paged;

/// Simulate paging, and count each strategy's page faults
#[derive(Debug, clap::Args)]
#[command(after_help = HELP, mut_arg("page_size", |arg| arg.long("strategy-page")))]
pub(crate) struct Args {
    /// Traces to replay; `-` is standard input [default: the bundled traces]
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// A strategy, a family of them or `all` (`pagewise strategies` lists them); may be given more
    /// than once [default: the best-known strategies, LEA and SYSTEM]
    #[arg(long = "strategy", value_name = "NAME", value_delimiter = ',')]
    strategies: Vec<String>,
    /// Also simulate this allocator's shared library, as SYSTEM with that library's malloc; may be
    /// given more than once
    #[arg(long, value_name = "LIB")]
    preload: Vec<PathBuf>,
    /// Size of a simulated page, a power of two from 512 bytes to 2 MiB; may be given more than
    /// once. What is --page-size in other commands is --strategy-page here
    #[arg(long = "page-size", value_name = "BYTES", value_delimiter = ',', default_value = "4K",
          value_parser = parse_page_size)]
    simulated: Vec<usize>,
    /// Pages that memory holds, as a number or in percent of the peak; may be given more than once
    /// [default: 10%, 25%, 50%, 100%]
    #[arg(long = "working-set", value_name = "N|N%", value_delimiter = ',')]
    working_sets: Vec<WorkingSet>,
    /// Pages of a block that the program touches
    #[arg(long, value_enum, default_value_t = Touch::Written)]
    touch: Touch,
    /// Also count references by the strategies' bookkeeping (unknown for SYSTEM and LEA)
    #[arg(long)]
    bookkeeping: bool,
    /// Also simulate CLOCK, beside LRU
    #[arg(long)]
    clock: bool,
    /// Make the strategies' pages as large as the simulated ones, as Brent does
    #[arg(long, conflicts_with = "page_size")]
    same_page: bool,
    /// Print one JSON row per trace, page size and strategy instead of tables
    #[arg(long)]
    json: bool,
    /// Print only the overview, as Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Draw the page-fault curves into this SVG file; `-` is standard output, and the tables then
    /// go to stderr
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
}

const HELP: &str = "\
Examples:
  pagewise simulate gawk.pwt
  pagewise simulate gawk.pwt --strategy MRU,SYSTEM --page-size 512,4K,64K,2M
  pagewise simulate gawk.pwt --same-page --bookkeeping --clock --plot gawk.svg
  pagewise simulate --preload libmimalloc.so.2 --working-set 10%,50% --markdown

Simulation:
  Memory holds a fixed number of pages, the working set. A reference to a page
  outside it is a fault; the page replaces the least recently used one (LRU), or
  the next one in circular order that was not used since the last round (CLOCK).
  First references also count as faults. A program refers to every page of a
  block when it is allocated or resized, and to the block's first page just
  before it is freed (--touch written). Blocks live at the end of the trace are
  freed. Percentages are of the peak: the most bytes that the program had
  requested at one time, in simulated pages, rounded up. It is the same for
  every strategy.";

/// Printed below the tables.
const NOTES: &str = "\
*         the fewest in its column
touched   pages referenced: the faults if memory holds everything
";

/// Runs the subcommand.
///
/// # Errors
/// An unknown strategy, parameters out of range, a trace that cannot be read, a missing library, a
/// plot that cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let parameters = args.check()?;
    let subjects = args.subjects()?;
    output::claim(args.traces.iter().map(PathBuf::as_path), args.plot.as_deref())?;
    let traces =
        if args.traces.is_empty() { bundled::traces()? } else { input::rereadable(&args.traces)? };
    // Report faults of any trace before simulating the first.
    for path in &traces {
        input::open(path)?;
    }
    if !args.json && !args.markdown {
        output::print_line(&parameters)?;
    }
    let steps = traces.len() * args.simulated.len() * subjects.len();
    let progress = Progress::new(steps as u64);
    let mut simulated = Vec::new();
    for path in &traces {
        let workload = Workload::load(path)?;
        for &page_size in &args.simulated {
            let one = args.simulate(path, &workload, page_size, &subjects, &progress)?;
            if !args.json && !args.markdown {
                progress.above(|| output::print(&format!("\n{}", table::of(&one))))?;
            }
            simulated.push(one);
        }
    }
    progress.finish();
    if let Some(path) = &args.plot {
        plot::write(path, &simulated)?;
    }
    if args.json {
        let rows: Vec<&Row> = simulated.iter().flat_map(|one| &one.rows).collect();
        output::print_json(&rows)?;
    } else if args.markdown || traces.len() > 1 {
        output::print(&overview::of(&simulated, args.markdown))?;
    }
    if !args.json && !args.markdown {
        let competitors = subjects.iter().filter_map(|subject| match subject {
            Subject::Competitor(competitor) => Some(*competitor),
            Subject::Preloaded(_) => None,
        });
        let who = strategies::explained(&competitors.collect::<Vec<_>>());
        let more = [
            args.plot.is_none().then_some("--plot FILE.svg draws the curves"),
            args.working_sets.is_empty().then_some("--working-set sets other memory sizes"),
            Some("`pagewise compare` measures time and memory"),
        ];
        output::print(&format!("\n{NOTES}{}\n\n{who}", text::next(more)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Simulates these competitors over one trace with the usual settings: pages of the operating
/// system, the usual working sets, strict LRU, blocks written completely.
///
/// # Errors
/// If the trace can no longer be read, or the system's allocator cannot be run.
pub(crate) fn usual(
    path: &Path,
    workload: &Workload,
    competitors: &[Competitor],
    config: &ConfigArgs,
    progress: &Progress,
) -> anyhow::Result<Simulated> {
    let args = Args {
        traces: Vec::new(),
        strategies: Vec::new(),
        preload: Vec::new(),
        simulated: Vec::new(),
        working_sets: Vec::new(),
        touch: Touch::Written,
        bookkeeping: false,
        clock: false,
        same_page: false,
        json: false,
        markdown: false,
        plot: None,
        config: config.clone(),
    };
    let subjects: Vec<_> = competitors.iter().copied().map(Subject::Competitor).collect();
    args.simulate(path, workload, os_page_size(), &subjects, progress)
}

/// Returns memory for half of a workload's peak of requested bytes, in pages of the operating
/// system: page size, and number of pages.
fn half(workload: &Workload) -> (usize, usize) {
    let page_size = os_page_size();
    let peak = usize::try_from(workload.facts.peak_requested).unwrap_or(usize::MAX);
    (page_size, WorkingSet::Percent(50.0).pages(peak.div_ceil(page_size)))
}

/// Returns the page faults of a replay with memory for half of the peak (strict LRU, blocks written
/// completely).
///
/// # Errors
/// As [`Workload::replay`].
pub(crate) fn faults_at_half<T: Target + ?Sized>(
    workload: &Workload,
    target: &mut T,
) -> Result<u64, Stop> {
    let (page_size, pages) = half(workload);
    let memory = Memory::new(page_size, None);
    workload.replay(target, &mut Program { memory: &memory, touch: Touch::Written })?;
    Ok(memory.faults(pages))
}

/// Like [`faults_at_half`], for the system's allocator in its own process.
///
/// # Errors
/// If the process cannot be run or fails.
pub(crate) fn faults_of_system_at_half(
    path: &Path,
    workload: &Workload,
) -> anyhow::Result<Result<u64, Stop>> {
    let (page_size, pages) = half(workload);
    let (working_sets, touch) = (vec![pages], Touch::Written);
    let job = Paged { server: Server::Malloc, page_size, working_sets, clock: false, touch };
    let found = child::run_in_child(&job, path, None)?;
    Ok(found.map(|found| found.faults.first().map_or(0, |faults| faults.lru)))
}

/// The allocator whose choice of addresses is simulated.
#[derive(Clone, Debug)]
enum Subject {
    Competitor(Competitor),
    Preloaded(Library),
}

impl Subject {
    fn name(&self) -> &str {
        match self {
            Self::Competitor(competitor) => competitor.name(),
            Self::Preloaded(library) => &library.name,
        }
    }

    /// Returns the strategy of the catalogue, if it is one.
    fn strategy(&self) -> Option<&'static Entry> {
        match self {
            Self::Competitor(Competitor::Strategy(entry)) => Some(entry),
            _ => None,
        }
    }
}

impl Args {
    /// Checks the strategies' parameters, and returns them as the report's head shows them: a line
    /// per size of the strategies' pages.
    fn check(&self) -> Result<String, Usage> {
        if !self.same_page {
            return self.config.check();
        }
        let lines = self.simulated.iter().map(|&size| self.config.with_page_size(size).check());
        Ok(lines.collect::<Result<Vec<_>, _>>()?.join("\n"))
    }

    fn subjects(&self) -> anyhow::Result<Vec<Subject>> {
        let competitors = match &self.strategies[..] {
            [] => Competitor::usual(),
            names => Competitor::choose(names)?,
        };
        let libraries = self.preload.iter().map(|path| Library::find(path));
        let libraries = libraries.collect::<Result<Vec<_>, _>>()?;
        let competitors = competitors.into_iter().map(Subject::Competitor);
        Ok(competitors.chain(libraries.into_iter().map(Subject::Preloaded)).collect())
    }

    /// Simulates every subject over one trace at one page size, on all cores.
    fn simulate(
        &self,
        path: &Path,
        workload: &Workload,
        page_size: usize,
        subjects: &[Subject],
        progress: &Progress,
    ) -> anyhow::Result<Simulated> {
        let parameters = match self.same_page {
            true => self.config.with_page_size(page_size).for_trace(path)?,
            false => self.config.for_trace(path)?,
        };
        let peak_requested = workload.facts.peak_requested;
        let peak = usize::try_from(peak_requested)?.div_ceil(page_size);
        let asked = match &self.working_sets[..] {
            [] => &WorkingSet::USUAL,
            asked => asked,
        };
        let pages: Vec<_> = asked.iter().map(|set| set.pages(peak)).collect();
        let run = Run { args: self, path, workload, page_size, pages: &pages, parameters };
        let one = |subject: &Subject| {
            let found = run.subject(subject)?;
            progress.step(1, || format!("{}: {}", workload.name, subject.name()));
            let strategy_page = subject.strategy().map(|entry| parameters.of(entry).page_size);
            anyhow::Ok((subject.name().to_owned(), strategy_page, found))
        };
        let found = subjects.par_iter().map(one).collect::<Result<Vec<_>, _>>()?;
        let about = row::About { peak_requested, peak, page_size, pages: &pages };
        let rows = found.into_iter().map(|(name, strategy_page, found)| {
            Row::new(&workload.name, name, strategy_page, about, found)
        });
        Ok(Simulated {
            trace: workload.name.clone(),
            page_size,
            peak_requested,
            peak,
            working_sets: asked.iter().copied().zip(pages.iter().copied()).collect(),
            rows: rows.collect(),
        })
    }
}

/// One trace at one page size.
struct Run<'a> {
    args: &'a Args,
    path: &'a Path,
    workload: &'a Workload,
    page_size: usize,
    /// The working sets, in pages.
    pages: &'a [usize],
    parameters: Parameters,
}

impl Run<'_> {
    fn subject(&self, subject: &Subject) -> anyhow::Result<Result<Found, Stop>> {
        let found = match subject {
            Subject::Preloaded(library) => self.alone(Server::Malloc, Some(library))?,
            Subject::Competitor(Competitor::Lea) => {
                let memory = Memory::new(self.page_size, self.args.clock.then_some(self.pages));
                self.target(&mut Lea::new(CAPACITY), &memory)
            }
            Subject::Competitor(Competitor::Strategy(entry)) => {
                let memory = Memory::new(self.page_size, self.args.clock.then_some(self.pages));
                if self.args.bookkeeping {
                    let mut strategy =
                        entry.build_metered(self.parameters.of(entry), capacity(entry), &memory)?;
                    self.target(&mut *strategy, &memory)
                } else {
                    let mut strategy = entry.build(self.parameters.of(entry), capacity(entry))?;
                    self.target(&mut *strategy, &memory)
                }
            }
            Subject::Competitor(other) => {
                self.alone(other.server(&self.parameters), other.library())?
            }
        };
        match found {
            Err(Stop::Trace(error)) => Err(error),
            found => Ok(found),
        }
    }

    fn target<T: Target + ?Sized>(&self, target: &mut T, memory: &Memory) -> Result<Found, Stop> {
        let mut program = Program { memory, touch: self.args.touch };
        self.workload.replay(target, &mut program)?;
        Ok(memory.found(self.pages))
    }

    fn alone(
        &self,
        server: Server,
        library: Option<&Library>,
    ) -> anyhow::Result<Result<Found, Stop>> {
        let Args { clock, touch, .. } = *self.args;
        let working_sets = self.pages.to_vec();
        let job = Paged { server, page_size: self.page_size, working_sets, clock, touch };
        child::run_in_child(&job, self.path, library)
    }
}
