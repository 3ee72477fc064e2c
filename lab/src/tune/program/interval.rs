//! A median with its confidence interval.

use serde::{Deserialize, Serialize};

use crate::tune::measure::median;

/// A median, and the limits between which the true one lies with a confidence of 95 %.
///
/// The limits are two of the values: the true median is below the k-th of n values with the
/// probability that at most k − 1 of n fair coins show heads, whatever the distribution. With fewer
/// than six values, the limits are the least and the greatest, and the confidence is less.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

impl Interval {
    /// Returns the interval of these values; NaN if there are none.
    pub(super) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let left_out = left_out(sorted.len());
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        Self {
            low: at(left_out),
            median: median(&sorted),
            high: at(sorted.len().wrapping_sub(1 + left_out)),
        }
    }
}

/// Returns how many of this number of sorted values lie outside the limits, on each side.
fn left_out(values: usize) -> usize {
    /// The probability that the true median is below the lower limit, or above the upper one.
    const ASIDE: f64 = 0.025;
    // The probability of exactly `heads` heads, and of at most as many.
    let (mut exactly, mut at_most) = (0.5_f64.powi(values.min(1000) as i32), 0.0);
    for heads in 0_usize..values / 2 {
        at_most += exactly;
        if at_most > ASIDE {
            return heads.saturating_sub(1);
        }
        exactly *= (values - heads) as f64 / (heads + 1) as f64;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From tables of the sign test.
    #[test]
    fn the_limits_are_those_of_the_sign_test() {
        let known = [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (15, 3), (20, 5)];
        for (values, outside) in known {
            assert_eq!(left_out(values), outside, "{values}");
        }
        assert_eq!(left_out(100), 40 - 1);
    }

    #[test]
    fn an_outlier_does_not_widen_it() {
        let values = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 90.0];
        assert_eq!(Interval::of(&values), Interval { low: 1.1, median: 1.4, high: 1.7 });
        assert!(Interval::of(&[]).low.is_nan() && Interval::of(&[]).high.is_nan());
        assert_eq!(Interval::of(&[2.0]), Interval { low: 2.0, median: 2.0, high: 2.0 });
    }
}
