//! `pagewise who`: shows which code allocated, from a trace's call stacks.
//!
//! ```text
//!  trace ─► count: the figures of each site ─► group: by function, line or stack ─► print, JSON
//!           name: functions of a site       ─► export: folded stacks, pprof
//! ```

pub(crate) mod count;
mod export;
pub(crate) mod group;
pub(crate) mod name;
mod print;
mod view;
pub(crate) mod waste;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pagewise_replay::progress::Progress;
use pagewise_replay::usage::Usage;
use pagewise_replay::workload::Workload;
use pagewise_replay::{input, output, text};
use serde::Serialize;

use crate::competitor::{Competitor, ConfigArgs};

use count::{At, Counted, Figures};
use group::{By, Group};
use name::Names;
use view::View;

/// Show which code allocates: the functions, lines or call stacks with the most live, leaked,
/// allocated or temporary blocks
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// A trace recorded with `pagewise record --stacks`; `-` is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Group allocations by function, line or call stack
    #[arg(long, value_enum, default_value = "function")]
    by: By,
    /// Moment at which to count live blocks: `peak` (most bytes live), `end`, or after event N
    #[arg(long, value_name = "peak|end|N", value_parser = parse_at, default_value = "peak")]
    at: At,
    /// Show these figures only
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FIGURE")]
    of: Vec<View>,
    /// Number of groups to show for each figure
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Also show the N innermost frames of each group's heaviest stack [16 if grouped by stack]
    #[arg(long, value_name = "N")]
    callers: Option<usize>,
    /// Skip functions whose names begin with NAME: they allocate for their callers
    #[arg(long, value_name = "NAME")]
    skip: Vec<String>,
    /// Skip no function: show `operator new`, `xmalloc` and the standard libraries themselves
    #[arg(long, conflicts_with = "skip")]
    raw: bool,
    /// Also replay the trace under these allocators, and show the bytes that blocks live at the
    /// chosen moment take beyond those requested, and the sizes that cause most: at most four names
    /// of `pagewise strategies` [without names: PAGEWISE, SYSTEM]
    #[arg(
        long,
        value_name = "NAME,...",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "PAGEWISE,SYSTEM",
        value_delimiter = ',',
        conflicts_with = "folded",
    )]
    waste: Vec<String>,
    /// Print everything as a JSON object
    #[arg(long, conflicts_with_all = ["folded", "of", "top", "callers"])]
    json: bool,
    /// Print folded stacks of the first figure of --of, for flame graphs
    #[arg(long, conflicts_with_all = ["by", "top", "callers"])]
    folded: bool,
    /// Write a profile that pprof reads; `-` is standard output, and texts then go to stderr
    #[arg(long, value_name = "FILE.pb.gz")]
    pprof: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArgs,
}

const HELP: &str = "\
Examples:
  pagewise record --stacks -o server.pwt -- ./server
  pagewise who server.pwt  functions that hold memory at the peak, or leak
  pagewise who server.pwt --of leaked --callers 6
      with the calls that lead there
  pagewise who server.pwt --by line --at end
  pagewise who server.pwt --waste=PAGEWISE,JEMALLOC
      functions whose sizes fit their blocks badly
  pagewise who server.pwt --folded --of allocated > server.folded
  pagewise who server.pwt --pprof server.pb.gz; go tool pprof -top server.pb.gz

A block belongs to the function that requested it: the innermost one on the call
stack that is neither an allocator (`operator new`, `xmalloc`) nor part of the
standard library of C++ or Rust. A reallocation counts as a free and an
allocation. A block is temporary if its thread frees it before it allocates
again. A block live at the end was never freed, which is a leak only if nothing
refers to it; where the recording was cut, it may have been freed later. A
function without debug data has no line; in a module without symbols, the
module's name and an offset stand for the function.";

fn parse_at(text: &str) -> Result<At, String> {
    match text {
        "peak" => Ok(At::Peak),
        "end" => Ok(At::End),
        _ => text
            .replace([',', '_'], "")
            .parse()
            .map(At::Event)
            .map_err(|_| "expected `peak`, `end` or the number of an event".to_owned()),
    }
}

/// The output of `--json`.
#[derive(Serialize)]
struct Json<'a> {
    trace: String,
    events: u64,
    at_event: u64,
    total: Figures,
    groups: &'a [Group],
}

/// Runs the subcommand.
///
/// # Errors
/// A trace that cannot be read, or has no call stacks; a file that cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.top == 0 {
        return Err(Usage("--top must be at least 1".to_owned()).into());
    }
    output::claim([&*args.trace], args.pprof.as_deref())?;
    let parameters = args.config.check()?;
    let competitors = Competitor::choose(&args.waste)?;
    if competitors.len() > print::MOST_TAKEN {
        return Err(Usage(format!("--waste takes at most {} allocators", print::MOST_TAKEN)).into());
    }
    let path = input::rereadable_one(&args.trace)?;
    let counted = count::count(&path, args.at)?;
    let names = Names::new(&counted, &args.skip, args.raw)?;
    if let Some(file) = &args.pprof {
        let date = input::open(&path)?.header().origin.date;
        let profile = export::pprof(&counted, &names, date)?;
        output::create(file, |out| Ok(out.write_all(&profile)?))?;
        output::say(&format!("pagewise: wrote {}", output::shown(file)));
    }
    if args.folded {
        let view = args.of.first().copied().unwrap_or(View::Live);
        output::print(&export::folded(&counted, &names, view)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut grouped = group::groups(&counted, &names, args.by)?;
    let mut told = Vec::new();
    if !competitors.is_empty() {
        let workload = Workload::load(&path)?;
        let replayed = (&workload, &*path);
        let parameters = args.config.for_trace(&path)?;
        let progress = Progress::new(competitors.len() as u64);
        told = waste::add(&mut grouped, &counted, &competitors, &parameters, replayed, &progress)?;
        progress.finish();
    }
    if args.json {
        json(&path, &counted, grouped.groups)?;
    } else if args.pprof.is_none() || !args.of.is_empty() {
        let asked = print::Asked {
            trace: &input::trace_name(&path),
            at: match args.at {
                At::Peak => "at the peak",
                At::End => "at the end",
                At::Event(_) => "at that moment",
            },
            views: if args.of.is_empty() { &View::USUAL } else { &args.of },
            top: args.top,
            callers: args.callers.unwrap_or(if args.by == By::Stack { 16 } else { 0 }),
            by: args.by,
            taken: &told,
            parameters: &parameters,
        };
        output::print(&print::text(&counted, &grouped.groups, &asked))?;
        output::print_line(&format!("\n{}", next(args)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Suggests the next step: what was not asked for.
fn next(args: &Args) -> String {
    let has_callers = args.callers.is_some() || args.by == By::Stack;
    let more = [
        (!has_callers).then_some("--callers 8 shows the calls that lead there"),
        args.waste
            .is_empty()
            .then_some("--waste shows the functions whose sizes fit their blocks badly"),
        Some("`pagewise report` draws a flame graph"),
    ];
    text::next(more)
}

/// Prints everything, the groups with the most live bytes first.
fn json(path: &Path, counted: &Counted, mut groups: Vec<Group>) -> anyhow::Result<()> {
    groups.sort_by_key(|group| {
        let Figures { live_bytes, allocated_bytes, .. } = group.figures;
        std::cmp::Reverse((live_bytes, allocated_bytes))
    });
    output::print_json(&Json {
        trace: input::trace_name(path),
        events: counted.events,
        at_event: counted.at,
        total: counted.total,
        groups: &groups,
    })
}
