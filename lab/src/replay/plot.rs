//! Plots the bytes that a program requests and that the strategy holds, over the trace, as an SVG.

use std::path::Path;

use pagewise_replay::charts::{self, Axis, Curves, Kind, Line};
use pagewise_replay::units::{bytes, thousands};

use crate::timeline::Timeline;

/// Size of the chart, in pixels.
const SIZE: (u32, u32) = (860, 460);

/// Writes the plot of a trace to a file.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(
    path: &Path,
    caption: &str,
    operations: u64,
    timeline: &Timeline,
) -> anyhow::Result<()> {
    let curves = curves(caption, operations as f64, timeline);
    charts::write(path, charts::draw(&[curves], SIZE, |area, curves| curves.draw(area)))
}

fn curves(caption: &str, operations: f64, timeline: &Timeline) -> Curves {
    let line = |name: &str, values: &[u64], kind| {
        let part = operations / values.len().max(1) as f64;
        let place = |(index, &value): (usize, &u64)| ((index + 1) as f64 * part, value as f64);
        Line { name: name.to_owned(), points: values.iter().enumerate().map(place).collect(), kind }
    };
    let most = timeline.most_held().max(1);
    let unit = 1024_f64.powi(((most as f64).log2() / 10.0) as i32);
    let across = [0.0, operations].into_iter();
    Curves {
        caption: caption.to_owned(),
        across: Axis::linear("operations", across, 1.0, |at| thousands(at.round() as u64)),
        up: Axis::linear("bytes", [0.0, most as f64].into_iter(), unit, |value| {
            bytes(value as u64).replace(".0 ", " ")
        }),
        lines: vec![
            line("requested", &timeline.requested, Kind::Reference),
            line("held", &timeline.held, Kind::Usual),
        ],
    }
}
