//! Measures the program itself: with its own allocator, and with libpagewise.so preloaded, without
//! tuning and as tuned, and with other libraries. All take turns.
//!
//! A replay has one thread, and does nothing but allocate, so its gain is not the program's. A
//! program with an allocator of its own, or linked statically, cannot be measured: the loader
//! replaces the C library's allocator only.

mod interval;
mod run;

use std::ffi::OsString;

use anyhow::{Context, bail};
use pagewise_replay::progress::Progress;
use pagewise_replay::timing::turns;
use serde::{Deserialize, Serialize};

pub(crate) use self::interval::Interval;
use self::run::{Cost, Variables, once};
pub(crate) use self::run::{CostArgs, cost};
use super::goal::Goal;
use super::held_out::LEAST;
use super::measure::{Relative, median};
use crate::system::library::Library;

/// The names of the first three allocators.
const OWN: &str = "its own";
const DEFAULT: &str = "default";
const CHOSEN: &str = "chosen";

/// A program to measure.
#[derive(Debug)]
pub(super) struct Program<'p> {
    pub(super) command: &'p [OsString],
    /// Times that it is run with each allocator.
    pub(super) runs: usize,
}

/// What was measured of the program itself.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct InProgram {
    pub(crate) command: Vec<String>,
    /// Times that it was run with each allocator.
    pub(crate) runs: usize,
    /// The choice, the default, the program's own allocator, and others.
    pub(crate) allocators: Vec<OfProgram>,
    /// The goal's measure with the choice, as a multiple of that with the default.
    pub(crate) goal: Interval,
    /// Whether that is less than 1 in its whole interval, and by [enough](LEAST).
    pub(crate) gained: bool,
    /// Another allocator with less of the goal's measure than the proposal: its name, and how much
    /// it takes as a multiple of the proposal's.
    pub(crate) better: Option<(String, f64)>,
    /// Whether the loader loaded libpagewise.so into the program.
    pub(crate) loaded: bool,
}

/// The program with one allocator: medians of its runs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OfProgram {
    pub(crate) name: String,
    /// Processor time in seconds, user and system, of all threads.
    pub(crate) processor: f64,
    /// Seconds from start to end.
    pub(crate) elapsed: f64,
    /// Peak of the resident bytes.
    pub(crate) peak: f64,
    /// Minor page faults.
    pub(crate) faults: f64,
    /// Processor time, peak and faults as multiples of the default's in the same round.
    pub(crate) relative: Relative,
}

impl OfProgram {
    /// `MIMALLOC` of `MIMALLOC (libmimalloc.so.2)`.
    pub(crate) fn short_name(&self) -> &str {
        self.name.split(" (").next().unwrap_or_default()
    }
}

impl Program<'_> {
    /// Runs the program once with its own allocator, so that a search is not in vain.
    ///
    /// # Errors
    /// If it cannot be run, or fails.
    pub(super) fn try_out(&self) -> anyhow::Result<()> {
        once(self.command, &[]).map(drop)
    }

    /// Measures the program with these libraries: as tuned, and without tuning; and others.
    ///
    /// # Errors
    /// If the program cannot be run, or fails.
    pub(super) fn measure(
        &self,
        goal: Goal,
        [chosen, default]: [&Library; 2],
        others: &[Library],
    ) -> anyhow::Result<InProgram> {
        let of = |library: &Library| library.variables().collect::<Variables>();
        let mut lanes = vec![
            Lane::new(CHOSEN, of(chosen)),
            Lane::new(DEFAULT, of(default)),
            Lane::new(OWN, Vec::new()),
        ];
        lanes.extend(others.iter().map(|other| Lane::new(&other.name, of(other))));
        let loaded = self.is_loaded(chosen)?;
        let progress = Progress::new((self.runs * lanes.len()) as u64);
        for round in 0..self.runs {
            for index in turns(lanes.len(), round) {
                let lane = &mut lanes[index];
                match once(self.command, &lane.variables) {
                    Ok(cost) => lane.costs.push(cost),
                    Err(error) => bail!("with the allocator '{}', {error:#}", lane.name),
                }
                progress.step(1, || format!("the program itself, round {}", round + 1));
            }
        }
        progress.finish();
        let command = self.command.iter().map(|word| word.to_string_lossy().into_owned());
        Ok(judged(goal, &lanes, command.collect(), loaded))
    }

    /// Returns whether the loader loads the library into a process of the program, by the loader's
    /// own account (glibc's `LD_DEBUG`), which it writes into a file for each process.
    fn is_loaded(&self, library: &Library) -> anyhow::Result<bool> {
        let folder = tempfile::tempdir().context("cannot make a temporary directory")?;
        let account = folder.path().join("loaded").into_os_string();
        let debug = [("LD_DEBUG".into(), "files".into()), ("LD_DEBUG_OUTPUT".into(), account)];
        let variables: Variables = library.variables().chain(debug).collect();
        once(self.command, &variables)?;
        let initialised = format!("calling init: {}", library.path().display());
        let files = std::fs::read_dir(folder.path()).context("the loader's account is gone")?;
        let texts = files.flatten().filter_map(|file| std::fs::read(file.path()).ok());
        let mut texts = texts.map(|text| String::from_utf8_lossy(&text).into_owned());
        Ok(texts.any(|text| text.contains(&initialised)))
    }
}

