//! What a comparison prints: the verdict first, the table, and what its columns mean. All of it fits 80
//! columns.

use pagewise_replay::units;

use super::compared::Compared;
use super::table;
use super::verdict;
use crate::competitor::Competitor;

/// Columns of a terminal.
const WIDTH: usize = 80;

/// A comparison as it is printed.
pub(super) struct Screen<'s> {
    pub(super) all: &'s [&'s Compared],
    pub(super) competitors: &'s [Competitor],
    /// The parameters of the strategies, on a line.
    pub(super) parameters: &'s str,
    /// Whether to show a table of each trace, too.
    pub(super) each: bool,
}

impl Screen<'_> {
    /// The text.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n\n", paragraph(&self.title()));
        for sentence in verdict::of(self.all) {
            text += &format!("{}\n", paragraph(&sentence));
        }
        match self.all {
            [one] => text += &format!("\n{}\n{}", table::of_trace(one), OF_TRACE),
            all => text += &format!("\n{}\n{}", table::summary(all), OF_MEANS),
        }
        text += &format!("{}\n", paragraph(&self.who()));
        if self.all.len() > 1 {
            text += &format!("\n{}\n", paragraph(if self.each { EACH } else { MORE }));
        }
        if self.all.len() > 1 && self.each {
            for one in self.all {
                let title = paragraph(&format!("{}: {}", one.trace, one.about));
                text += &format!("\n{title}\n{}", table::of_trace(one));
            }
            text += &format!("\n{OF_TRACE}");
        }
        text
    }

    fn title(&self) -> String {
        let who = units::count(self.competitors.len() as u64, "allocator");
        match self.all {
            [one] => format!("{}: {}; {who}, {}", one.trace, one.about, self.parameters),
            all => {
                let programs = units::count(all.len() as u64, "program");
                format!("{programs}, recorded and replayed; {who}, {}", self.parameters)
            }
        }
    }

    /// Who is who, of those whose names do not say it.
    fn who(&self) -> String {
        let told = self.competitors.iter().filter_map(|one| {
            let about = match one {
                Competitor::Global => "pagewise's global allocator",
                Competitor::Strategy(entry) if entry.name == "PAGEWISE" => {
                    "the strategy of pagewise's arenas"
                }
                Competitor::Strategy(_) => return None,
                Competitor::Hybrid => "the tunable hybrid as --hc has it",
                Competitor::Lea => "the crate dlmalloc",
                Competitor::System => "the C library's malloc",
                Competitor::Library(library) => library.file(),
            };
            Some(format!("{} is {about}", one.name()))
        });
        let told: Vec<_> = told.collect();
        if told.is_empty() { String::new() } else { format!("{}.", told.join(", ")) }
    }
}

/// Under the table of a trace.
const OF_TRACE: &str = "\
*         the best of its column
ns/pair   processor time of an allocation with its free; +/-: half the distance
          between the quartiles of the rounds
resident  the most memory in use at one time, in a process of its own
held      the most bytes taken from the system, with bookkeeping; not all tell
frag      1 - the most bytes requested / the most held
OS pages  pages of the system in which blocks or bookkeeping lie
items     list items that bookkeeping visits for an allocation with its free
";

/// Under the table over several traces.
const OF_MEANS: &str = "\
time      processor time of an allocation with its free
resident  the most memory in use at one time, in a process of its own
held      the most bytes taken from the system, with bookkeeping; not all tell
OS pages  pages of the system in which blocks or bookkeeping lie
";

const MORE: &str = "More: --each shows every program, --strategy all every strategy, `pagewise \
                    compare FILE.pwt` a program of your own, `pagewise --help` what else there is.";
const EACH: &str = "Each program:";

/// Text in lines; all but the first are indented.
fn paragraph(text: &str) -> String {
    textwrap::fill(text, textwrap::Options::new(WIDTH).subsequent_indent("  "))
}
