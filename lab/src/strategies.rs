//! Lists the strategies by family: all names that options for strategies accept.

use std::process::ExitCode;

use pagewise::catalogue::{self, Family};
use pagewise_replay::output;
use serde::Serialize;

use crate::competitor::{Competitor, LIBPAGEWISE};
use pagewise_replay::text::last_column;

/// List the strategies by family, with a description and the source of each
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Strategies, or families of them [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Print a JSON array, one object per strategy
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Examples:
  pagewise strategies
  pagewise strategies fits lazy                 two families
  pagewise strategies --json | jq -r '.[].name'

`--strategy` takes these names and those of the families, in every command that
has it. A star marks the strategies compared by default. O(n): an allocation or
a free may visit every free block.";

/// Describes a competitor in a sentence; `None` if there is none of that name.
pub(crate) fn about(name: &str) -> Option<&'static str> {
    Competitor::find(name).ok().map(|competitor| Row::of(&competitor).about)
}

/// A row of the list.
#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    /// Null for an allocator that is not a strategy of the catalogue.
    family: Option<&'static str>,
    /// Paper and section, or another source.
    source: &'static str,
    about: &'static str,
    /// Whether it is compared by default.
    compared: bool,
    /// Whether an allocation or a free may visit every free block; null if unknown.
    linear: Option<bool>,
    /// Whether headers or tags are among the blocks; null if unknown.
    in_band: Option<bool>,
}

impl Row {
    fn of(competitor: &Competitor) -> Self {
        let beside = |source, about| Self {
            name: competitor.name(),
            family: None,
            source,
            about,
            compared: false,
            linear: None,
            in_band: None,
        };
        match competitor {
            Competitor::Strategy(entry) => Self {
                name: entry.name,
                family: family_of(entry.name).map(|family| family.name),
                source: entry.source,
                about: entry.about,
                compared: false,
                linear: Some(entry.linear),
                in_band: Some(entry.in_band),
            },
            Competitor::Hybrid => {
                beside("Hasan & Chang §3", "the tunable hybrid with the parameters of --hc")
            }
            Competitor::Global => beside(
                "docs/global.md",
                "pagewise's global allocator, for programs in Rust, in a process of its own",
            ),
            Competitor::Library(library) if library.short_name() == LIBPAGEWISE => beside(
                "docs/c.md",
                "pagewise's global allocator, for other programs, in a process of its own",
            ),
            Competitor::Library(library) => {
                beside(library.file(), "this library's malloc, in a process of its own")
            }
            Competitor::Lea => beside("crate dlmalloc", "Doug Lea's allocator"),
            Competitor::System => {
                beside("the C library", "the C library's malloc, in a process of its own")
            }
        }
    }

    fn line(&self) -> String {
        let star = if self.compared { '*' } else { ' ' };
        let linear = if self.linear == Some(true) { "; O(n)" } else { "" };
        let about = format!("{}{linear} [{}]", self.about, self.source);
        last_column(&format!("{star} {:<25}  ", self.name), &about)
    }
}

/// Explains the competitors in a line or two each; if there are many, refers to their list.
pub(crate) fn explained(competitors: &[Competitor]) -> String {
    /// Maximum number explained at once.
    const MOST: usize = 16;
    if competitors.len() > MOST {
        return "`pagewise strategies` describes them.\n".to_owned();
    }
    let widest = competitors.iter().map(|one| one.name().len()).max().unwrap_or(0);
    let line = |one: &Competitor| {
        let about = Row::of(one).about;
        let about = about.strip_suffix(", in a process of its own").unwrap_or(about);
        let about = match one {
            Competitor::Library(library) => format!("{about} ({})", library.file()),
            _ => about.to_owned(),
        };
        last_column(&format!("{:<widest$}  ", one.name()), &about) + "\n"
    };
    competitors.iter().map(line).collect()
}

/// Returns a strategy's family.
fn family_of(name: &str) -> Option<&'static Family> {
    let has = |family: &&Family| family.entries.iter().any(|entry| entry.name == name);
    catalogue::families().iter().find(has)
}

/// Runs the subcommand.
///
/// # Errors
/// An unknown name.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let all = ["all".to_owned()];
    let names = if args.names.is_empty() { &all[..] } else { &args.names };
    let compared: Vec<_> = Competitor::choices().iter().map(Competitor::name).collect();
    let row = |one: &Competitor| Row { compared: compared.contains(&one.name()), ..Row::of(one) };
    let rows: Vec<_> = Competitor::choose(names)?.iter().map(row).collect();
    if args.json {
        output::print_json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for (index, family) in rows.chunk_by(|a, b| a.family == b.family).enumerate() {
        let gap = if index > 0 { "\n" } else { "" };
        text += &match family_of(family[0].name) {
            Some(Family { name, source, .. }) => format!("{gap}{name}: {source}\n"),
            None => format!("{gap}other allocators\n"),
        };
        family.iter().for_each(|row| text += &(row.line() + "\n"));
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
