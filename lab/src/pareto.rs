//! The Pareto front: the points that no other point dominates.

/// Returns, in order, the indices of the costs that no other cost dominates. Among equal costs only
/// the first is returned. A cost with a NaN is never on the front. O(n²).
pub(crate) fn front<const N: usize>(costs: &[[f64; N]]) -> Vec<usize> {
    let known = |cost: &[f64; N]| cost.iter().all(|value| !value.is_nan());
    let covers = |a: &[f64; N], b: &[f64; N]| a.iter().zip(b).all(|(a, b)| a <= b);
    let is_on_front = |&index: &usize| {
        let cost = &costs[index];
        let beaten = |(other, by): (usize, &[f64; N])| {
            other != index && covers(by, cost) && (!covers(cost, by) || other < index)
        };
        known(cost) && !costs.iter().enumerate().any(beaten)
    };
    (0..costs.len()).filter(is_on_front).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dominated_points_are_not_on_the_front() {
        let costs = [[1.0, 5.0], [2.0, 6.0], [3.0, 1.0], [2.0, 5.0], [f64::NAN, 0.0]];
        assert_eq!(front(&costs), [0, 2]);
        assert_eq!(front::<2>(&[]), [0; 0]);
    }

    #[test]
    fn only_the_first_of_equal_points_is_kept() {
        assert_eq!(front(&[[1.0], [1.0], [1.0]]), [0]);
    }
}
