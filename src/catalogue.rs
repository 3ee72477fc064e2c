//! Every named strategy, with its source in the literature: the object-safe face for tools that
//! choose a strategy at run time.
//!
//! Programs that know at compile time what they want use the types themselves.

use std::boxed::Box;

use crate::Strategy;
use crate::meter::Meter;
use crate::paged::{Config, ConfigError};

/// A named strategy over a growing reservation of the operating system.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The name in the literature, as `pagewise compare` prints it: `MOST-FREE`.
    pub name: &'static str,
    /// Paper and section.
    pub source: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
    plain: fn(Config, usize) -> Box<dyn Strategy + Send>,
    metered: for<'m> fn(Config, usize, &'m dyn Meter) -> Box<dyn Strategy + 'm>,
}

impl Entry {
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
        config.check()?;
        Ok((self.metered)(config, capacity, meter))
    }
}

/// All named strategies, in the order of the mission table.
#[must_use]
pub fn all() -> &'static [Entry] {
    ENTRIES
}

/// The strategy of this name; case does not matter.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    all().iter().find(|entry| entry.name.eq_ignore_ascii_case(name))
}

const ENTRIES: &[Entry] = &[];
