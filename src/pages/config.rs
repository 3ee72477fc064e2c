//! The parameters of the paged strategies: p, unit, SIZEMAP, FREETOL, FFCROSSOVER.

use core::fmt;

use crate::sizemap::SizeMap;

/// Parameters of a paged strategy. All sizes in bytes.
///
/// ```
/// use pagewise::pages::Config;
/// use pagewise::sizemap::SizeMap;
///
/// // The papers' machine: pages of 512 bytes, sizes in multiples of 8.
/// let vax = Config::new().page_size(512).unit(8).ffcrossover(120);
/// assert!(vax.check().is_ok());
/// assert_eq!(vax.sizemap(SizeMap::PageFitting).capacity(120), 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// p: the size of a page, a power of two from 512 bytes to 1 MiB. Pages are aligned to it.
    pub page_size: usize,
    /// Block sizes are multiples of this power of two, and blocks are aligned to it; blocks outside
    /// of pages to 16 bytes at most. At most p/16 bytes.
    pub unit: usize,
    /// How requested sizes are rounded up to size classes.
    pub sizemap: SizeMap,
    /// FREETOL: bytes, at most p, that must be free in a page before it can become the current page
    /// (Brent §5.2): φ0(s) = ⌈FREETOL/s⌉, at least 1 and at most the page's capacity. In a fixed
    /// region keep it at 1: pages below the tolerance wait for more of their blocks to be freed,
    /// even if a request then fails.
    pub freetol: usize,
    /// FFCROSSOVER: the largest size served by pages, at most the page size; larger requests are
    /// served by FIRST-FIT (Brent §5.3). If it is 0, FIRST-FIT serves all sizes.
    pub ffcrossover: usize,
    /// Seed of the strategies that choose at random.
    pub seed: u64,
}

