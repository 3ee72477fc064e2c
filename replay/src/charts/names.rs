//! Places names beside points, so that no name covers another name or a point.

use super::{LETTER, width};

/// Pixels between a point and its name.
const GAP: i32 = 11;
/// Distances of a name from its point to try, in pixels, nearest first.
const RADII: [i32; 8] = [0, 14, 28, 46, 66, 90, 120, 160];
/// Number of directions to try.
const DIRECTIONS: i32 = 16;

/// A rectangle in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rectangle {
    pub(super) left: i32,
    pub(super) upper: i32,
    pub(super) right: i32,
    pub(super) lower: i32,
}

impl Rectangle {
    fn is_apart(&self, other: &Self) -> bool {
        self.left > other.right
            || self.right < other.left
            || self.upper > other.lower
            || self.lower < other.upper
    }

    fn is_within(&self, outer: &Self) -> bool {
        self.left >= outer.left
            && self.right <= outer.right
            && self.upper >= outer.upper
            && self.lower <= outer.lower
    }

    fn has(&self, (x, y): (i32, i32)) -> bool {
        (self.left..=self.right).contains(&x) && (self.upper..=self.lower).contains(&y)
    }

    /// Returns its point nearest to another point.
    pub(super) fn nearest(&self, (x, y): (i32, i32)) -> (i32, i32) {
        (x.clamp(self.left, self.right), y.clamp(self.upper, self.lower))
    }
}

/// Finds free places for names.
#[derive(Debug)]
pub(super) struct Names {
    /// Areas of points and names.
    taken: Vec<Rectangle>,
    /// Areas of lines, which the connection between a point and its name may cross.
    lines: Vec<Rectangle>,
    inside: Rectangle,
}

impl Names {
    pub(super) fn new(inside: Rectangle) -> Self {
        Self { taken: Vec::new(), lines: Vec::new(), inside }
    }

    /// Marks the area of a point as taken.
    pub(super) fn occupy(&mut self, (x, y): (i32, i32)) {
        self.taken.push(Rectangle { left: x - 6, upper: y - 6, right: x + 6, lower: y + 6 });
    }

    /// Marks the area of a line parallel to an axis as taken.
    pub(super) fn occupy_line(&mut self, (x, y): (i32, i32), (to_x, to_y): (i32, i32)) {
        self.lines.push(Rectangle {
            left: x.min(to_x),
            upper: y.min(to_y),
            right: x.max(to_x),
            lower: y.max(to_y),
        });
    }

    /// Returns the place for a point's name: beside it, or farther away in the emptiest direction.
    pub(super) fn find(&mut self, point: (i32, i32), name: &str) -> Rectangle {
        let candidates = RADII.iter().flat_map(|&radius| around(point, radius, name));
        let inside = candidates.filter(|place| place.is_within(&self.inside));
        let apart = |others: &[Rectangle], place: &Rectangle| {
            others.iter().all(|other| place.is_apart(other))
        };
        let free: Vec<_> = inside.filter(|place| apart(&self.taken, place)).collect();
        // Prefer places on no line whose connection to the point crosses nothing.
        let is_led_to = |place: &&Rectangle| self.is_led_to(point, place);
        let best = free.iter().filter(is_led_to).find(|place| apart(&self.lines, place));
        let found = best.or_else(|| free.iter().find(is_led_to)).or(free.first());
        let place = found.copied().unwrap_or_else(|| beside(point, (64, 0), 0, name));
        self.taken.push(place);
        place
    }
}

impl Names {
    /// Returns whether a line from the point to the place crosses no name and no other point.
    fn is_led_to(&self, (x, y): (i32, i32), place: &Rectangle) -> bool {
        const STEPS: i32 = 12;
        let (to_x, to_y) = place.nearest((x, y));
        let others = || self.taken.iter().filter(|other| !other.has((x, y)));
        (1..STEPS).all(|step| {
            let at = (x + (to_x - x) * step / STEPS, y + (to_y - y) * step / STEPS);
            others().all(|other| !other.has(at))
        })
    }
}

/// Returns places for a name around a point, at a distance.
fn around(point: (i32, i32), radius: i32, name: &str) -> impl Iterator<Item = Rectangle> + Clone {
    let beside_first = [(64, 0), (-64, 0), (0, -64), (0, 64)];
    let rest = (0..DIRECTIONS).map(|turn| {
        let angle = f64::from(turn) * std::f64::consts::TAU / f64::from(DIRECTIONS);
        ((angle.cos() * 64.0) as i32, (angle.sin() * 64.0) as i32)
    });
    beside_first.into_iter().chain(rest).map(move |to| beside(point, to, radius, name))
}

/// Returns the place in a direction given in 64ths.
fn beside((x, y): (i32, i32), (right, down): (i32, i32), radius: i32, name: &str) -> Rectangle {
    let (wide, high) = (width(name), LETTER.1);
    let (x, y) = (x + right * (GAP + radius) / 64, y + down * (GAP + radius) / 64);
    let left = match right {
        -20..=20 => x - wide / 2,
        21.. => x,
        _ => x - wide,
    };
    let upper = match down {
        -20..=20 => y - high / 2,
        21.. => y,
        _ => y - high,
    };
    Rectangle { left, upper, right: left + wide, lower: upper + high }
}

/// Returns heights for names in a column, as near as possible to the wanted ones, `apart` pixels
/// from each other.
pub(super) fn spread(wanted: &[i32], apart: i32, within: std::ops::Range<i32>) -> Vec<i32> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&index| wanted[index]);
    let mut heights = vec![0; wanted.len()];
    let mut least = within.start;
    for &index in &order {
        heights[index] = wanted[index].max(least);
        least = heights[index] + apart;
    }
    // Names beyond the end move up, and push those above.
    let mut most = within.end;
    for &index in order.iter().rev() {
        heights[index] = heights[index].min(most);
        most = heights[index] - apart;
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSIDE: Rectangle = Rectangle { left: 0, upper: 0, right: 400, lower: 400 };

    #[test]
    fn names_of_close_points_do_not_overlap() {
        let mut names = Names::new(INSIDE);
        let points: Vec<_> = (0..12).map(|n| (200 + n * 3 % 7, 200 + n * 2)).collect();
        points.iter().for_each(|&point| names.occupy(point));
        let places: Vec<_> = points.iter().map(|&point| names.find(point, "MOST-FREE")).collect();
        for (index, place) in places.iter().enumerate() {
            assert!(place.is_within(&INSIDE), "{place:?}");
            assert!(places[..index].iter().all(|other| place.is_apart(other)), "{place:?}");
        }
    }

    #[test]
    fn a_name_is_right_of_its_point_if_there_is_room() {
        let place = Names::new(INSIDE).find((100, 100), "A");
        assert_eq!((place.left, place.upper), (111, 93));
        let place = Names::new(INSIDE).find((395, 100), "A");
        assert!(place.right < 395);
    }

    #[test]
    fn spread_heights_are_apart_and_within_the_chart() {
        assert_eq!(spread(&[10, 100, 50], 15, 0..200), [10, 100, 50]);
        assert_eq!(spread(&[10, 10, 10], 15, 0..200), [10, 25, 40]);
        assert_eq!(spread(&[195, 190, 199], 15, 0..200), [185, 170, 200]);
    }
}
