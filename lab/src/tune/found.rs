//! The results of a search, as `--json` prints them and `report` reads them.

use std::path::Path;

use anyhow::Context;
use pagewise_replay::units;
use serde::{Deserialize, Serialize};

use super::candidate::Family;
use super::goal::Goal;
use super::held_out::{self, HeldOut, Standing};
use super::measure::Relative;
use super::program::InProgram;
use crate::competitor::{LEA, SYSTEM};

/// The results of a search.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Tuned {
    /// Names of the tuned traces.
    pub(crate) traces: Vec<String>,
    /// The first of them as an argument of a command.
    #[serde(skip)]
    pub(crate) argument: String,
    pub(crate) goal: Goal,
    pub(crate) seed: u64,
    /// Whether the second halves of the traces were held out, rather than other traces.
    pub(crate) second_halves: bool,
    pub(crate) families: Vec<Found>,
    /// Most threads that the events of a trace are from; a replay has one.
    #[serde(default)]
    pub(crate) threads: u32,
    /// Allocators that could not be compared, and why.
    pub(crate) not_compared: Vec<String>,
    /// The code of every choice that gains: Rust, or settings. Empty if none gains.
    pub(crate) code: String,
}

/// The results in one family.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) family: Family,
    /// Number of candidates measured.
    pub(crate) measured: usize,
    /// The candidates that no other dominates in time, memory and faults, on the searched part.
    pub(crate) front: Vec<OnFront>,
    pub(crate) chosen: String,
    pub(crate) held_out: HeldOut,
    /// What the program itself gained, if its command was given.
    #[serde(default)]
    pub(crate) program: Option<InProgram>,
    /// The code of the choice: Rust, or settings. Empty if nothing is gained.
    pub(crate) code: String,
}

/// A candidate on the Pareto front; its measures are relative to the default's.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OnFront {
    pub(crate) candidate: String,
    #[serde(flatten)]
    pub(crate) relative: Relative,
    pub(crate) chosen: bool,
}

impl Tuned {
    /// Loads a file written by `tune --json` or `tune -o`.
    ///
    /// # Errors
    /// If it cannot be read, or has other contents.
    pub(crate) fn load(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
        serde_json::from_slice(&text).with_context(|| {
            format!(
                "{} is not a result of `pagewise tune TRACE --for GOAL -o FILE`",
                path.display()
            )
        })
    }

    /// Returns whether the program itself was measured.
    pub(crate) fn is_program_measured(&self) -> bool {
        self.families.iter().any(|found| found.program.is_some())
    }

    /// Says what a replay of several threads' events does not show, unless the program itself was
    /// measured.
    pub(crate) fn about_threads(&self) -> Option<String> {
        (self.threads > 1 && !self.is_program_measured()).then(|| {
            format!(
                "One thread replayed the events of {}: locks, caches of processors, and memory \
                 that an allocator keeps for each thread were not measured, so the program may \
                 gain much less, or nothing.",
                units::thousands(self.threads.into())
            )
        })
    }
}

impl Found {
    /// Returns whether the choice gains: in the program itself if that was measured, else in the
    /// replay.
    pub(crate) fn gained(&self) -> bool {
        self.program.as_ref().map_or(self.held_out.gained, |program| program.gained)
    }

    /// `Chosen: …`, or `Best candidate: …` without a gain.
    pub(crate) fn choice(&self) -> String {
        let what = if self.gained() { "Chosen" } else { "Best candidate" };
        format!("{what}: {}", self.chosen)
    }

    /// Formats the verdict: what the program itself gained, if that was measured; another allocator
    /// that does better, if any; then the gain, or that there is none; how certain that is; and the
    /// ranking of the others.
    pub(crate) fn words(&self, goal: Goal) -> String {
        let held_out = &self.held_out;
        let mut words = match &self.program {
            Some(program) => program.words(goal) + " ",
            None => self.better(goal).map_or_else(String::new, |better| better + " "),
        };
        words += &self.gain_in_words(goal);
        let percent = |noise: f64| format!("{:.1} %", noise * 100.0);
        // A program's own runs may differ by more.
        words += &format!(" Repeated replays differ by {} in time", percent(held_out.noise.time));
        if self.family != Family::Arena {
            words += &format!(" and {} in memory", percent(held_out.noise.memory));
        }
        words += ".";
        words += &self.beside_others(goal);
        if !held_out.keeps_cap {
            words += " The chosen candidate exceeds the cap on the held-out part.";
        }
        words
    }

