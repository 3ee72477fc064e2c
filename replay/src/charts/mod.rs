//! Charts, side by side and stacked, as an SVG: curves with their names at their ends ([`Curves`]),
//! and named points ([`Cloud`]). Axes begin where the data do, ticks are round numbers, and all
//! colours come from one palette that colour-blind people can distinguish.

mod axis;
mod cloud;
mod curves;
mod names;

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::output;

pub use axis::Axis;
pub use cloud::{Cloud, Place};
pub use curves::{Curves, Kind, Line};

/// Maximum number of charts side by side.
const ABREAST: usize = 3;
/// Fonts of captions and of other text, with their sizes in pixels; width and height of a character
/// of the latter.
const CAPTION: (&str, u32) = ("sans-serif", 18);
const LABEL: (&str, u32) = ("sans-serif", 14);
const LETTER: (i32, i32) = (8, 15);
/// The colour of text, and of lines that are not curves.
const INK: RGBColor = RGBColor(30, 30, 30);

/// Colours that colour-blind people can distinguish (Okabe and Ito 2002), those that are visible on
/// white.
pub const PALETTE: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// The area of a chart.
pub type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;

/// A chart with its axes drawn.
type Chart<'a, 's> = ChartContext<'a, SVGBackend<'s>, Cartesian2d<Axis, Axis>>;

/// Draws a chart for each item, all of the same size in pixels.
///
/// # Errors
/// The errors of `chart`.
pub fn draw<T>(
    all: &[T],
    (width, height): (u32, u32),
    chart: impl Fn(&Area<'_>, &T) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let columns = all.len().clamp(1, ABREAST);
    let lines = all.len().div_ceil(columns).max(1);
    let mut svg = String::new();
    {
        let size = (width * columns as u32, height * lines as u32);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        for (area, one) in root.split_evenly((lines, columns)).iter().zip(all) {
            chart(area, one)?;
        }
        root.present()?;
    }
    Ok(svg)
}

/// Writes drawn charts to a file.
///
/// # Errors
/// If drawing failed, or the file cannot be written.
pub fn write(path: &Path, drawn: anyhow::Result<String>) -> anyhow::Result<()> {
    let svg = drawn.with_context(|| format!("{} cannot be drawn", path.display()))?;
    output::create(path, |out| Ok(out.write_all(svg.as_bytes())?))
}

/// Draws the frame of a chart: caption, axes, ticks; leaves space, in pixels, for names beside and
/// below it.
fn frame<'a, 's>(
    area: &'a Area<'s>,
    caption: &str,
    (across, up): (&Axis, &Axis),
    (right, below): (i32, i32),
) -> anyhow::Result<Chart<'a, 's>> {
    let mut chart = ChartBuilder::on(area)
        .caption(caption, CAPTION.into_font().color(&INK))
        .margin(12)
        .margin_right(right)
        .margin_bottom(below)
        .x_label_area_size(44)
        .y_label_area_size(24 + LETTER.0 * up.widest())
        .build_cartesian_2d(across.clone(), up.clone())?;
    chart
        .configure_mesh()
        .x_desc(across.name())
        .y_desc(up.name())
        .label_style(LABEL.into_font().color(&INK))
        .axis_style(INK.mix(0.5))
        .light_line_style(TRANSPARENT)
        .bold_line_style(INK.mix(0.12))
        .draw()?;
    Ok(chart)
}

/// Converts a position in the picture to one in an area, in pixels.
fn within(area: &Area<'_>, (x, y): (i32, i32)) -> (i32, i32) {
    let (left, upper) = area.get_base_pixel();
    (x - left, y - upper)
}

/// Returns the width of a text in pixels.
fn width(text: &str) -> i32 {
    text.chars().count() as i32 * LETTER.0
}
