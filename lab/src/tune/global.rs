//! The global allocator's parameters as a candidate: a [`Tuning`], or settings of `libpagewise.so`.
//!
//! Two parameters are not searched: `heaps_per_cpu`, because a replay has one thread, and
//! `purge_delay`, because it depends on the clock, and a replay is shorter.

use std::fmt;
use std::ops::RangeInclusive;

use pagewise::global::{HugePages, Tuning};
use pagewise::sizemap::{Demand, SizeMap};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::pages::{Limits, Pages, size};

/// The limits of [`Tuning::check`] on pages.
const LIMITS: Limits = Limits {
    page_sizes: 14..=18,
    units: &[16],
    crossover: 32 << 10,
    classes: MOST_CLASSES,
    half_units: true,
};
/// Binary logarithms of the other parameters' values: blocks, and bytes.
const QUICK_BLOCKS: RangeInclusive<u32> = 1..=9;
const QUICK_BYTES: RangeInclusive<u32> = 8..=18;
const MAPPING_FROM: RangeInclusive<u32> = 16..=26;
const BEYOND: RangeInclusive<u32> = 21..=26;
/// Maximum number of classes that settings of the library can list.
const MOST_CLASSES: usize = 256;

/// The global allocator with its parameters; sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Global {
    pub(super) pages: Pages,
    pub(super) quick_blocks: u32,
    pub(super) quick_bytes: u32,
    pub(super) mapping_from: usize,
    pub(super) huge_pages: HugePages,
}

impl Global {
    /// The default parameters.
    pub(super) fn untuned() -> Self {
        let Tuning { quick_blocks, quick_bytes, mapping_from, huge_pages, .. } = Tuning::new();
        Self { pages: Pages::of_global(), quick_blocks, quick_bytes, mapping_from, huge_pages }
    }

    /// The defaults of `libpagewise.so`.
    pub(super) fn preloaded() -> Self {
        Self { huge_pages: HugePages::Beyond(16 << 20), ..Self::untuned() }
    }

    /// Returns the default and its obvious variations: shorter quick lists, smaller pages, both;
    /// huge pages always and never.
    pub(super) fn usual(default: Self, demand: &[Demand]) -> Vec<Self> {
        let pages = default.pages.resized(1 << LIMITS.page_sizes.start(), demand, &LIMITS);
        let (quick_blocks, quick_bytes) = (8, 1 << 10);
        vec![
            default,
            Self { quick_blocks, quick_bytes, ..default },
            Self { pages, ..default },
            Self { pages, quick_blocks, quick_bytes, ..default },
            Self { huge_pages: HugePages::Always, ..default },
            Self { huge_pages: HugePages::Never, ..default },
        ]
    }

    /// Returns it with one parameter changed at random.
    pub(super) fn changed(mut self, rng: &mut ChaCha8Rng, demand: &[Demand]) -> Self {
        match rng.random_range(0..8) {
            0 => self.quick_blocks = 1 << rng.random_range(QUICK_BLOCKS),
            1 => self.quick_bytes = 1 << rng.random_range(QUICK_BYTES),
            2 => self.mapping_from = 1 << rng.random_range(MAPPING_FROM),
            3 => {
                let beyond = HugePages::Beyond(1 << rng.random_range(BEYOND));
                let huge = [HugePages::System, HugePages::Never, HugePages::Always, beyond];
                self.huge_pages = huge[rng.random_range(0..4)];
            }
            _ => self.pages.change(rng, demand, &LIMITS),
        }
        self
    }

    /// Returns the tuning for `Pagewise`.
    pub(super) fn tuning(&self) -> Tuning {
        let default = Tuning::new();
        default
            .pages(self.pages.config(default.pages))
            .quick_blocks(self.quick_blocks)
            .quick_bytes(self.quick_bytes)
            .mapping_from(self.mapping_from)
            .huge_pages(self.huge_pages)
    }

