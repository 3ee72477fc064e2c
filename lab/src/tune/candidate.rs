//! What is searched: strategies and their parameters, drawn at random and changed a little.
//!
//! A new kind of strategy joins by a variant of [`Candidate`], or by its name in [`PAGED`] or
//! [`GROWING`] if [`paged::Config`] has its parameters.

use std::fmt;

use pagewise::Strategy;
use pagewise::catalogue::{self, Entry};
use pagewise::hybrid::{self, Hybrid};
use pagewise::paged::Config;
use pagewise::sizemap::{Demand, SizeMap, optimise};
use pagewise::source::Reserved;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::competitor::CAPACITY;
use crate::units::bytes;

/// Strategies of pages: their page size, SIZEMAP, FREETOL and FFCROSSOVER are searched.
const PAGED: [&str; 5] = ["PAGEWISE", "MRU", "LEAST-FREE", "MOST-FREE", "STACK"];
/// Strategies whose only parameter is the unit of growth, for which they take the page size.
const GROWING: [&str; 3] = ["BEST-FIT", "FIRST-FIT", "BUDDY"];
/// Strategies without parameters.
const FIXED: [&str; 1] = ["KINGSLEY"];

/// A strategy with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Candidate {
    Paged(Paged),
    Growing { name: &'static str, growth: usize },
    Fixed { name: &'static str },
    Hybrid(hybrid::Config),
}

/// A strategy of pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Paged {
    pub(super) name: &'static str,
    pub(super) page_size: usize,
    map: Map,
    pub(super) freetol: usize,
    pub(super) ffcrossover: usize,
    /// The SIZEMAP, made of `map` and the demand.
    pub(super) sizemap: SizeMap,
}

/// How a SIZEMAP is made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Map {
    PageFitting,
    Geometric(f64),
    Optimal,
}

impl Map {
    fn sizemap(self, demand: &[Demand], page_size: usize, ffcrossover: usize) -> SizeMap {
        match self {
            Self::PageFitting => SizeMap::PageFitting,
            Self::Geometric(ratio) => SizeMap::Geometric { ratio },
            // A few hundred bytes for each, of at most some thousands, which a parameter of the
            // type `SizeMap` must outlive the program with.
            Self::Optimal => SizeMap::Classes(
                optimise(demand, Config::new().unit, ffcrossover, page_size).leak(),
            ),
        }
    }
}

impl Paged {
    /// Its parameters as the strategy takes them.
    pub(super) fn config(&self) -> Config {
        Config {
            page_size: self.page_size,
            sizemap: self.sizemap,
            freetol: self.freetol,
            ffcrossover: self.ffcrossover,
            ..Config::new()
        }
    }

    /// Bytes of pages that the demand is expected to take (Brent §5.3): of each class its blocks'
    /// share of pages, and half a page. Above FFCROSSOVER nothing is lost.
    pub(super) fn expected_bytes(&self, demand: &[Demand]) -> f64 {
        let config = self.config();
        let mut classes = self.sizemap.classes(config.unit, self.ffcrossover, self.page_size);
        let mut class = classes.next();
        let page = self.page_size as f64;
        let (mut expected, mut used) = (0.0, None);
        for &Demand { size, live } in demand {
            while class.is_some_and(|class| class < size) {
                class = classes.next();
            }
            let Some(class) = class.filter(|_| size <= self.ffcrossover) else {
                expected += size as f64 * live;
                continue;
            };
            expected += page * live / config.capacity(class) as f64;
            if used.replace(class) != Some(class) {
                expected += page / 2.0;
            }
        }
        expected
    }
}

impl Candidate {
    /// The strategy of this name as it is without tuning.
    ///
    /// # Panics
    /// If the catalogue has no such strategy.
    pub(super) fn default_of(name: &'static str) -> Self {
        let Config { page_size, sizemap, freetol, ffcrossover, .. } = Config::new();
        assert!(catalogue::find(name).is_some(), "{name} is in the catalogue");
        Self::Paged(Paged { name, page_size, map: Map::PageFitting, freetol, ffcrossover, sizemap })
    }

    /// Every strategy as it is without tuning.
    pub(super) fn untuned() -> Vec<Self> {
        let paged = PAGED.map(Self::default_of).into_iter();
        let growing = GROWING.map(|name| Self::Growing { name, growth: Config::new().page_size });
        let fixed = FIXED.map(|name| Self::Fixed { name });
        let hybrids =
            [hybrid::Config::generic(), hybrid::Config::memory(), hybrid::Config::performance()];
        paged.chain(growing).chain(fixed).chain(hybrids.map(Self::Hybrid)).collect()
    }

    /// A candidate at random.
    pub(super) fn random(rng: &mut ChaCha8Rng, demand: &[Demand]) -> Self {
        match rng.random_range(0..10) {
            0 => {
                let name = GROWING[rng.random_range(0..GROWING.len())];
                Self::Growing { name, growth: growth(rng) }
            }
            1..4 => (0..6)
                .fold(Self::Hybrid(hybrid::Config::generic()), |one, _| one.changed(rng, demand)),
            _ => {
                let name = PAGED[rng.random_range(0..PAGED.len())];
                let one = Self::default_of(name);
                (0..8).fold(one, |one, _| one.changed(rng, demand))
            }
        }
    }

