//! What came out of a search: what `--json` prints and `report` reads.

use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::candidate::Family;
use super::goal::Goal;
use super::held_out::HeldOut;
use super::measure::Relative;

/// What came out.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Tuned {
    /// Names of the traces tuned for.
    pub(crate) traces: Vec<String>,
    pub(crate) goal: Goal,
    pub(crate) seed: u64,
    /// Whether the second halves of the traces were held out, or other traces.
    pub(crate) second_halves: bool,
    pub(crate) families: Vec<Found>,
    /// Whom it could not be compared with, and why.
    pub(crate) not_compared: Vec<String>,
    /// The Rust code of all that was chosen.
    pub(crate) code: String,
}

/// The findings in one family.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) family: Family,
    /// Candidates measured.
    pub(crate) measured: usize,
    /// What nothing else measured beats in time, memory and faults, on the searched part.
    pub(crate) front: Vec<OnFront>,
    pub(crate) chosen: String,
    pub(crate) held_out: HeldOut,
    /// The Rust code of what was chosen.
    pub(crate) code: String,
}

/// A candidate of the Pareto front; its measures relative to the default's.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OnFront {
    pub(crate) candidate: String,
    #[serde(flatten)]
    pub(crate) relative: Relative,
    pub(crate) chosen: bool,
}

impl Tuned {
    /// What a run of `tune --json` or `tune -o` wrote into this file.
    ///
    /// # Errors
    /// If it cannot be read, or something else is in it.
    pub(crate) fn load(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()))?;
        serde_json::from_slice(&text).with_context(|| {
            format!("{} is no result of `pagewise tune TRACE --for GOAL -o FILE`", path.display())
        })
    }
}

impl Found {
    /// The gain, or that there is none, in words.
    pub(crate) fn words(&self, goal: Goal) -> String {
        let held_out = &self.held_out;
        let noun = goal.noun(self.family);
        let change = held_out.gain.abs() * 100.0;
        let less = if held_out.gain >= 0.0 { "less" } else { "more" };
        let mut words = if held_out.gained {
            format!("Gained: {change:.1} % {less} {noun} than the default.")
        } else {
            format!(
                "Nothing is gained: {change:.1} % {less} {noun} than the default. Keep the default."
            )
        };
        let known = |what: &str, noise: f64| format!(" {what} known to {:.1} %.", noise * 100.0);
        words += &known("Times are", held_out.noise.time);
        if self.family == Family::Global {
            words += &known("Memory is", held_out.noise.memory);
        }
        for (name, rival) in &held_out.rivals {
            let Some(rival) = rival else { continue };
            let measures = held_out.chosen.relative().zip(rival.relative());
            let (ratio, noun) = match (goal, measures) {
                (Goal::Speed, _) => (held_out.chosen.time / rival.time, &*noun),
                (_, Some((ours, theirs))) => (goal.measure(&ours) / goal.measure(&theirs), &*noun),
                // What a library holds is not known; what is resident is.
                (Goal::Memory, None) => {
                    (held_out.chosen.resident / rival.resident, "peak resident")
                }
                (_, None) => continue,
            };
            words += &format!(" Against {name}: {ratio:.2} times its {noun}.");
        }
        if !held_out.keeps_cap {
            words += " The cap is not kept on what was held out.";
        }
        words
    }
}
