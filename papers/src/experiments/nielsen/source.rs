//! A source of demands: a part of a simulation program that requests memory from time to time
//! (Nielsen §2, Table I).

use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Exp1, StandardNormal, StandardUniform};

/// A distribution of times or sizes, with the parameters of Table I.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Law {
    Constant(f64),
    /// Between these bounds.
    Uniform(f64, f64),
    /// With this mean.
    Exponential(f64),
    /// With this mean and variance, without values below 0.
    Normal(f64, f64),
}

impl Law {
    pub(crate) fn mean(self) -> f64 {
        match self {
            Self::Constant(mean) | Self::Exponential(mean) | Self::Normal(mean, _) => mean,
            Self::Uniform(low, high) => f64::midpoint(low, high),
        }
    }

    /// Returns the same law with values multiplied by `factor`.
    pub(super) fn scaled(self, factor: f64) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(value * factor),
            Self::Uniform(low, high) => Self::Uniform(low * factor, high * factor),
            Self::Exponential(mean) => Self::Exponential(mean * factor),
            Self::Normal(mean, variance) => Self::Normal(mean * factor, variance * factor * factor),
        }
    }

    pub(super) fn sample(self, random: &mut ChaCha8Rng) -> f64 {
        match self {
            Self::Constant(value) => value,
            Self::Uniform(low, high) => {
                let share: f64 = StandardUniform.sample(random);
                low + share * (high - low)
            }
            Self::Exponential(mean) => {
                let unit: f64 = Exp1.sample(random);
                mean * unit
            }
            Self::Normal(mean, variance) => {
                let unit: f64 = StandardNormal.sample(random);
                (mean + variance.sqrt() * unit).max(0.0)
            }
        }
    }
}

/// When a source makes demands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Arrivals {
    /// At these intervals.
    Every(Law),
    /// At these intervals until this number of demands; from then on, each release is followed by a
    /// demand for a block of the same size.
    Sequential(Law, u32),
}

/// When a source is active. An inactive source makes no demands; its blocks stay until their
/// lifetimes end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cycling {
    Never,
    /// Alternately active and inactive for periods of this length, in step with all others;
    /// `first`: initially active.
    Coordinated {
        turn: f64,
        active_first: bool,
    },
    /// Active and inactive for random times, each source independently.
    Uncoordinated {
        turn: Law,
    },
}

impl Cycling {
    /// Returns the share of the time in which a source is active.
    pub(super) fn duty(self) -> f64 {
        if self == Self::Never { 1.0 } else { 0.5 }
    }
}

/// A source of demands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Source {
    pub(crate) arrivals: Arrivals,
    /// Time from a block's allocation to its release.
    pub(crate) lifetime: Law,
    /// Size of a block in words, rounded; at least 1.
    pub(crate) size: Law,
    /// Blocks per demand.
    pub(crate) blocks: u32,
    pub(crate) cycling: Cycling,
}

impl Source {
    pub(super) fn interval(&self) -> Law {
        let (Arrivals::Every(interval) | Arrivals::Sequential(interval, _)) = self.arrivals;
        interval
    }

    /// Returns the mean number of blocks requested per unit of time.
    pub(super) fn rate(&self) -> f64 {
        f64::from(self.blocks) * self.cycling.duty() / self.interval().mean()
    }

    /// Returns the mean number of coexisting blocks (Little's law).
    pub(super) fn coexisting(&self) -> f64 {
        self.rate() * self.lifetime.mean()
    }
}