    /// `In time it takes 0.54 times as much as LEA, 0.52 as SYSTEM.`
    fn beside_others(&self, goal: Goal) -> String {
        let mut words = String::new();
        let mut last = None;
        for (name, rival) in &self.held_out.rivals {
            let ratio = |rival| self.ratio(goal, &self.held_out.chosen, &rival);
            let Some((ratio, noun)) = rival.and_then(ratio) else {
                continue;
            };
            if last.as_ref() == Some(&noun) {
                words += &format!(", {ratio:.2} times that of {name}");
            } else {
                let end = if words.is_empty() { "" } else { "." };
                words +=
                    &format!("{end} The candidate takes {ratio:.2} times the {noun} of {name}");
            }
            last = Some(noun);
        }
        if words.is_empty() { words } else { words + "." }
    }

    fn gain_in_words(&self, goal: Goal) -> String {
        let HeldOut { gain, gained, chosen, .. } = &self.held_out;
        let less = if *gain >= 0.0 { "less" } else { "more" };
        let change = format!("{:.1} % {less} {}", gain.abs() * 100.0, goal.noun(self.family));
        if !gained {
            let keep = match (&self.program, self.family) {
                // The program's own figures decide.
                (Some(_), _) => "",
                (None, Family::Preload) => " Keep the library's default settings.",
                (None, _) => " Keep the default.",
            };
            return format!(
                "No gain in the replay: the best candidate takes {change} than the default.{keep}"
            );
        }
        let price = match goal {
            Goal::Memory | Goal::Faults => format!(", in {:.2} times its time", chosen.time),
            Goal::Speed => match chosen.memory {
                Some(memory) => format!(", with {memory:.2} times its {}", self.family.memory()),
                None => String::new(),
            },
            Goal::Balanced => String::new(),
        };
        format!("Gained in the replay: {change} than the default{price}.")
    }

    /// Returns our figure for the goal as a multiple of a rival's, and its name; `None` if unknown.
    fn ratio(&self, goal: Goal, ours: &Standing, rival: &Standing) -> Option<(f64, String)> {
        let measures = ours.relative().zip(rival.relative());
        match (goal, measures) {
            (Goal::Speed, _) => Some((ours.time / rival.time, goal.noun(self.family))),
            (_, Some((ours, theirs))) => {
                Some((goal.measure(&ours) / goal.measure(&theirs), goal.noun(self.family)))
            }
            // A library's held bytes are unknown, but its resident bytes are not.
            (Goal::Memory, None) => {
                Some((ours.resident / rival.resident, "peak resident".to_owned()))
            }
            (_, None) => None,
        }
    }

    /// Names an allocator that beats the proposal beyond the noise, and should be used instead.
    fn better(&self, goal: Goal) -> Option<String> {
        let held_out = &self.held_out;
        // Without a gain, the proposal is the default. Its standing is not the choice's without the
        // gain: that is a ratio of held bytes, but some rivals' resident bytes alone are known.
        let ours = if held_out.gained { &held_out.chosen } else { &Standing::DEFAULT };
        let standing = |(name, rival): &'_ (String, Option<Standing>)| {
            let (ratio, noun) = self.ratio(goal, ours, rival.as_ref()?)?;
            Some((ratio, name.clone(), noun))
        };
        let best = held_out.rivals.iter().filter_map(standing).max_by(|a, b| a.0.total_cmp(&b.0));
        let (ratio, name, noun) = best?;
        if ratio <= 1.0 + goal.noise(&held_out.noise).max(held_out::LEAST) {
            return None;
        }
        let advice = match &*name {
            SYSTEM => "Stay with the C library's malloc (SYSTEM)".to_owned(),
            LEA => "Use the crate dlmalloc (LEA)".to_owned(),
            library => format!("Use {library}"),
        };
        let proposed = match (self.family, held_out.gained) {
            (Family::Preload, false) => "libpagewise.so",
            (Family::Preload, true) => "libpagewise.so as tuned here",
            (_, false) => "the default",
            (_, true) => "the chosen candidate",
        };
        Some(format!("{advice}: it takes {:.2} times the {noun} of {proposed}.", 1.0 / ratio))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(measure: f64) -> Standing {
        Standing { time: measure, memory: Some(measure), faults: Some(1.0), resident: measure }
    }

