//! The catalogue by name: a strategy chosen at run time, behind `dyn` [`Strategy`].

use crate::Strategy;
use crate::meter::Meter;
use crate::pages::{Config, ConfigError};
use crate::source::{Reserved, Source};

/// A named strategy.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The name in the literature, as `pagewise compare` prints it: `MOST-FREE`.
    pub name: &'static str,
    /// Paper and section.
    pub source: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// An allocation or a free may visit every free block there is, as the strategy is by nature:
    /// O(n). On a large heap that takes long.
    pub linear: bool,
    /// Headers or tags lie among the blocks, not apart from them.
    pub in_band: bool,
    /// A freed block can serve the next request of its size. NOFREE never uses it again, QUICK only
    /// when all of its page is free.
    pub reuses: bool,
    /// One of the best known: a comparison of strategies shows it unless it is asked for others.
    pub compared: bool,
    /// One of those that a user would choose among for an arena.
    pub chosen: bool,
    /// The configuration that it ships with.
    pub config: Config,
    pub(super) plain: Plain,
    pub(super) over: Over,
}

/// Makes a strategy over a reservation of this many bytes, for timing: nothing in it is `dyn`.
pub(super) type Plain = fn(Config, usize) -> Box<dyn Strategy + Send>;

/// Makes a strategy over any source.
pub(super) type Over =
    for<'a> fn(Config, Box<dyn Source + 'a>, &'a dyn Meter) -> Box<dyn Strategy + 'a>;

impl Entry {
    pub(super) const fn linear(self) -> Self {
        Self { linear: true, ..self }
    }

    pub(super) const fn apart(self) -> Self {
        Self { in_band: false, ..self }
    }

    pub(super) const fn not_reused(self) -> Self {
        Self { reuses: false, ..self }
    }

    pub(super) const fn compared(self) -> Self {
        Self { compared: true, ..self }
    }

    pub(super) const fn chosen(self) -> Self {
        Self { chosen: true, ..self }
    }

    pub(super) const fn of_arenas(self) -> Self {
        Self { config: Config::arena(), ..self }
    }

    /// The strategy with these parameters, over at most `capacity` bytes of address space,
    /// bookkeeping included. Memory is reserved at the first allocation.
    ///
    /// # Errors
    /// [`ConfigError`] if the parameters make no sense.
    pub fn build(
        &self,
        config: Config,
        capacity: usize,
    ) -> Result<Box<dyn Strategy + Send>, ConfigError> {
        config.check()?;
        Ok((self.plain)(config, capacity))
    }

    /// As [`build`](Self::build), with a meter that hears of every item visited. Not for timing.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_metered<'m>(
        &self,
        config: Config,
        capacity: usize,
        meter: &'m dyn Meter,
    ) -> Result<Box<dyn Strategy + 'm>, ConfigError> {
        self.build_over(config, Reserved::new(capacity), meter)
    }

    /// As [`build_metered`](Self::build_metered), over any source. `&()` is a meter that hears nothing.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_over<'a>(
        &self,
        config: Config,
        source: impl Source + 'a,
        meter: &'a dyn Meter,
    ) -> Result<Box<dyn Strategy + 'a>, ConfigError> {
        config.check()?;
        Ok((self.over)(config, Box::new(source), meter))
    }
}

/// The strategies of one paper, or of one idea.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Family {
    /// What to call it on a command line: `brent`.
    pub name: &'static str,
    /// The paper, or where else it comes from.
    pub source: &'static str,
    /// Its strategies, in the order of the paper.
    pub entries: &'static [Entry],
}
