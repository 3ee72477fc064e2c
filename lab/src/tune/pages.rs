//! The parameters of pages, shared by the paged strategies and the global allocator: page size,
//! unit, SIZEMAP, FREETOL, FFCROSSOVER.

use std::fmt;
use std::ops::RangeInclusive;

use pagewise::global::Tuning;
use pagewise::pages::Config;
use pagewise::sizemap::{Demand, SizeMap, optimise};
use pagewise_replay::units::bytes;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// The limits of a page configuration.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// Binary logarithms of page sizes in bytes.
    pub(super) page_sizes: RangeInclusive<u32>,
    /// The units in bytes; sizes are multiples of the unit.
    pub(super) units: &'static [usize],
    /// Maximum FFCROSSOVER, bytes.
    pub(super) crossover: usize,
    /// Maximum number of classes of a listed SIZEMAP.
    pub(super) classes: usize,
    /// Whether odd multiples of 8 bytes can be classes even though the unit is 16.
    pub(super) half_units: bool,
}

/// The pages of a strategy, or of the global allocator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pages {
    /// Bytes.
    pub(super) page_size: usize,
    pub(super) unit: usize,
    map: Map,
    pub(super) freetol: usize,
    pub(super) ffcrossover: usize,
    /// The SIZEMAP, made from `map` and the demand.
    pub(super) sizemap: SizeMap,
}

/// How a SIZEMAP is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Map {
    PageFitting,
    Geometric(f64),
    Optimal,
    /// Four classes for each doubling: the global allocator's own.
    Doublings,
}

impl Map {
    fn sizemap(self, demand: &[Demand], pages: &Pages, limits: &Limits) -> SizeMap {
        let Pages { page_size, unit, ffcrossover, .. } = *pages;
        match self {
            Self::PageFitting => SizeMap::PageFitting,
            Self::Geometric(ratio) => SizeMap::Geometric { ratio },
            // Leaks a few hundred bytes for each of at most some thousand maps.
            Self::Optimal => {
                let mut classes = optimise(demand, unit, ffcrossover, page_size);
                if limits.half_units {
                    add_half_units(&mut classes);
                }
                SizeMap::Classes(classes.leak())
            }
            Self::Doublings => Tuning::new().pages.sizemap,
        }
    }
}

/// Adds the default's classes that are odd multiples of 8 bytes, where the class 8 bytes less is
/// there (or would be of 0 bytes). The demand does not say which blocks need an alignment of 16, so
/// it is not asked.
fn add_half_units(classes: &mut Vec<u32>) {
    let SizeMap::Classes(defaults) = Tuning::new().pages.sizemap else { return };
    for &half in defaults.iter().filter(|class| !class.is_multiple_of(16)) {
        match classes.binary_search(&(half - 8)) {
            Err(at) if half == 8 => classes.insert(at, half),
            Ok(at) if classes.get(at + 1).is_some_and(|&next| next > half) => {
                classes.insert(at + 1, half);
            }
            _ => {}
        }
    }
}

impl Pages {
    /// The global allocator's defaults.
    pub(super) fn of_global() -> Self {
        Self::of(&Tuning::new().pages, Map::Doublings)
    }

    /// Returns the pages of a configuration, with a SIZEMAP made by `map`.
    pub(super) fn of(config: &Config, map: Map) -> Self {
        let Config { page_size, unit, sizemap, freetol, ffcrossover, .. } = *config;
        Self { page_size, unit, map, freetol, ffcrossover, sizemap }
    }

    /// Changes one parameter at random.
    pub(super) fn change(&mut self, rng: &mut ChaCha8Rng, demand: &[Demand], limits: &Limits) {
        match rng.random_range(0..5) {
            0 => self.resize(1 << rng.random_range(limits.page_sizes.clone())),
            1 => {
                self.map = match rng.random_range(0..5) {
                    0 => Map::PageFitting,
                    1 => Map::Geometric(1.0 + f64::from(rng.random_range(2..=20)) / 20.0),
                    2 => Map::Doublings,
                    _ => Map::Optimal,
                }
            }
            2 => {
                self.freetol = [1, self.page_size / 16, self.page_size / 4][rng.random_range(0..3)]
            }
            3 => self.unit = limits.units[rng.random_range(0..limits.units.len())],
            _ => self.ffcrossover = self.page_size >> rng.random_range(1..=6),
        }
        self.ffcrossover = self.ffcrossover.min(limits.crossover);
        self.map_anew(demand, limits);
    }

