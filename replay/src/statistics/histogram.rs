//! Histograms over powers of two.

use serde::Serialize;

/// The number of values from 2^(i−1) + 1 to 2^i, for each i; 0 and 1 are in the first bin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Histogram {
    bins: Vec<u64>,
}

impl Histogram {
    /// Counts a value.
    pub fn enter(&mut self, value: u64) {
        let bin = (u64::BITS - value.saturating_sub(1).leading_zeros()) as usize;
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
    }

    /// Returns the bins up to the last that is not empty, each with its largest value.
    pub fn bins(&self) -> impl Iterator<Item = (u128, u64)> {
        let first = self.bins.iter().position(|&count| count > 0).unwrap_or(0);
        self.bins.iter().enumerate().skip(first).map(|(bin, &count)| (1 << bin, count))
    }

    /// Returns the number of values.
    pub fn total(&self) -> u64 {
        self.bins.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_end_at_powers_of_two() {
        let mut histogram = Histogram::default();
        for value in [4, 5, 8, 9, u64::MAX] {
            histogram.enter(value);
        }
        let bins: Vec<_> = histogram.bins().filter(|&(_, count)| count > 0).collect();
        assert_eq!(bins, [(4, 1), (8, 2), (16, 1), (1 << 64, 1)]);
        assert_eq!(histogram.bins().next(), Some((4, 1)));
        assert_eq!(histogram.total(), 5);
    }

    #[test]
    fn nothing_and_one_share_a_bin() {
        let mut histogram = Histogram::default();
        histogram.enter(0);
        histogram.enter(1);
        assert_eq!(histogram.bins().collect::<Vec<_>>(), [(1, 2)]);
    }
}
