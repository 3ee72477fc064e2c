//! Candidates: random and slightly changed parameters of the global allocator, or strategies for an
//! arena with theirs.
//!
//! A new kind of strategy joins as a variant of [`Candidate`], or by its name in [`PAGED`] or
//! [`GROWING`] if [`pages::Config`](Config) has its parameters.

use std::fmt;

use pagewise::pages::Config;
use pagewise::sizemap::Demand;
use pagewise::{catalogue, hybrid};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::global::Global;
use super::measure::Allocator;
use super::pages::{Limits, Map, Pages, size};
use crate::served::Server;
use crate::system::library::Library;

/// Paged strategies: page size, unit, SIZEMAP, FREETOL and FFCROSSOVER are searched.
const PAGED: [&str; 5] = ["PAGEWISE", "MRU", "LEAST-FREE", "MOST-FREE", "STACK"];
/// Strategies whose only parameter is the unit of growth, taken from the page size.
const GROWING: [&str; 3] = ["BEST-FIT", "FIRST-FIT", "BUDDY"];
/// Strategies without parameters.
const FIXED: [&str; 1] = ["KINGSLEY"];
/// Pages of 2 to 256 KiB; FFCROSSOVER is a share of them.
const LIMITS: Limits = Limits {
    page_sizes: 11..=18,
    units: &[8, 16],
    crossover: usize::MAX,
    classes: usize::MAX,
    half_units: false,
};

/// The use of the allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Family {
    /// A whole Rust program: `Pagewise` with its `Tuning`.
    Global,
    /// A program not written in Rust: `libpagewise.so` with its settings.
    Preload,
    /// A part of a program: a strategy over its own source.
    Arena,
}

impl Family {
    /// Returns the name of the family's memory measure.
    pub(crate) fn memory(self) -> &'static str {
        match self {
            Self::Global | Self::Preload => "peak resident",
            Self::Arena => "peak held",
        }
    }

    /// Returns the family's name.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Global => "global allocator",
            Self::Preload => "libpagewise.so",
            Self::Arena => "arena",
        }
    }
}

/// A strategy's name in the catalogue.
type Name = &'static str;

/// An allocator with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Candidate {
    Global(Global),
    /// `libpagewise.so` with these parameters as settings.
    Preload(Global),
    Paged(Paged),
    Growing {
        name: Name,
        growth: usize,
    },
    Fixed {
        name: Name,
    },
    Hybrid(hybrid::Settings),
}

/// A paged strategy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Paged {
    pub(super) name: Name,
    pub(super) pages: Pages,
}

impl Candidate {
    /// Returns the family's untuned candidate, to which all others are compared.
    pub(super) fn default_of(family: Family) -> Self {
        match family {
            Family::Global => Self::Global(Global::untuned()),
            Family::Preload => Self::Preload(Global::preloaded()),
            Family::Arena => Self::paged("PAGEWISE"),
        }
    }

    /// Returns the strategy of this name without tuning.
    pub(super) fn paged(name: Name) -> Self {
        Self::Paged(Paged { name, pages: Pages::of(&shipped(name), Map::PageFitting) })
    }

    /// Returns the candidates that are always measured: the default first, then others without
    /// tuning.
    pub(super) fn usual(family: Family, demand: &[Demand]) -> Vec<Self> {
        match family {
            Family::Global => {
                let usual = Global::usual(Global::untuned(), demand);
                return usual.into_iter().map(Self::Global).collect();
            }
            Family::Preload => {
                let usual = Global::usual(Global::preloaded(), demand);
                return usual.into_iter().map(Self::Preload).collect();
            }
            Family::Arena => {}
        }
        let paged = PAGED.map(Self::paged).into_iter();
        let growing = GROWING.map(|name| Self::Growing { name, growth: Config::new().page_size });
        let fixed = FIXED.map(|name| Self::Fixed { name });
        let hybrids = [
            hybrid::Settings::generic(),
            hybrid::Settings::memory(),
            hybrid::Settings::performance(),
        ];
        paged.chain(growing).chain(fixed).chain(hybrids.map(Self::Hybrid)).collect()
    }

    /// Returns a random candidate.
    pub(super) fn random(family: Family, rng: &mut ChaCha8Rng, demand: &[Demand]) -> Self {
        let (first, changes) = match (family, rng.random_range(0..10)) {
            (Family::Global | Family::Preload, _) => (Self::default_of(family), 8),
            (Family::Arena, 0) => {
                let name = GROWING[rng.random_range(0..GROWING.len())];
                (Self::Growing { name, growth: growth(rng) }, 0)
            }
            (Family::Arena, 1..4) => (Self::Hybrid(hybrid::Settings::generic()), 6),
            (Family::Arena, _) => (Self::paged(PAGED[rng.random_range(0..PAGED.len())]), 8),
        };
        (0..changes).fold(first, |one, _| one.changed(rng, demand))
    }

