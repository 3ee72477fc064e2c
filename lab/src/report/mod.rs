//! `pagewise report`: the requests of traces and the strategies' results, as one HTML file.
//!
//! ```text
//!            info ─┐
//!     sites (who) ─┤
//!         compare ─┤                 ┌─► tables and words, as HTML (page)
//!        simulate ─┼─► Collected ─────┤
//!  watched replay ─┤                 └─► figures, as JSON ─► drawn by the page's script (page/*.js)
//!  tune, if asked  ┘
//! ```
//! The file needs neither network nor other files. Text from a trace (its program's name and
//! arguments, its note) is untrusted: the template escapes every text in the HTML, the JSON
//! contains no `<`, and the page's content security policy runs only its own script, which has a
//! random nonce.

mod alone;
mod collected;
mod course;
mod flame;
mod heap_map;
mod page;
mod parts;
mod sites;
mod tuned;
mod watch;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pagewise_replay::printable::printable_json;
use pagewise_replay::progress::Progress;
use pagewise_replay::usage::Usage;
use pagewise_replay::{bundled, input, output};

use self::collected::Collected;
use crate::competitor::{Competitor, ConfigArgs};
use crate::tune::{self, Tuned};

pub(crate) use self::alone::WatchedAlone;

/// The strategies shown by default, besides the installed libraries: one or two of each family. A
/// page with all of them would be unreadable.
const SHOWN: [&str; 6] = ["PAGEWISE", "MRU", "BEST-FIT", "BUDDY", "HCGEN", "SYSTEM"];

/// Make an HTML page of charts and tables: memory over time, heaps, faults, the comparison
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Traces to report on; `-` is standard input [default: the bundled traces]
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// HTML file to write; `-` is standard output [default: NAME.html for the trace NAME.pwt,
    /// report.html for several, unless that is no report]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A strategy, a family of them or `all` (`pagewise strategies` lists them); may be given more
    /// than once [default: PAGEWISE, MRU, BEST-FIT, BUDDY, HCGEN, SYSTEM; LIBPAGEWISE, MIMALLOC,
    /// JEMALLOC and TCMALLOC where installed]
    #[arg(long = "strategy", value_name = "NAME", value_delimiter = ',')]
    strategies: Vec<String>,
    /// Show the gain from tuning, read from a file that `pagewise tune -o FILE` wrote; without
    /// FILE, from a short search that weighs all measures equally
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with = "json")]
    tune: Option<Option<PathBuf>>,
    /// Print the page's data as JSON instead of writing the page
    #[arg(long, conflicts_with = "output")]
    json: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

const HELP: &str = "\
Examples:
  pagewise report gawk.pwt
      writes gawk.html
  pagewise report gawk.pwt perl.pwt -o both.html --strategy MRU,BEST-FIT,SYSTEM
  pagewise report gawk.pwt --tune -o gawk.html
      also the gain from a short search for a tuning
  pagewise tune gawk.pwt --for memory -o tune.json
  pagewise report gawk.pwt --tune tune.json -o gawk.html
  pagewise report gawk.pwt --json > gawk.json

Contents of the page, for each trace:
  live bytes over time, requested sizes, lifetimes; with call stacks (record
  --stacks) a flame graph, live bytes by function, and the functions whose sizes
  fit their blocks badly; the comparison, as `compare` prints it; bytes held and
  fragmentation over time; each strategy's heap over time, by address, coloured
  by age or size; page faults over memory, as `simulate` counts them; with
  --tune the Pareto front of time and memory, the gain on the held-out part, and
  the code to paste.
The page is one file that loads nothing from the network, can be read on a phone
and printed, and follows the reader's light or dark setting.";

/// Runs the subcommand.
///
/// # Errors
/// An unknown strategy, parameters out of range, a trace that cannot be read, a file that cannot be
/// written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let parameters = args.config.check()?;
    let competitors = args.competitors()?;
    let tuned = args.tune.iter().flatten();
    let read = args.traces.iter().chain(tuned).map(PathBuf::as_path);
    let path = args.file();
    output::claim(read, path.as_deref())?;
    if let (Some(path), None) = (&path, &args.output) {
        output::check_default(path, "a report", page::is_report)?;
    }
    let traces =
        if args.traces.is_empty() { bundled::traces()? } else { input::rereadable(&args.traces)? };
    // Report faults of any trace before measuring the first.
    for path in &traces {
        input::open(path)?;
    }
    // Likewise faults of this file.
    let read = match &args.tune {
        Some(Some(path)) => Some(Tuned::load(path)?),
        _ => None,
    };
    let progress = Progress::new((traces.len() * competitors.len() * collected::STEPS) as u64);
    let collect =
        |path: &PathBuf| collected::over_trace(path, &competitors, &args.config, &progress);
    let collect = || traces.iter().map(collect).collect::<Result<Vec<_>, _>>();
    match &path {
        // Open the file before the long measurement.
        Some(path) => {
            output::create(path, |out| {
                let collected = collect()?;
                progress.finish();
                let tuned = match args.tune {
                    Some(None) => Some(tune::quick_search(&traces)?),
                    _ => read,
                };
                let page = page::of(collected, tuned.as_ref(), &parameters)?;
                Ok(out.write_all(page.as_bytes())?)
            })?;
            if args.output.is_none() {
                output::say(&format!("pagewise: wrote {}", output::shown(path)));
            }
        }
        None => {
            let collected = collect()?;
            progress.finish();
            let charts: Vec<_> = collected.iter().map(Collected::charts).collect();
            output::print_line(&printable_json(serde_json::to_string(&charts)?))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Returns the file to write, unless JSON is printed instead.
    fn file(&self) -> Option<PathBuf> {
        if self.json || self.output.is_some() {
            return self.output.clone();
        }
        let of_one = |trace: &PathBuf| {
            let mut name = trace.file_stem()?.to_owned();
            name.push(".html");
            (trace != Path::new(input::STANDARD)).then_some(name)
        };
        let name = match &self.traces[..] {
            [one] => of_one(one),
            _ => None,
        };
        Some(name.unwrap_or_else(|| "report.html".into()).into())
    }

    fn competitors(&self) -> Result<Vec<Competitor>, Usage> {
        if self.strategies.is_empty() {
            let shown = Competitor::choose(&SHOWN.map(str::to_owned))?;
            Ok(shown.into_iter().chain(Competitor::libraries()).collect())
        } else {
            Competitor::choose(&self.strategies)
        }
    }
}