/// An allocator, and the costs of the program's runs with it.
struct Lane {
    name: String,
    variables: Variables,
    costs: Vec<Cost>,
}

impl Lane {
    fn new(name: &str, variables: Variables) -> Self {
        Self { name: name.to_owned(), variables, costs: Vec::new() }
    }

    fn median(&self, value: impl Fn(&Cost) -> f64) -> f64 {
        median(&self.costs.iter().map(value).collect::<Vec<_>>())
    }

    /// Returns a measure's ratios to another's, each within one round.
    fn ratios<'l>(&'l self, to: &'l Self, measure: impl Fn(&Relative) -> f64 + 'l) -> Vec<f64> {
        let pairs = self.costs.iter().zip(&to.costs);
        pairs.map(|(ours, theirs)| measure(&ours.relative(theirs))).collect()
    }
}

impl Cost {
    fn relative(&self, to: &Self) -> Relative {
        let ratio = |ours: f64, theirs: f64| ours.max(1e-6) / theirs.max(1e-6);
        Relative {
            time: ratio(self.processor, to.processor),
            memory: ratio(self.peak as f64, to.peak as f64),
            faults: ratio(self.faults.max(1) as f64, to.faults.max(1) as f64),
        }
    }
}

/// Compares the lanes: the choice, the default, others.
fn judged(goal: Goal, lanes: &[Lane], command: Vec<String>, loaded: bool) -> InProgram {
    let (chosen, default) = (&lanes[0], &lanes[1]);
    let measure = |relative: &Relative| goal.measure(relative);
    let against_default = Interval::of(&chosen.ratios(default, measure));
    // The whole interval, and by enough.
    let is_less = |interval: Interval| interval.high < 1.0 && interval.median < 1.0 - LEAST;
    let gained = is_less(against_default);
    let proposal = if gained { chosen } else { default };
    let better = lanes[2..].iter().filter_map(|lane| {
        let interval = Interval::of(&lane.ratios(proposal, measure));
        is_less(interval).then(|| (lane.name.clone(), interval.median))
    });
    let of_lane = |lane: &Lane| {
        let relative = |value: fn(&Relative) -> f64| median(&lane.ratios(default, value));
        OfProgram {
            name: lane.name.clone(),
            processor: lane.median(|cost| cost.processor),
            elapsed: lane.median(|cost| cost.elapsed),
            peak: lane.median(|cost| cost.peak as f64),
            faults: lane.median(|cost| cost.faults as f64),
            relative: Relative {
                time: relative(|one| one.time),
                memory: relative(|one| one.memory),
                faults: relative(|one| one.faults),
            },
        }
    };
    InProgram {
        command,
        runs: default.costs.len(),
        allocators: lanes.iter().map(of_lane).collect(),
        goal: against_default,
        gained,
        better: better.min_by(|a, b| a.1.total_cmp(&b.1)),
        loaded,
    }
}

