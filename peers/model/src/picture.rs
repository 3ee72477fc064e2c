//! The curves: a chart for each load, both axes logarithmic.

use std::path::Path;

use pagewise_replay::charts::{self, Area};
use plotters::prelude::*;

use super::design::Design;
use super::load::{Load, Point};

/// Width and height of a chart, in pixels.
const SIZE: (u32, u32) = (720, 460);
/// Font of everything but captions, and its size in pixels.
const LABEL: (&str, u32) = ("sans-serif", 15);

/// Draws the charts into a file.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn draw(path: &Path, points: &[Point]) -> anyhow::Result<()> {
    charts::write(path, charts::draw(&Load::ALL, SIZE, |area, load| chart(area, *load, points)))
}

fn chart(area: &Area<'_>, load: Load, points: &[Point]) -> anyhow::Result<()> {
    let own = || points.iter().filter(|point| point.load == load);
    let cores = |pick: fn(usize, usize) -> usize| own().map(|point| point.cores).reduce(pick);
    let operations = |pick: fn(f64, f64) -> f64| own().map(|point| point.operations).reduce(pick);
    let (fewest, most) = (cores(usize::min).unwrap_or(1), cores(usize::max).unwrap_or(2));
    let (least, highest) =
        (operations(f64::min).unwrap_or(1.0), operations(f64::max).unwrap_or(2.0));
    let mut chart = ChartBuilder::on(area)
        .caption(load.to_string(), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(72)
        .build_cartesian_2d(
            (fewest as f64..(most as f64).max(fewest as f64 + 1.0)).log_scale(),
            (least.max(1e-3) / 4.0..highest.max(2e-3) * 1.2).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc("cores")
        .y_desc("operations of each core in a microsecond")
        .x_label_formatter(&|cores| format!("{cores:.0}"))
        .y_label_formatter(&|operations| format!("{operations}"))
        .label_style(LABEL)
        .light_line_style(BLACK.mix(0.05))
        .bold_line_style(BLACK.mix(0.15))
        .draw()?;
    for (index, design) in Design::ALL.into_iter().enumerate() {
        let style = Palette99::pick(index).stroke_width(3);
        let curve = own()
            .filter(|point| point.design == design)
            .map(|point| (point.cores as f64, point.operations));
        chart
            .draw_series(LineSeries::new(curve, style))?
            .label(design.to_string())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.8))
        .label_font(LABEL)
        .draw()?;
    Ok(())
}