impl Config {
    /// Returns the recommendations of Brent §5.1, §5.3 and §7.3: pages of 64 KiB, blocks in
    /// multiples of 16 bytes, page-fitting classes, FREETOL 1 (any free block will do), and
    /// FFCROSSOVER = p/4.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            page_size: 1 << 16,
            unit: 16,
            sizemap: SizeMap::PageFitting,
            freetol: 1,
            ffcrossover: 1 << 14,
            seed: 0x5eed,
        }
    }

    /// Like [`new`](Self::new) with another page size; FFCROSSOVER stays p/4.
    #[must_use]
    pub const fn with_page_size(page_size: usize) -> Self {
        let mut config = Self::new();
        config.page_size = page_size;
        config.ffcrossover = page_size / 4;
        config
    }

    /// Returns the parameters that measured best for arenas of 64 KiB and more: pages of 16 KiB,
    /// blocks in multiples of 8 bytes, closely spaced classes, FFCROSSOVER 1 KiB. (With pages of 8
    /// KiB, or with an FFCROSSOVER of 512 bytes, actions on blocks up to a kilobyte take a tenth
    /// longer.)
    #[must_use]
    pub const fn arena() -> Self {
        Self {
            page_size: 1 << 14,
            unit: 8,
            sizemap: SizeMap::PageFitting,
            freetol: 1,
            ffcrossover: 1 << 10,
            seed: 0x5eed,
        }
    }

    /// Sets p, the size of a page in bytes. FFCROSSOVER is unchanged.
    #[must_use]
    pub const fn page_size(mut self, bytes: usize) -> Self {
        self.page_size = bytes;
        self
    }

    /// Sets the unit in bytes.
    #[must_use]
    pub const fn unit(mut self, bytes: usize) -> Self {
        self.unit = bytes;
        self
    }

    /// Sets the SIZEMAP.
    #[must_use]
    pub const fn sizemap(mut self, sizemap: SizeMap) -> Self {
        self.sizemap = sizemap;
        self
    }

    /// Sets FREETOL in bytes.
    #[must_use]
    pub const fn freetol(mut self, bytes: usize) -> Self {
        self.freetol = bytes;
        self
    }

    /// Sets FFCROSSOVER in bytes.
    #[must_use]
    pub const fn ffcrossover(mut self, bytes: usize) -> Self {
        self.ffcrossover = bytes;
        self
    }

    /// Sets the seed.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Returns c = ⌊p/s⌋, the number of blocks of this size in a page; 0 for size 0, which no page
    /// serves.
    #[must_use]
    pub const fn capacity(&self, size: usize) -> usize {
        match self.page_size.checked_div(size) {
            Some(capacity) => capacity,
            None => 0,
        }
    }

    /// Checks that the parameters make sense together.
    ///
    /// # Errors
    /// The first parameter that is out of its range.
    pub const fn check(&self) -> Result<(), ConfigError> {
        if !self.page_size.is_power_of_two() || self.page_size < 512 || self.page_size > 1 << 20 {
            return Err(ConfigError::PageSize);
        }
        if !self.unit.is_power_of_two() || self.unit > self.page_size / 16 {
            return Err(ConfigError::Unit);
        }
        if self.ffcrossover > self.page_size {
            return Err(ConfigError::Crossover);
        }
        if self.freetol > self.page_size {
            return Err(ConfigError::Freetol);
        }
        match self.sizemap {
            SizeMap::Geometric { ratio } if !(ratio > 1.0 && ratio <= 1024.0) => {
                Err(ConfigError::SizeMap)
            }
            SizeMap::Classes(classes) if !ascending(classes, self.page_size) => {
                Err(ConfigError::SizeMap)
            }
            _ => Ok(()),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns whether a page can be carved into these classes: ascending, from 1 to `page_size`.
const fn ascending(classes: &[u32], page_size: usize) -> bool {
    let mut index = 0;
    let mut least = 0;
    while index < classes.len() {
        if classes[index] <= least || classes[index] as usize > page_size {
            return false;
        }
        least = classes[index];
        index += 1;
    }
    !classes.is_empty()
}

/// A parameter that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConfigError {
    /// The page size is not a power of two from 512 bytes to 1 MiB.
    PageSize,
    /// The unit is not a power of two up to a sixteenth of the page size.
    Unit,
    /// FFCROSSOVER exceeds the page size.
    Crossover,
    /// FREETOL exceeds the page size.
    Freetol,
    /// The ratio is not above 1 (and at most 1024), or the classes are not ascending from 1 to
    /// the page size.
    SizeMap,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PageSize => "the page size must be a power of two from 512 bytes to 1 MiB",
            Self::Unit => "the unit must be a power of two, at most a sixteenth of the page size",
            Self::Crossover => "FFCROSSOVER must not exceed the page size",
            Self::Freetol => "FREETOL must not exceed the page size",
            Self::SizeMap => {
                "a SIZEMAP needs a ratio above 1, or classes ascending from 1 to the page size"
            }
        })
    }
}

impl core::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages are carved into classes that ascend from 1 to their size, one at least.
    #[test]
    fn given_classes_ascend() {
        let check =
            |classes| Config::with_page_size(512).sizemap(SizeMap::Classes(classes)).check();
        let ascending: [&[u32]; 4] = [&[1], &[8, 16, 512], &[512], &[1, 2, 3, 4]];
        assert!(ascending.into_iter().all(|classes| check(classes).is_ok()));
        let wrong: [&[u32]; 7] = [&[], &[0], &[0, 1], &[8, 8], &[8, 16, 15], &[8, 513], &[513]];
        for classes in wrong {
            assert_eq!(check(classes), Err(ConfigError::SizeMap), "{classes:?}");
        }
    }

    /// An error names the parameter that is out of its range.
    #[test]
    fn errors_name_their_parameter() {
        let config = Config::with_page_size(512);
        for (config, named) in [
            (config.page_size(500), "the page size"),
            (config.page_size(256), "the page size"),
            (config.page_size(1 << 21), "the page size"),
            (config.unit(24), "the unit"),
            (config.unit(64), "the unit"),
            (config.ffcrossover(513), "FFCROSSOVER"),
            (config.freetol(513), "FREETOL"),
            (config.sizemap(SizeMap::Geometric { ratio: 1.0 }), "a SIZEMAP"),
        ] {
            let error = config.check().expect_err("it is out of range");
            assert!(std::format!("{error}").starts_with(named), "{error}");
        }
        let most = config.page_size(1 << 20).ffcrossover(1 << 20).freetol(1 << 20).unit(1 << 16);
        assert_eq!((config.unit(32).check(), most.check()), (Ok(()), Ok(())));
    }
}