    /// Returns the candidate with one parameter changed at random.
    pub(super) fn changed(&self, rng: &mut ChaCha8Rng, demand: &[Demand]) -> Self {
        match self {
            Self::Global(global) => Self::Global(global.changed(rng, demand)),
            Self::Preload(global) => Self::Preload(global.changed(rng, demand)),
            Self::Paged(paged) => {
                let mut paged = *paged;
                match rng.random_range(0..5) {
                    0 => paged.name = PAGED[rng.random_range(0..PAGED.len())],
                    _ => paged.pages.change(rng, demand, &LIMITS),
                }
                Self::Paged(paged)
            }
            Self::Growing { name, .. } => Self::Growing { name, growth: growth(rng) },
            Self::Fixed { .. } => self.clone(),
            Self::Hybrid(settings) => {
                let mut settings = *settings;
                match rng.random_range(0..7) {
                    0 => settings.ql_high = 16 * rng.random_range(0..=127),
                    1 => settings.coalesce = !settings.coalesce,
                    2 => settings.coalesce_ql = !settings.coalesce_ql,
                    3 => settings.threshold = 100 + rng.random_range(0..=60),
                    4 => settings.split = !settings.split,
                    5 => settings.growth = 4096 << rng.random_range(0..=6),
                    _ => settings.coalesce_in_free = !settings.coalesce_in_free,
                }
                // It counts for the user's information; we do not need it.
                settings.monitor = false;
                Self::Hybrid(settings)
            }
        }
    }

    /// Returns the bytes that the demand is expected to take; `None` if the model does not apply.
    pub(super) fn expected_bytes(&self, demand: &[Demand]) -> Option<f64> {
        match self {
            Self::Global(global) | Self::Preload(global) => {
                Some(global.pages.expected_bytes(demand))
            }
            Self::Paged(paged) => Some(paged.pages.expected_bytes(demand)),
            _ => None,
        }
    }

    /// Returns the server with these parameters; `ours` is the `libpagewise.so` to which settings
    /// apply.
    pub(super) fn allocator(&self, ours: Option<&Library>) -> Allocator {
        let library = match self {
            Self::Preload(global) => ours.map(|library| library.with_settings(global.settings())),
            _ => None,
        };
        Allocator { server: self.server(), library }
    }

    /// Returns the library with these parameters as settings, which make it the same allocator; an
    /// arena has none.
    pub(super) fn preloaded(&self, ours: &Library) -> Option<Library> {
        match self {
            Self::Global(global) | Self::Preload(global) => {
                Some(ours.with_settings(global.settings()))
            }
            _ => None,
        }
    }

    /// Returns the family that it belongs to.
    pub(super) fn family(&self) -> Family {
        match self {
            Self::Global(_) => Family::Global,
            Self::Preload(_) => Family::Preload,
            _ => Family::Arena,
        }
    }

    /// Returns the server without the library to preload.
    fn server(&self) -> Server {
        let strategy = |name: &str, config| Server::Strategy { name: name.to_owned(), config };
        match self {
            Self::Global(global) => Server::Global(global.tuning()),
            Self::Preload(_) => Server::Malloc,
            Self::Paged(paged) => strategy(paged.name, paged.pages.config(Config::new())),
            Self::Growing { name, growth } => strategy(name, Config::with_page_size(*growth)),
            Self::Fixed { name } => strategy(name, Config::new()),
            Self::Hybrid(settings) => Server::Hybrid(*settings),
        }
    }
}

/// Returns a strategy's default configuration.
fn shipped(name: &str) -> Config {
    catalogue::find(name).map_or_else(Config::new, |entry| entry.config)
}

fn growth(rng: &mut ChaCha8Rng) -> usize {
    1 << rng.random_range(12..=18)
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global(global) => global.describe(&Global::untuned(), f),
            Self::Preload(global) => global.describe(&Global::preloaded(), f),
            Self::Paged(Paged { name, pages }) => write!(f, "{name}, {pages}"),
            Self::Growing { name, growth } => write!(f, "{name}, growing by {}", size(*growth)),
            Self::Fixed { name } => f.write_str(name),
            Self::Hybrid(settings) => {
                write!(f, "HC, QL_HIGH {}", settings.ql_high)?;
                let switches = [
                    (settings.coalesce, "COALESCE"),
                    (settings.coalesce_ql, "COALESCE_QL"),
                    (settings.coalesce_in_free, "COALESCE_IN_FREE"),
                    (settings.split, "SPLIT"),
                ];
                for (_, name) in switches.iter().filter(|(on, _)| *on) {
                    write!(f, ", {name}")?;
                }
                write!(f, ", {} %, growing by {}", settings.threshold, size(settings.growth))?;
                match settings.mmap_threshold {
                    usize::MAX => f.write_str(", never mapping"),
                    bytes => write!(f, ", mapping beyond {}", size(bytes)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn every_candidate_can_be_built_and_named() {
        let demand =
            [(24, 100.0), (100, 50.0), (5000, 2.0)].map(|(size, live)| Demand { size, live });
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let random = (0..300).map(|_| Candidate::random(Family::Arena, &mut rng, &demand));
        let usual = Candidate::usual(Family::Arena, &demand);
        let all: Vec<_> = usual.into_iter().chain(random).collect();
        for candidate in &all {
            let built = candidate.server().strategy();
            built.unwrap_or_else(|error| panic!("{candidate}: {error}"));
        }
        let names: std::collections::BTreeSet<_> = all.iter().map(ToString::to_string).collect();
        assert!(names.len() > 200, "{}", names.len());
    }

    #[test]
    fn the_first_usual_candidate_is_the_default() {
        for family in [Family::Global, Family::Preload, Family::Arena] {
            assert_eq!(Candidate::usual(family, &[])[0], Candidate::default_of(family));
        }
    }
}
