//! What is wanted, and how candidates are ordered by it.

use clap::ValueEnum;
use serde::Serialize;

use super::measure::Relative;

/// How much the measures that are not asked for count: enough to tell apart what is equal, and that
/// twice the time must save 7 % of memory.
const ASIDE: f64 = 0.1;

/// What is to be as little as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Goal {
    /// Processor time
    Speed,
    /// The most bytes held at one time
    Memory,
    /// Page faults with memory for half of what is requested at most
    Faults,
    /// The geometric mean of the three
    Balanced,
}

impl Goal {
    /// What is searched for the least of.
    pub(super) fn score(self, relative: &Relative) -> f64 {
        let Relative { time, held, faults } = *relative;
        match self {
            Self::Speed => time * (held * faults).powf(ASIDE),
            Self::Memory => held * (time * faults).powf(ASIDE),
            Self::Faults => faults * (time * held).powf(ASIDE),
            Self::Balanced => self.measure(relative),
        }
    }

    /// What the gain is claimed of.
    pub(super) fn measure(self, relative: &Relative) -> f64 {
        let Relative { time, held, faults } = *relative;
        match self {
            Self::Speed => time,
            Self::Memory => held,
            Self::Faults => faults,
            Self::Balanced => (time * held * faults).cbrt(),
        }
    }

    /// Its noise, if that of times is `noise`; the other measures are exact.
    pub(super) fn noise(self, noise: f64) -> f64 {
        match self {
            Self::Speed => noise,
            Self::Memory | Self::Faults => 0.0,
            Self::Balanced => noise / 3.0,
        }
    }

    /// What it is called in a sentence.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Speed => "time",
            Self::Memory => "peak held",
            Self::Faults => "page faults",
            Self::Balanced => "geometric mean of time, peak held and page faults",
        }
    }
}

/// The most that may be held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cap {
    None,
    Bytes(u64),
    /// As a multiple of the most requested at one time.
    Ratio(f64),
}

impl Cap {
    /// Whether so many bytes held, with so many requested, keep it.
    pub(super) fn allows(self, held: u64, requested: u64) -> bool {
        match self {
            Self::None => true,
            Self::Bytes(bytes) => held <= bytes,
            Self::Ratio(ratio) => held as f64 <= ratio * requested as f64,
        }
    }
}