    /// Changes the page size; FREETOL and FFCROSSOVER change in proportion.
    fn resize(&mut self, size: usize) {
        let share = (self.ffcrossover * size / self.page_size).max(256);
        self.ffcrossover = share.next_multiple_of(self.unit);
        self.freetol = (self.freetol * size / self.page_size).max(1);
        self.page_size = size;
    }

    /// Returns the pages with this size, and everything else in proportion.
    pub(super) fn resized(mut self, size: usize, demand: &[Demand], limits: &Limits) -> Self {
        self.resize(size);
        self.map_anew(demand, limits);
        self
    }

    fn map_anew(&mut self, demand: &[Demand], limits: &Limits) {
        // Classes for larger pages may not fit these.
        if self.map == Map::Doublings && self.page_size < Tuning::new().pages.ffcrossover {
            self.map = Map::PageFitting;
        }
        self.sizemap = self.map.sizemap(demand, self, limits);
        if matches!(self.sizemap, SizeMap::Classes(classes) if classes.len() > limits.classes) {
            (self.map, self.sizemap) = (Map::PageFitting, SizeMap::PageFitting);
        }
    }

    /// Returns the strategy's configuration; parameters that are not searched come from `rest`.
    pub(super) fn config(&self, rest: Config) -> Config {
        rest.page_size(self.page_size)
            .unit(self.unit)
            .sizemap(self.sizemap)
            .freetol(self.freetol)
            .ffcrossover(self.ffcrossover)
    }

    /// Returns the bytes of pages that the demand is expected to take (Brent §5.3): for each class
    /// the pages its blocks fill, and half a page. Nothing is lost above FFCROSSOVER.
    pub(super) fn expected_bytes(&self, demand: &[Demand]) -> f64 {
        let config = self.config(Config::new());
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

/// Formats a size: `64 KiB`.
pub(super) fn size(count: usize) -> String {
    bytes(count as u64).replace(".0 ", " ")
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pages of {}, ", size(self.page_size))?;
        if self.unit != Config::new().unit {
            write!(f, "unit {}, ", size(self.unit))?;
        }
        match (self.map, self.sizemap) {
            (Map::PageFitting, _) => write!(f, "page-fitting")?,
            (Map::Geometric(ratio), _) => write!(f, "geometric={ratio:.2}")?,
            (Map::Optimal, SizeMap::Classes(classes)) => {
                write!(f, "{} optimal classes", classes.len())?
            }
            (Map::Optimal, _) => write!(f, "optimal")?,
            (Map::Doublings, _) => write!(f, "4 classes a doubling")?,
        }
        if self.freetol > 1 {
            write!(f, ", FREETOL {}", size(self.freetol))?;
        }
        write!(f, ", FFCROSSOVER {}", size(self.ffcrossover))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The global allocator serves such classes only right behind the class 8 bytes less.
    #[test]
    fn odd_multiples_of_8_follow_the_class_before() {
        let with = |classes: &[u32]| {
            let mut classes = classes.to_vec();
            add_half_units(&mut classes);
            classes
        };
        assert_eq!(with(&[16, 32, 80, 96]), [8, 16, 24, 32, 40, 80, 96]);
        assert_eq!(with(&[48, 64]), [8, 48, 64]);
        assert_eq!(with(&[32]), [8, 32]);
    }

    #[test]
    fn the_model_prefers_less_waste() {
        let demand = [Demand { size: 1040, live: 1000.0 }];
        let small = Pages::of(&Config::new(), Map::PageFitting);
        let wasteful = Pages { sizemap: SizeMap::Geometric { ratio: 2.0 }, ..small };
        assert!(small.expected_bytes(&demand) < wasteful.expected_bytes(&demand));
        let large = [Demand { size: 1 << 20, live: 3.0 }];
        assert_eq!(small.expected_bytes(&large), f64::from(3 << 20));
    }
}
