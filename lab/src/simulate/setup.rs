//! The simulated memory and how the program uses it: options that `simulate` shares with the child
//! process for the system's allocator.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use pagewise_replay::units::parse_bytes;
use serde::{Deserialize, Serialize};

/// Allowed sizes of a simulated page, in bytes.
const PAGE_SIZES: std::ops::RangeInclusive<usize> = 512..=2 << 20;

/// Which of a block's pages a program references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Touch {
    /// The first, when the block is allocated or resized and just before it is freed
    First,
    /// Every page when the block is allocated or resized, the first just before it is freed
    Written,
    /// Every page at each of these times
    Whole,
}

impl Touch {
    /// Returns how many of `size` bytes are used when the block is allocated or resized.
    pub(super) fn at_first(self, size: usize) -> usize {
        if self == Self::First { 1 } else { size }
    }

    /// Returns how many of `size` bytes are used just before the block is resized or freed.
    pub(super) fn at_last(self, size: usize) -> usize {
        if self == Self::Whole { size } else { 1 }
    }
}

/// Parses the size of a simulated page.
///
/// # Errors
/// If the text is not a page size.
pub(super) fn parse_page_size(text: &str) -> Result<usize, String> {
    let size = parse_bytes(text)?;
    if size.is_power_of_two() && PAGE_SIZES.contains(&size) {
        Ok(size)
    } else {
        Err("the size of a simulated page must be a power of two from 512 bytes to 2 MiB"
            .to_owned())
    }
}

/// An amount of memory, as requested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WorkingSet {
    Pages(usize),
    /// Percentage of the peak.
    Percent(f64),
}

impl WorkingSet {
    /// The default.
    pub(super) const USUAL: [Self; 4] =
        [Self::Percent(10.0), Self::Percent(25.0), Self::Percent(50.0), Self::Percent(100.0)];

    /// Returns the number of pages for a peak of `peak` pages: rounded up, and at least one.
    pub(super) fn pages(self, peak: usize) -> usize {
        match self {
            Self::Pages(pages) => pages,
            Self::Percent(percent) => ((peak as f64 * percent / 100.0).ceil() as usize).max(1),
        }
    }
}

impl FromStr for WorkingSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let set = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse().map(Self::Percent).ok(),
            None => text.parse().map(Self::Pages).ok(),
        };
        let sensible = |set: &Self| match *set {
            Self::Pages(pages) => pages > 0 && u32::try_from(pages).is_ok(),
            Self::Percent(percent) => percent > 0.0 && percent <= 10_000.0,
        };
        set.filter(sensible)
            .ok_or_else(|| "expected a number of pages, or a percentage such as 25%".to_owned())
    }
}

impl fmt::Display for WorkingSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pages(1) => write!(f, "1 page"),
            Self::Pages(pages) => write!(f, "{pages} pages"),
            Self::Percent(percent) => write!(f, "{percent} %"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_sets_are_pages_or_percent() {
        assert_eq!("50".parse(), Ok(WorkingSet::Pages(50)));
        assert_eq!("12.5%".parse(), Ok(WorkingSet::Percent(12.5)));
        for wrong in ["", "0", "-1", "0%", "x%", "NaN%", "99999999999"] {
            assert!(wrong.parse::<WorkingSet>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn percents_are_rounded_up_to_whole_pages() {
        let quarter = WorkingSet::Percent(25.0);
        assert_eq!([0, 1, 4, 5].map(|peak| quarter.pages(peak)), [1, 1, 1, 2]);
    }

    #[test]
    fn page_sizes_are_powers_of_two_within_bounds() {
        assert_eq!(parse_page_size("2M"), Ok(2 << 20));
        assert_eq!(parse_page_size("512"), Ok(512));
        for wrong in ["256", "4M", "5000", "x"] {
            assert!(parse_page_size(wrong).is_err(), "{wrong}");
        }
    }
}
