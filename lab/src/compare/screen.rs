//! Prints a comparison: the verdict, the table, and an explanation of its columns, all within 80
//! columns.

use pagewise_replay::units;

use super::compared::Compared;
use super::table;
use super::verdict;
use crate::competitor::Competitor;
use crate::development;
use crate::strategies;
use pagewise_replay::text::paragraph;

/// A comparison, ready for printing.
pub(super) struct Screen<'s> {
    pub(super) all: &'s [&'s Compared],
    pub(super) competitors: &'s [Competitor],
    /// The strategies' parameters, on one line.
    pub(super) parameters: &'s str,
    /// Whether to also show a table for each trace.
    pub(super) each: bool,
}

impl Screen<'_> {
    /// Returns the text.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n\n", paragraph(&self.title()));
        let warning = development::warning().map(str::to_owned);
        for sentence in warning.into_iter().chain(verdict::of(self.all)) {
            text += &format!("{}\n", paragraph(&sentence));
        }
        match self.all {
            [one] => text += &format!("\n{}\n{}", table::of_trace(one), OF_TRACE),
            all => text += &format!("\n{}\n{}", table::summary(all), OF_MEANS),
        }
        text += &format!("\n{}", strategies::explained(self.competitors));
        text += &self.next().map_or_else(String::new, |next| format!("\n{next}\n"));
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

    /// Suggests the next step: commands on lines of their own, to paste. For a trace without
    /// allocations there is none.
    fn next(&self) -> Option<String> {
        match self.all {
            [one] if one.is_empty() => None,
            [one] => Some(format!(
                "{OF_ONE}\n  pagewise tune {0} --for memory\n  pagewise report {0}",
                one.argument
            )),
            _ if self.each => Some("Each program:".to_owned()),
            _ => Some(paragraph(MORE)),
        }
    }
}

/// Below the table of one trace.
const OF_TRACE: &str = "\
*         the best in its column
ns/pair   processor time of an allocation with its free; +/-: half the
          interquartile range of the rounds
resident  peak memory in use, in a separate process
held      peak bytes taken from the system, bookkeeping included, where known
frag      1 - peak bytes requested / peak bytes held
OS pages  pages of the system that contain blocks or bookkeeping
items     list items that bookkeeping visits for an allocation with its free
";

/// Below the table over several traces.
const OF_MEANS: &str = "\
time      processor time of an allocation with its free
resident  peak memory in use, in a separate process
held      peak bytes taken from the system, bookkeeping included, where known
OS pages  pages of the system that contain blocks or bookkeeping
";

/// Above the commands for one trace.
const OF_ONE: &str = "\
Next: find parameters that suit it better, with --preload for a program in C;
make a page of all of this:";

const MORE: &str = "Next: --each shows every program, --strategy all compares every strategy, \
                    `pagewise compare FILE.pwt` compares over a program of your own, `pagewise \
                    --help` lists the other commands.";
