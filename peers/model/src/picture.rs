//! The curves: a chart per load, both axes logarithmic.

use std::path::Path;

use pagewise_replay::charts::{self, Axis, Curves, Kind, Line};

use super::design::Design;
use super::load::{Load, Point};

/// Width and height of a chart, in pixels.
const SIZE: (u32, u32) = (780, 460);

/// Draws the charts into a file.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn draw(path: &Path, points: &[Point]) -> anyhow::Result<()> {
    let drawn = charts::draw(&Load::ALL, SIZE, |area, load| curves(*load, points).draw(area));
    charts::write(path, drawn)
}

fn curves(load: Load, points: &[Point]) -> Curves {
    /// Operations per core and second; the axis does not go below 1.
    const A_SECOND: f64 = 1e6;
    let own = || points.iter().filter(|point| point.load == load);
    let line = |design: Design| Line {
        name: design.to_string(),
        points: own()
            .filter(|point| point.design == design)
            .map(|point| (point.cores as f64, point.operations * A_SECOND))
            .collect(),
        kind: Kind::Usual,
    };
    let number = |value: f64| format!("{}", value / A_SECOND);
    Curves {
        caption: load.to_string(),
        across: Axis::logarithmic("cores", own().map(|point| point.cores as f64), |cores| {
            format!("{cores:.0}")
        }),
        up: Axis::logarithmic(
            "operations of each core in a microsecond",
            own().map(|point| point.operations * A_SECOND),
            number,
        ),
        lines: Design::ALL.into_iter().map(line).collect(),
    }
}