    /// Returns the words about a candidate of this family, with rivals of these measures; the
    /// default's is 1.
    fn words(family: Family, chosen: f64, rivals: &[(&str, f64)]) -> String {
        let held_out = HeldOut {
            chosen: standing(chosen),
            rivals: rivals
                .iter()
                .map(|(name, one)| ((*name).into(), Some(standing(*one))))
                .collect(),
            stopped: Vec::new(),
            noise: Relative { time: 0.01, memory: 0.0, faults: 0.0 },
            gain: 1.0 - chosen,
            gained: chosen < 0.99,
            keeps_cap: true,
        };
        found(family, held_out).words(Goal::Memory)
    }

    fn found(family: Family, held_out: HeldOut) -> Found {
        Found {
            family,
            measured: 1,
            front: Vec::new(),
            chosen: "it".into(),
            held_out,
            program: None,
            code: String::new(),
        }
    }

    #[test]
    fn a_better_allocator_is_named_first() {
        let stay = words(Family::Preload, 0.9, &[("MIMALLOC (x)", 0.95), (SYSTEM, 0.6)]);
        assert!(stay.starts_with("Stay with the C library's malloc (SYSTEM): it takes 0.67 times the peak resident of libpagewise.so as tuned here. Gained in the replay: 10.0 % less"), "{stay}");
        let other = words(Family::Preload, 0.9, &[("MIMALLOC (x)", 0.5), (SYSTEM, 0.6)]);
        assert!(other.starts_with("Use MIMALLOC (x): it takes 0.56 times"), "{other}");
        let ours = words(Family::Preload, 0.9, &[("MIMALLOC (x)", 0.95), (SYSTEM, 1.2)]);
        assert!(ours.starts_with(
            "Gained in the replay: 10.0 % less peak resident than the default, in 0.90"
        ));
        let tied = words(Family::Global, 0.9, &[(SYSTEM, 0.899)]);
        assert!(tied.starts_with("Gained"), "{tied}");
    }

    /// A program's memory may vary from run to run even if that of its replay does not.
    #[test]
    fn the_noise_is_that_of_the_replays() {
        let time = "Repeated replays differ by 1.0 % in time";
        let global = words(Family::Global, 0.9, &[]);
        assert!(global.ends_with(&format!("{time} and 0.0 % in memory.")), "{global}");
        let arena = words(Family::Arena, 0.9, &[]);
        assert!(arena.ends_with(&format!("{time}.")), "{arena}");
    }

    /// A library's held bytes are unknown, so resident bytes are compared: the default's, not the
    /// candidate's.
    #[test]
    fn without_a_gain_only_what_beats_the_default_is_named() {
        let against = |resident| {
            let rival = Standing { memory: None, faults: None, resident, ..standing(1.0) };
            let held_out = HeldOut {
                chosen: Standing { resident: 1.30, ..standing(1.05) },
                rivals: vec![("MIMALLOC (x)".into(), Some(rival))],
                stopped: Vec::new(),
                noise: Relative { time: 0.01, memory: 0.0, faults: 0.0 },
                gain: -0.05,
                gained: false,
                keeps_cap: true,
            };
            found(Family::Arena, held_out)
        };
        assert_eq!(against(1.20).better(Goal::Memory), None);
        let better = "Use MIMALLOC (x): it takes 0.80 times the peak resident of the default.";
        assert_eq!(against(0.80).better(Goal::Memory).as_deref(), Some(better));
    }

    #[test]
    fn without_a_gain_the_default_is_compared_with_the_others() {
        let none = words(Family::Preload, 1.1, &[(SYSTEM, 1.05)]);
        assert!(
            none.starts_with("No gain in the replay: the best candidate takes 10.0 % more peak"),
            "{none}"
        );
        let stay = words(Family::Preload, 1.1, &[(SYSTEM, 0.8)]);
        assert!(stay.starts_with("Stay with the C library's malloc (SYSTEM): it takes 0.80 times the peak resident of libpagewise.so. No gain in the replay"), "{stay}");
    }
}
