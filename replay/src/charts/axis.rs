//! Axes: their range, and the positions of their ticks.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// Approximate number of ticks on an axis.
const TICKS: f64 = 5.0;
/// The margin at both ends, as a share of the axis.
const MARGIN: f64 = 0.05;

/// An axis, linear or logarithmic.
#[derive(Clone, Debug)]
pub struct Axis {
    name: String,
    is_logarithmic: bool,
    range: Range<f64>,
    /// The ticks' positions and labels.
    ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Returns an axis for these non-negative values. Ticks are round multiples of `unit`.
    pub fn linear(
        name: impl Into<String>,
        values: impl Iterator<Item = f64>,
        unit: f64,
        text: impl Fn(f64) -> String,
    ) -> Self {
        let (least, most) = ends(values);
        let span = if most > least { most - least } else { most.max(unit) };
        let range = (least - span * MARGIN).max(0.0)..most + span * MARGIN;
        let ticks_at = |step: f64| -> Vec<_> {
            multiples(&range, step * unit).map(|at| (at, text(at))).collect()
        };
        let mut step = round(span / TICKS / unit);
        let mut ticks = ticks_at(step);
        // A label may be too short for the step: whole bytes, for example.
        while ticks.windows(2).any(|pair| pair[0].1 == pair[1].1) {
            step = round(2.0 * step);
            ticks = ticks_at(step);
        }
        Self { name: name.into(), is_logarithmic: false, range, ticks }
    }

    /// Returns a logarithmic axis for these values; values below 1 are placed at 1. Ticks are
    /// powers of ten, and values between these if they are few.
    pub fn logarithmic(
        name: impl Into<String>,
        values: impl Iterator<Item = f64>,
        text: impl Fn(f64) -> String,
    ) -> Self {
        let (least, most) = ends(values.map(|value| value.max(1.0).log10()));
        let span = (most - least).max(0.1);
        let range = (least - span * MARGIN).max(0.0)..most + span * MARGIN;
        let decades = range.start.floor() as i32..=range.end.ceil() as i32;
        let at = |factors: &'static [f64]| {
            let all = decades.clone().flat_map(move |decade| {
                factors.iter().map(move |factor| 10_f64.powi(decade) * factor)
            });
            let inside = all.filter(|value| range.contains(&value.log10()));
            inside.map(|value| (value.log10(), text(value))).collect::<Vec<_>>()
        };
        let mut ticks = at(&[1.0]);
        if ticks.len() < 3 {
            ticks = at(&[1.0, 2.0, 5.0]);
        }
        if ticks.len() < 3 {
            let values = 10_f64.powf(range.start)..10_f64.powf(range.end);
            let step = round((values.end - values.start) / TICKS).max(1.0);
            ticks = multiples(&values, step).map(|at| (at.log10(), text(at))).collect();
        }
        Self { name: name.into(), is_logarithmic: true, range, ticks }
    }

    /// Returns the position of a value.
    pub(super) fn place(&self, value: f64) -> f64 {
        if self.is_logarithmic { value.max(1.0).log10() } else { value }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Number of characters of the longest label.
    pub(super) fn widest(&self) -> i32 {
        self.ticks.iter().map(|tick| tick.1.chars().count()).max().unwrap_or(0) as i32
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight().allow_light_points() {
            true => Vec::new(),
            false => self.ticks.iter().map(|tick| tick.0).collect(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    /// Returns the label of the tick at this position.
    fn format_ext(&self, at: &f64) -> String {
        let distance = |tick: &&(f64, String)| (tick.0 - at).abs();
        let nearest = self.ticks.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        nearest.map_or_else(String::new, |tick| tick.1.clone())
    }
}

/// Returns minimum and maximum; also distinct ones if there are no values.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .filter(|value| value.is_finite())
        .fold(None, |ends: Option<(f64, f64)>, value| {
            let (least, most) = ends.unwrap_or((value, value));
            Some((least.min(value), most.max(value)))
        })
        .unwrap_or((0.0, 1.0))
}

/// Returns the number nearest to a positive one that is 1, 2 or 5 times a power of ten.
fn round(number: f64) -> f64 {
    let number = number.max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(number.log10().floor());
    let off = |factor: &f64| (factor * power / number).log10().abs();
    let factors = [1.0, 2.0, 5.0, 10.0];
    let nearest = factors.into_iter().min_by(|a, b| off(a).total_cmp(&off(b)));
    nearest.unwrap_or(1.0) * power
}

/// Returns the multiples of a step within a range.
fn multiples(range: &Range<f64>, step: f64) -> impl Iterator<Item = f64> + use<> {
    let (first, end) = ((range.start / step - 1e-9).ceil(), range.end);
    (0..100).map(move |n| (first + f64::from(n)) * step).take_while(move |at| *at <= end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| &*tick.1).collect()
    }

    fn number(value: f64) -> String {
        format!("{value}")
    }

    #[test]
    fn ticks_are_round_and_the_axis_begins_where_the_data_do() {
        let axis = Axis::linear("x", [30.0, 71.0].into_iter(), 1.0, number);
        assert_eq!(labels(&axis), ["30", "40", "50", "60", "70"]);
        assert!(axis.range.start > 25.0 && axis.range.end < 75.0);
        let mebi = f64::from(1 << 20);
        let bytes = [3.1 * mebi, 17.9 * mebi].into_iter();
        let axis = Axis::linear("y", bytes, mebi, |value| format!("{}", value / mebi));
        assert_eq!(labels(&axis), ["4", "6", "8", "10", "12", "14", "16", "18"]);
    }

    #[test]
    fn no_two_ticks_have_the_same_label() {
        let whole = |value: f64| format!("{value:.0} B");
        for (most, expected) in [(0.0, &["0 B"][..]), (1.0, &["0 B", "1 B"])] {
            let axis = Axis::linear("y", [0.0, most].into_iter(), 1.0, whole);
            assert_eq!(labels(&axis), expected);
            assert_eq!(axis.ticks.last().map(|tick| tick.0), Some(most));
        }
    }

    #[test]
    fn a_logarithmic_axis_has_powers_of_ten_or_steps_between_them() {
        let of = |values: [f64; 2]| Axis::logarithmic("x", values.into_iter(), number);
        assert_eq!(labels(&of([1.0, 5000.0])), ["1", "10", "100", "1000"]);
        assert_eq!(labels(&of([150.0, 1200.0])), ["200", "500", "1000"]);
        assert_eq!(labels(&of([210.0, 290.0])), ["220", "240", "260", "280"]);
        assert_eq!(of([100.0, 1000.0]).place(0.0), 0.0);
    }

    #[test]
    fn one_value_or_none_gives_an_axis() {
        for values in [vec![], vec![0.0], vec![7.0, 7.0]] {
            for axis in [
                Axis::linear("x", values.iter().copied(), 1.0, number),
                Axis::logarithmic("x", values.iter().copied(), number),
            ] {
                assert!(axis.range.end > axis.range.start, "{axis:?}");
            }
        }
    }
}