impl InProgram {
    /// States what the program gains, or that it gains nothing; and which other allocator suits it
    /// better.
    pub(crate) fn words(&self, goal: Goal) -> String {
        let mut words = String::new();
        let noun = match goal {
            Goal::Speed => "processor time",
            Goal::Memory => "peak resident",
            Goal::Faults => "page faults",
            Goal::Balanced => "geometric mean of processor time, peak resident and page faults",
        };
        if let Some((name, ratio)) = &self.better {
            let advice = match &**name {
                OWN => "Stay with the program's own allocator".to_owned(),
                name => format!("Use {name}"),
            };
            let proposal =
                if self.gained { "libpagewise as tuned here" } else { "libpagewise by default" };
            words += &format!(
                "{advice}: with it the program takes {ratio:.2} times the {noun} that it takes \
                 with {proposal}. "
            );
        }
        let Interval { low, median, high } = self.goal;
        let range =
            format!("{} to {}; {} runs, confidence 95 %", saved(high), saved(low), self.runs);
        let change = format!("{} {noun} than with the default ({range}).", saved(median));
        words += &match self.gained {
            true => format!("Gained in the program itself: {change}"),
            false => format!(
                "No gain in the program itself: with the candidate it takes {change} Keep the \
                 default."
            ),
        };
        if !self.loaded {
            words += " libpagewise.so was not loaded into the program, so these are figures of its \
                      own allocator: is it linked statically, or set-user-ID?";
        }
        words
    }
}

/// `6.0 % less`, of a ratio.
fn saved(ratio: f64) -> String {
    let (percent, less) = ((1.0 - ratio).abs() * 100.0, if ratio <= 1.0 { "less" } else { "more" });
    format!("{percent:.1} % {less}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lane whose runs take these seconds, and as many mebibytes and faults.
    fn lane(name: &str, seconds: impl IntoIterator<Item = f64>) -> Lane {
        let cost = |seconds: f64| Cost {
            status: 0,
            processor: seconds,
            elapsed: seconds,
            peak: (seconds * 1048576.0) as u64,
            faults: (seconds * 1e6) as u64,
        };
        let costs = seconds.into_iter().map(cost).collect();
        Lane { costs, ..Lane::new(name, Vec::new()) }
    }

    fn measured(chosen: [f64; 9], own: f64) -> InProgram {
        // The machine becomes slower from round to round, which changes no ratio.
        let drift = |round: usize| 1.0 + round as f64;
        let with = |seconds: [f64; 9]| {
            seconds.into_iter().enumerate().map(move |(round, one)| one * drift(round))
        };
        let lanes =
            [lane(CHOSEN, with(chosen)), lane(DEFAULT, with([1.0; 9])), lane(OWN, with([own; 9]))];
        judged(Goal::Speed, &lanes, vec!["it".into()], true)
    }

    #[test]
    fn a_gain_is_one_in_nearly_all_rounds() {
        let gained = measured([0.9, 0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 1.5], 1.2);
        let words = gained.words(Goal::Speed);
        let expected = "Gained in the program itself: 7.0 % less processor time than with the \
                        default (4.0 % less to 10.0 % less; 9 runs, confidence 95 %).";
        assert_eq!(words, expected);
        assert!(gained.gained && gained.better.is_none());
        assert!((gained.allocators[0].relative.memory - 0.93).abs() < 1e-6);
        assert!((gained.allocators[2].relative.time - 1.2).abs() < 1e-12);
        let unsure = measured([0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1.01, 1.01], 1.2);
        assert!(!unsure.gained);
        let words = unsure.words(Goal::Speed);
        assert!(words.starts_with("No gain in the program itself: with the candidate"), "{words}");
        assert!(words.contains("(1.0 % more to 50.0 % less; 9 runs"), "{words}");
        let small = measured([0.998; 9], 1.2);
        assert!(!small.gained, "{small:?}");
    }

    #[test]
    fn a_better_allocator_of_the_programs_own_is_named_first() {
        let words = measured([0.9; 9], 0.45).words(Goal::Speed);
        let stay = "Stay with the program's own allocator: with it the program takes 0.50 times \
                    the processor time that it takes with libpagewise as tuned here. Gained";
        assert!(words.starts_with(stay), "{words}");
        let words = measured([1.1; 9], 0.45).words(Goal::Speed);
        assert!(words.contains("takes 0.45 times") && words.contains("by default. No"), "{words}");
        let unloaded = InProgram { loaded: false, ..measured([0.9; 9], 1.0) };
        assert!(unloaded.words(Goal::Speed).contains("was not loaded into"));
    }
}
