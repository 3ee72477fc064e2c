//! Page-fault curves as an SVG: one chart for each trace and page size, both axes logarithmic.

use std::path::Path;

use pagewise_replay::charts::{self, Area};
use pagewise_replay::units::bytes;
use plotters::prelude::*;

use super::row::{Row, Simulated};
use crate::competitor::SYSTEM;

/// Width of one chart, in pixels.
const WIDTH: u32 = 720;
/// Height of one chart: least, and for each entry of the legend, which takes half of it, in pixels.
const HEIGHT: (u32, u32) = (480, 40);
/// Font of everything but captions, and its size in pixels.
const LABEL: (&str, u32) = ("sans-serif", 15);
/// Colour of the libraries' curves.
const RIVAL: RGBColor = RGBColor(130, 130, 130);

/// Writes the file.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(path: &Path, all: &[Simulated]) -> anyhow::Result<()> {
    let entries = all.iter().map(|one| one.rows.len() as u32).max().unwrap_or(0);
    let height = HEIGHT.0.max(HEIGHT.1 * entries);
    charts::write(path, charts::draw(all, (WIDTH, height), chart))
}

fn chart(area: &Area<'_>, simulated: &Simulated) -> anyhow::Result<()> {
    let rows: Vec<&Row> = simulated.rows.iter().filter(|row| !row.curve.is_empty()).collect();
    let points = || rows.iter().flat_map(|row| &row.curve);
    let most_pages = points().map(|(pages, _)| *pages).max().unwrap_or(1) as f64;
    let most_faults = points().map(|(_, faults)| *faults).max().unwrap_or(1) as f64;
    let least_faults = points().map(|(_, faults)| *faults).min().unwrap_or(1) as f64;
    let page = bytes(simulated.page_size as u64);
    // Both ends are apart also if the trace is empty.
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{}, pages of {page}", simulated.trace), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(72)
        .build_cartesian_2d(
            (1.0..most_pages.max(2.0)).log_scale(),
            (least_faults.max(1.0)..most_faults.max(least_faults + 2.0)).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc("working set (pages)")
        .y_desc("page faults (LRU)")
        .x_label_formatter(&|pages| format!("{pages:.0}"))
        .y_label_formatter(&|faults| format!("{faults:.0}"))
        .label_style(LABEL)
        .light_line_style(BLACK.mix(0.05))
        .bold_line_style(BLACK.mix(0.15))
        .draw()?;
    for (index, row) in rows.iter().enumerate() {
        // SYSTEM and the libraries, which the strategies are held against, stand out.
        let style = match (row.is_strategy(), row.strategy == SYSTEM) {
            (true, _) => Palette99::pick(index).stroke_width(2),
            (false, true) => BLACK.stroke_width(3),
            (false, false) => RIVAL.stroke_width(4),
        };
        let curve = row.curve.iter().map(|&(pages, faults)| (pages as f64, faults as f64));
        chart
            .draw_series(LineSeries::new(curve, style))?
            .label(row.short_name())
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
