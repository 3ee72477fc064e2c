//! Replays one trace under one strategy in detail: figures, usage over time and, on request, an
//! audit of the strategy and of every block's contents.

mod audit;
mod plot;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail};
use pagewise::Strategy;
use pagewise_replay::text::{self, paragraph};
use pagewise_replay::usage::Usage;
use pagewise_replay::workload::{Stop, Workload};
use pagewise_replay::{input, output, units};
use serde::Serialize;

use self::audit::Audit;
use crate::compare::{self, Row};
use crate::competitor::{Competitor, ConfigArgs};
use crate::development;
use crate::timeline::{self, Timeline, sparkline};

/// Replay a trace under one strategy, and report time, memory and bookkeeping
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The trace; `-` is standard input
    trace: PathBuf,
    /// The strategy (`pagewise strategies` lists them), or SYSTEM
    #[arg(long, value_name = "NAME")]
    strategy: String,
    /// Verify the contents of every block, and check the whole heap every N operations
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "10000",
          value_parser = parse_interval)]
    audit: Option<u64>,
    /// Draw the bytes requested and held over time into this SVG file; `-` is standard output
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

fn parse_interval(text: &str) -> Result<u64, &'static str> {
    let number = text.parse().ok().filter(|&number| number > 0);
    number.ok_or("expected a number of operations; a trace goes before --audit")
}

const HELP: &str = "\
Examples:
  pagewise replay gawk.pwt --strategy MOST-FREE
  pagewise replay gawk.pwt --strategy LEAST-FREE --page-size 4K --freetol 512
  pagewise replay gawk.pwt --strategy HC --hc QL_HIGH=144,SPLIT=off
  pagewise replay gawk.pwt --strategy MRU --audit
      check the heap every 10,000 operations
  pagewise replay gawk.pwt --strategy MRU --audit 1
      after every operation (slow)
  pagewise replay gawk.pwt --strategy MRU --plot mru.svg

An audit checks that blocks are aligned and keep their contents, also when they
move; that the strategy's invariants hold; and that a walk of the heap adds up
to the bytes that the strategy reports as held. The first fault ends the replay
with exit status 1.";

/// Maximum parts of a plotted curve.
const PLOTTED: u64 = 400;

/// The results of a replay.
#[derive(Debug, Serialize)]
struct Replayed {
    #[serde(flatten)]
    row: Row,
    /// Successful audits of the whole heap; null if none were requested.
    audits: Option<u64>,
    /// Peaks of the bytes requested and held, in each of equal parts of the trace.
    timeline: Option<Timeline>,
}

/// Runs the subcommand.
///
/// # Errors
/// An unknown strategy, a trace that cannot be read, a strategy that ran out of memory, and the
/// first fault that an audit finds.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let competitor = Competitor::find(&args.strategy)?;
    let parameters = args.config.check_for(competitor)?;
    let is_strategy = matches!(competitor, Competitor::Strategy(_) | Competitor::Hybrid);
    if !is_strategy && args.audit.is_some() {
        let name = competitor.name();
        return Err(
            Usage(format!("--audit checks only pagewise's own strategies, not {name}")).into()
        );
    }
    if !is_strategy && args.plot.is_some() {
        let name = competitor.name();
        return Err(
            Usage(format!("--plot draws only pagewise's own strategies, not {name}")).into()
        );
    }
    output::claim([&*args.trace], args.plot.as_deref())?;
    let trace = input::rereadable_one(&args.trace)?;
    let workload = Workload::load(&trace)?;
    let config = args.config.for_trace(&trace)?;
    let row = compare::once(&workload, &trace, competitor, &config)?;
    if let Some(reason) = row.stopped() {
        let bound = match competitor {
            Competitor::Strategy(entry) if !entry.reuses => "; it gets no more than --memory",
            _ => "",
        };
        bail!("{}: {}: {reason}{bound}", workload.name, row.strategy());
    }
    let mut replayed = Replayed { row, audits: None, timeline: None };
    if is_strategy {
        let server = competitor.server(&config);
        let mut strategy = server.strategy()?;
        replayed.timeline = Some(watch(&workload, &mut *strategy, timeline::LINE)?);
        if let Some(path) = &args.plot {
            let timeline = watch(&workload, &mut *server.strategy()?, PLOTTED)?;
            let caption = format!("{} under {}", workload.name, competitor.name());
            plot::write(path, &caption, workload.facts.operations(), &timeline)?;
        }
        if let Some(every) = args.audit {
            let mut strategy = server.strategy()?;
            let audits = audit(&workload, &mut *strategy, every)
                .map_err(|stop| anyhow!("{}: {}: {stop}", workload.name, competitor.name()))?;
            replayed.audits = Some(audits);
        }
    }
    if args.json {
        output::print_json(&replayed)?;
    } else {
        let more = [
            (is_strategy && args.audit.is_none()).then_some("--audit checks the heap as it goes"),
            (is_strategy && args.plot.is_none()).then_some("--plot FILE.svg draws it over time"),
            Some("`pagewise compare` compares it with others"),
        ];
        let text = text(&workload, &replayed, &parameters);
        output::print(&format!("{text}\n{}\n", text::next(more)))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Follows a strategy's usage through a trace, in at most `parts` parts.
fn watch(
    workload: &Workload,
    strategy: &mut (dyn Strategy + '_),
    parts: u64,
) -> Result<Timeline, Stop> {
    let mut timeline = Timeline::new(workload.facts.operations(), parts);
    workload.replay(strategy, &mut timeline)?;
    Ok(timeline)
}

/// Replays a trace with audits every `every` operations and at the end; returns their number.
fn audit(workload: &Workload, strategy: &mut (dyn Strategy + '_), every: u64) -> Result<u64, Stop> {
    let mut audit = Audit::new(every);
    workload.replay(strategy, &mut audit)?;
    let operation = workload.facts.operations();
    audit.finish(strategy).map_err(|fault| Stop::Fault { operation, fault })
}

/// Formats the results of a replay for people.
fn text(workload: &Workload, replayed: &Replayed, parameters: &str) -> String {
    let facts = workload.facts;
    let mut lines: Vec<_> = development::warning().map(paragraph).into_iter().collect();
    lines.extend([
        format!("{} under {} ({parameters})", workload.name, replayed.row.strategy()),
        format!(
            "  requests        {}, {}, {} live at the end",
            units::count(facts.allocations, "allocation"),
            units::count(facts.reallocations, "reallocation"),
            units::thousands(facts.live_at_end),
        ),
    ]);
    let described = replayed.row.described();
    lines.extend(described.into_iter().map(|(name, text)| format!("  {name:<15} {text}")));
    if let Some(timeline) = &replayed.timeline {
        let most = timeline.most_held();
        lines.push(format!("  requested       {}", sparkline(&timeline.requested, most)));
        lines.push(format!("  held            {}", sparkline(&timeline.held, most)));
    }
    if let Some(audits) = replayed.audits {
        let audits = units::count(audits, "audit");
        lines.push(format!("  audit           no fault in {audits} of the whole heap"));
    }
    lines.join("\n") + "\n"
}