    /// The candidate with one parameter changed at random.
    pub(super) fn changed(&self, rng: &mut ChaCha8Rng, demand: &[Demand]) -> Self {
        match self {
            Self::Paged(paged) => {
                let mut paged = *paged;
                match rng.random_range(0..5) {
                    0 => paged.name = PAGED[rng.random_range(0..PAGED.len())],
                    1 => {
                        let size = 1 << rng.random_range(11..=18);
                        // Both keep their share of the page.
                        paged.ffcrossover = (paged.ffcrossover * size / paged.page_size).max(256);
                        paged.freetol = (paged.freetol * size / paged.page_size).max(1);
                        paged.page_size = size;
                    }
                    2 => {
                        paged.map = match rng.random_range(0..4) {
                            0 => Map::PageFitting,
                            1 => Map::Geometric(1.0 + f64::from(rng.random_range(2..=20)) / 20.0),
                            _ => Map::Optimal,
                        }
                    }
                    3 => {
                        paged.freetol =
                            [1, paged.page_size / 16, paged.page_size / 4][rng.random_range(0..3)]
                    }
                    _ => paged.ffcrossover = paged.page_size >> rng.random_range(1..=6),
                }
                paged.sizemap = paged.map.sizemap(demand, paged.page_size, paged.ffcrossover);
                Self::Paged(paged)
            }
            Self::Growing { name, .. } => Self::Growing { name, growth: growth(rng) },
            Self::Fixed { .. } => self.clone(),
            Self::Hybrid(config) => {
                let mut config = *config;
                match rng.random_range(0..7) {
                    0 => config.ql_high = 16 * rng.random_range(0..=127),
                    1 => config.coalesce = !config.coalesce,
                    2 => config.coalesce_ql = !config.coalesce_ql,
                    3 => config.threshold = 100 + rng.random_range(0..=60),
                    4 => config.split = !config.split,
                    5 => config.growth = 4096 << rng.random_range(0..=6),
                    _ => config.coalesce_in_free = !config.coalesce_in_free,
                }
                // It counts for the user, not for us.
                config.monitor = false;
                Self::Hybrid(config)
            }
        }
    }

    /// The strategy, ready to serve.
    ///
    /// # Errors
    /// If the parameters make no sense.
    pub(super) fn build(&self) -> anyhow::Result<Box<dyn Strategy + Send>> {
        Ok(match self {
            Self::Paged(paged) => entry(paged.name).build(paged.config(), CAPACITY)?,
            Self::Growing { name, growth } => {
                entry(name).build(Config::with_page_size(*growth), CAPACITY)?
            }
            Self::Fixed { name } => entry(name).build(Config::new(), CAPACITY)?,
            Self::Hybrid(config) => {
                config.check()?;
                Box::new(Hybrid::new(*config, Reserved::new(CAPACITY), ()))
            }
        })
    }
}

fn entry(name: &str) -> &'static Entry {
    catalogue::find(name).expect("every candidate is in the catalogue")
}

fn growth(rng: &mut ChaCha8Rng) -> usize {
    1 << rng.random_range(12..=18)
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |count: usize| bytes(count as u64).replace(".0 ", " ");
        match self {
            Self::Paged(paged) => {
                write!(f, "{}, pages of {}, ", paged.name, size(paged.page_size))?;
                match (paged.map, paged.sizemap) {
                    (Map::PageFitting, _) => write!(f, "page-fitting")?,
                    (Map::Geometric(ratio), _) => write!(f, "geometric={ratio:.2}")?,
                    (Map::Optimal, SizeMap::Classes(classes)) => {
                        write!(f, "{} optimal classes", classes.len())?
                    }
                    (Map::Optimal, _) => write!(f, "optimal")?,
                }
                write!(f, ", FREETOL {}, FFCROSSOVER {}", paged.freetol, size(paged.ffcrossover))
            }
            Self::Growing { name, growth } => write!(f, "{name}, growing by {}", size(*growth)),
            Self::Fixed { name } => f.write_str(name),
            Self::Hybrid(config) => {
                write!(f, "HC, QL_HIGH {}", config.ql_high)?;
                let switches = [
                    (config.coalesce, "COALESCE"),
                    (config.coalesce_ql, "COALESCE_QL"),
                    (config.coalesce_in_free, "COALESCE_IN_FREE"),
                    (config.split, "SPLIT"),
                ];
                for (_, name) in switches.iter().filter(|(on, _)| *on) {
                    write!(f, ", {name}")?;
                }
                write!(f, ", {} %, growing by {}", config.threshold, size(config.growth))
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
        let random = (0..300).map(|_| Candidate::random(&mut rng, &demand));
        let all: Vec<_> = Candidate::untuned().into_iter().chain(random).collect();
        for candidate in &all {
            candidate.build().unwrap_or_else(|error| panic!("{candidate}: {error}"));
        }
        let names: std::collections::BTreeSet<_> = all.iter().map(ToString::to_string).collect();
        assert!(names.len() > 200, "{}", names.len());
    }

    #[test]
    fn the_model_prefers_what_loses_less() {
        let demand = [Demand { size: 1040, live: 1000.0 }];
        let Candidate::Paged(small) = Candidate::default_of("MRU") else { panic!("paged") };
        let wasteful = Paged { sizemap: SizeMap::Geometric { ratio: 2.0 }, ..small };
        assert!(small.expected_bytes(&demand) < wasteful.expected_bytes(&demand));
        let large = [Demand { size: 1 << 20, live: 3.0 }];
        assert_eq!(small.expected_bytes(&large), f64::from(3 << 20));
    }
}
