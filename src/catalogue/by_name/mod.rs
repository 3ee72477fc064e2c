//! The object-safe face of the catalogue: strategies chosen at run time, family by family.
//!
//! A family is a file of [`Entry`] rows; a row names a strategy, its source in the literature and
//! how to build it. Whatever goes over "every strategy" (the comparison, the tests over the
//! bundled traces, the fuzzers) goes over [`all`], so a row is all it takes to join.

/// A row: name, source in the literature, how the strategy is built, and what it does. It is linear,
/// compared, or has its headers apart only if that is said.
macro_rules! entry {
    (
        $name:literal,
        $paper:literal,
        |$config:pat_param, $source:ident, $meter:ident| $strategy:expr,
        $about:literal
    ) => {
        $crate::catalogue::Entry {
            name: $name,
            source: $paper,
            about: $about,
            linear: false,
            in_band: true,
            compared: false,
            plain: |$config, capacity| {
                let ($source, $meter) = ($crate::source::Reserved::new(capacity), ());
                Box::new($strategy)
            },
            metered: |$config, capacity, $meter| {
                let $source = $crate::source::Reserved::new(capacity);
                Box::new($strategy)
            },
        }
    };
}

/// A row for a strategy whose heap grows by the page.
macro_rules! growing {
    ($name:literal, $paper:literal, $strategy:ident, $about:literal) => {
        entry!(
            $name,
            $paper,
            |config, source, meter| $strategy::new(config.page_size, source, meter),
            $about
        )
    };
}

mod brent;
mod default;
mod fit;
mod head_first;
mod hybrid;
mod lazy;
mod nielsen;

use crate::Strategy;
use crate::meter::Meter;
use crate::pages::{Config, ConfigError};

/// A named strategy over a growing reservation of the operating system.
#[derive(Clone, Copy, Debug)]
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
    /// One of the strategies that a comparison shows unless it is asked for others.
    pub compared: bool,
    plain: fn(Config, usize) -> Box<dyn Strategy + Send>,
    metered: for<'m> fn(Config, usize, &'m dyn Meter) -> Box<dyn Strategy + 'm>,
}

impl Entry {
    const fn linear(self) -> Self {
        Self { linear: true, ..self }
    }

    const fn compared(self) -> Self {
        Self { compared: true, ..self }
    }

    const fn apart(self) -> Self {
        Self { in_band: false, ..self }
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
        config.check()?;
        Ok((self.metered)(config, capacity, meter))
    }
}

/// The strategies of one paper, or of one idea.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// What to call it on a command line: `brent`.
    pub name: &'static str,
    /// The paper, or where else it comes from.
    pub source: &'static str,
    /// Its strategies, in the order of the paper.
    pub entries: &'static [Entry],
}

/// Every family: the papers', then the default.
const FAMILIES: &[Family] = &[
    Family { name: "brent", source: "Brent 1984", entries: brent::ENTRIES },
    Family { name: "fits", source: "Knuth §2.5; Hasan & Chang 2006 §2", entries: fit::ENTRIES },
    Family { name: "nielsen", source: "Nielsen 1977", entries: nielsen::ENTRIES },
    Family { name: "head-firsts", source: "Hakarsa 2024", entries: head_first::ENTRIES },
    Family { name: "hasan", source: "Hasan & Chang 2006", entries: hybrid::ENTRIES },
    Family { name: "lazy", source: "Chung & Moon 2000", entries: lazy::ENTRIES },
    Family { name: "default", source: "made of the papers' best", entries: default::ENTRIES },
];

/// Every family: the papers', then the default.
#[must_use]
pub fn families() -> &'static [Family] {
    FAMILIES
}

/// All named strategies, family by family.
pub fn all() -> impl Iterator<Item = &'static Entry> + Clone {
    families().iter().flat_map(|family| family.entries)
}

/// The strategy of this name; case does not matter.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    all().find(|entry| entry.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_only_once() {
        for entry in all() {
            assert!(std::ptr::eq(find(&entry.name.to_ascii_lowercase()).unwrap(), entry));
            let families = families().iter().any(|family| family.name == entry.name);
            assert!(!families, "{} names a family and a strategy", entry.name);
        }
    }
}
