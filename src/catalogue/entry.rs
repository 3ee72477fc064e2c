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
    /// A description in one sentence.
    pub about: &'static str,
    /// Whether an allocation or a free may, by the strategy's nature, visit every free block: O(n).
    /// On a large heap this is slow.
    pub linear: bool,
    /// Whether headers or tags are between the blocks, not apart from them.
    pub in_band: bool,
    /// Whether a freed block can serve the next request of its size. NOFREE never uses it again,
    /// QUICK only once its whole page is free.
    pub reuses: bool,
    /// Whether it is one of the best known: a comparison of strategies shows these by default.
    pub compared: bool,
    /// Whether it is a good choice for an arena.
    pub chosen: bool,
    /// The default configuration.
    pub config: Config,
    pub(super) plain: Plain,
    pub(super) over: Over,
}

/// Makes a strategy over a reservation of this many bytes. Nothing inside it is `dyn`, so it can be
/// timed.
pub(super) type Plain = fn(Config, usize) -> Box<dyn Strategy + Send>;

/// Makes a strategy over any source.
pub(super) type Over =
    for<'a> fn(Config, Box<dyn Source + 'a>, &'a dyn Meter) -> Box<dyn Strategy + 'a>;

// For the tables: each of the functions up to `of_arenas` returns the entry with one field changed.
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

    /// Returns the strategy with these parameters, over at most `capacity` bytes of address space,
    /// including bookkeeping. The memory is reserved at the first allocation.
    ///
    /// # Errors
    /// [`ConfigError`] if the parameters are invalid.
    pub fn build(
        &self,
        config: Config,
        capacity: usize,
    ) -> Result<Box<dyn Strategy + Send>, ConfigError> {
        config.check()?;
        Ok((self.plain)(config, capacity))
    }

    /// Returns the strategy as [`build`](Self::build) does, with a meter. Not for timing.
    ///
    /// # Errors
    /// As for [`build`](Self::build).
    pub fn build_metered<'m>(
        &self,
        config: Config,
        capacity: usize,
        meter: &'m dyn Meter,
    ) -> Result<Box<dyn Strategy + 'm>, ConfigError> {
        self.build_over(config, Reserved::new(capacity), meter)
    }

    /// Returns the strategy as [`build_metered`](Self::build_metered) does, over any source. `&()`
    /// is a meter that ignores all reports.
    ///
    /// # Errors
    /// As for [`build`](Self::build).
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

/// The strategies of one paper or one idea.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Family {
    /// The name on a command line: `brent`.
    pub name: &'static str,
    /// The paper, or another origin.
    pub source: &'static str,
    /// Its strategies, in the order of the paper.
    pub entries: &'static [Entry],
}