    /// Returns the environment variables that give `libpagewise.so` these parameters; a test has it
    /// read them.
    pub(super) fn settings(&self) -> Vec<(&'static str, String)> {
        let default = Self::preloaded();
        let Self { pages, quick_blocks, quick_bytes, mapping_from, huge_pages } = *self;
        let sizemap = match pages.sizemap {
            SizeMap::Linear => "linear".to_owned(),
            SizeMap::PageFitting => "page-fitting".to_owned(),
            SizeMap::Geometric { ratio } => format!("geometric={ratio:?}"),
            SizeMap::Classes(classes) => {
                classes.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
            }
        };
        let huge = match huge_pages {
            HugePages::System => "system".to_owned(),
            HugePages::Never => "0".to_owned(),
            HugePages::Always => "1".to_owned(),
            HugePages::Beyond(bytes) => (bytes >> 20).to_string(),
        };
        let is_other = [
            (
                pages.page_size != default.pages.page_size,
                "PAGEWISE_PAGE_SIZE",
                with_suffix(pages.page_size),
            ),
            (pages.sizemap != default.pages.sizemap, "PAGEWISE_SIZEMAP", sizemap),
            (
                pages.freetol != default.pages.freetol,
                "PAGEWISE_FREETOL",
                with_suffix(pages.freetol),
            ),
            (
                pages.ffcrossover != default.pages.ffcrossover,
                "PAGEWISE_FFCROSSOVER",
                with_suffix(pages.ffcrossover),
            ),
            (
                quick_blocks != default.quick_blocks,
                "PAGEWISE_QUICK_BLOCKS",
                quick_blocks.to_string(),
            ),
            (
                quick_bytes != default.quick_bytes,
                "PAGEWISE_QUICK_BYTES",
                with_suffix(quick_bytes as usize),
            ),
            (
                mapping_from != default.mapping_from,
                "PAGEWISE_MAPPING_FROM",
                with_suffix(mapping_from),
            ),
            (huge_pages != default.huge_pages, "PAGEWISE_HUGE_PAGES", huge),
        ];
        is_other
            .into_iter()
            .filter(|(is_other, ..)| *is_other)
            .map(|(_, name, value)| (name, value))
            .collect()
    }

    /// Writes the pages, and the other parameters that differ from the default.
    pub(super) fn describe(&self, default: &Self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pages, quick_blocks, quick_bytes, mapping_from, huge_pages } = *self;
        write!(f, "{pages}")?;
        if (quick_blocks, quick_bytes) != (default.quick_blocks, default.quick_bytes) {
            write!(f, ", {quick_blocks} blocks or {} on quick lists", size(quick_bytes as usize))?;
        }
        if mapping_from != default.mapping_from {
            write!(f, ", mappings from {}", size(mapping_from))?;
        }
        if huge_pages == default.huge_pages {
            return Ok(());
        }
        match huge_pages {
            HugePages::System => f.write_str(", huge pages by the system's setting"),
            HugePages::Beyond(bytes) => write!(f, ", huge pages beyond {}", size(bytes)),
            HugePages::Never => f.write_str(", never huge pages"),
            HugePages::Always => f.write_str(", huge pages"),
        }
    }
}

/// Formats a number of bytes as settings do: `64K`.
fn with_suffix(bytes: usize) -> String {
    match bytes {
        bytes if bytes > 0 && bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        bytes if bytes > 0 && bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        bytes => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn every_tuning_is_in_range() {
        let demand =
            [(24, 100.0), (100, 50.0), (5000, 2.0)].map(|(size, live)| Demand { size, live });
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut one = Global::untuned();
        assert_eq!(one.tuning(), Tuning::new());
        for usual in Global::usual(one, &demand) {
            usual.tuning().check().unwrap_or_else(|error| panic!("{usual:?}: {error}"));
        }
        for _ in 0..2000 {
            one = one.changed(&mut rng, &demand);
            one.tuning().check().unwrap_or_else(|error| panic!("{one:?}: {error}"));
        }
    }

    #[test]
    fn only_settings_that_differ_from_the_librarys_default_are_printed() {
        let default = Global::preloaded();
        assert_eq!(default.settings(), []);
        let pages = default.pages.resized(16 << 10, &[], &LIMITS);
        let one = Global { pages, quick_blocks: 8, huge_pages: HugePages::Never, ..default };
        let expected = [
            ("PAGEWISE_PAGE_SIZE", "16K"),
            ("PAGEWISE_FFCROSSOVER", "4K"),
            ("PAGEWISE_QUICK_BLOCKS", "8"),
            ("PAGEWISE_HUGE_PAGES", "0"),
        ];
        let settings = one.settings();
        let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, &**value)).collect();
        assert!(expected.iter().all(|one| settings.contains(one)), "{settings:?}");
        assert_eq!(with_suffix(32 << 20), "32M");
        assert_eq!(
            (with_suffix(1), with_suffix(0), with_suffix(1025)),
            ("1".into(), "0".into(), "1025".into())
        );
    }
}
