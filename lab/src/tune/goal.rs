//! The goal, and the order of candidates by it.

use std::fmt;

use clap::ValueEnum;
use pagewise_replay::units::bytes;
use serde::{Deserialize, Serialize};

use super::candidate::Family;
use super::measure::Relative;

/// The weight of the measures other than the goal: it breaks ties, and makes twice the time
/// acceptable only for 7 % less memory.
const ASIDE: f64 = 0.1;

/// The measure to minimise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Goal {
    /// Processor time
    Speed,
    /// Peak memory
    Memory,
    /// Page faults
    Faults,
    /// The geometric mean of the three
    Balanced,
}

impl Goal {
    /// Returns the score that the search minimises.
    pub(super) fn score(self, relative: &Relative) -> f64 {
        let Relative { time, memory, faults } = *relative;
        match self {
            Self::Speed => time * (memory * faults).powf(ASIDE),
            Self::Memory => memory * (time * faults).powf(ASIDE),
            Self::Faults => faults * (time * memory).powf(ASIDE),
            Self::Balanced => self.measure(relative),
        }
    }

    /// Returns the measure whose gain is reported.
    pub(super) fn measure(self, relative: &Relative) -> f64 {
        let Relative { time, memory, faults } = *relative;
        match self {
            Self::Speed => time,
            Self::Memory => memory,
            Self::Faults => faults,
            Self::Balanced => (time * memory * faults).cbrt(),
        }
    }

    /// Returns the goal's noise, given that of the three measures.
    pub(super) fn noise(self, noise: &Relative) -> f64 {
        match self {
            Self::Balanced => (noise.time + noise.memory + noise.faults) / 3.0,
            one => one.measure(noise),
        }
    }

    /// Returns whether the measure is the same in each run; times are not.
    pub(super) fn is_exact(self) -> bool {
        matches!(self, Self::Memory | Self::Faults)
    }

    /// Returns the measure's name for a sentence.
    pub(crate) fn noun(self, family: Family) -> String {
        match self {
            Self::Speed => "time".to_owned(),
            Self::Memory => family.memory().to_owned(),
            Self::Faults => "page faults".to_owned(),
            Self::Balanced => {
                format!("geometric mean of time, {} and page faults", family.memory())
            }
        }
    }
}

/// The maximum memory allowed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cap {
    None,
    Bytes(u64),
    /// A multiple of the peak requested.
    Ratio(f64),
}

impl fmt::Display for Cap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no cap"),
            Self::Bytes(count) => write!(f, "the cap of {}", bytes(*count)),
            Self::Ratio(ratio) => write!(f, "the cap of {ratio} times the bytes requested"),
        }
    }
}

impl Cap {
    /// Returns whether `memory` is within the cap, if `requested` bytes are requested.
    pub(super) fn allows(self, memory: u64, requested: u64) -> bool {
        match self {
            Self::None => true,
            Self::Bytes(bytes) => memory <= bytes,
            Self::Ratio(ratio) => memory as f64 <= ratio * requested as f64,
        }
    }
}
