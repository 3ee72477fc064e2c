//! The Pareto fronts as an SVG: time against memory, page faults by colour, a chart for each family.

use std::path::Path;

use pagewise_replay::charts::{self, Area};
use plotters::prelude::*;

use super::found::{Found, Tuned};

/// Size of one chart, in pixels.
const SIZE: (u32, u32) = (620, 460);
/// Font of everything but captions, and its size in pixels.
const LABEL: (&str, u32) = ("sans-serif", 14);
/// What faults as often as the default or more, and what faults least.
const MANY: RGBColor = RGBColor(192, 74, 0);
const FEW: RGBColor = RGBColor(0, 103, 168);
const RIVAL: RGBColor = RGBColor(20, 20, 20);

/// Writes the file.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(path: &Path, tuned: &Tuned) -> anyhow::Result<()> {
    let traces = tuned.traces.join(", ");
    let drawn = charts::draw(&tuned.families, SIZE, |area, found| chart(area, found, &traces));
    charts::write(path, drawn)
}

fn chart(area: &Area<'_>, found: &Found, traces: &str) -> anyhow::Result<()> {
    let place = |one: &super::found::OnFront| (one.relative.time, one.relative.memory);
    let places = || found.front.iter().map(place).chain([(1.0, 1.0)]);
    let right = places().map(|place| place.0).fold(0.0, f64::max) * 1.15;
    let top = places().map(|place| place.1).fold(0.0, f64::max) * 1.1;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{traces}: {}", found.family.title()), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc("time (the default = 1); orange: as many page faults as the default, blue: fewer")
        .y_desc(format!("{} (the default = 1)", found.family.memory()))
        .x_label_formatter(&|value| format!("{value:.1}"))
        .y_label_formatter(&|value| format!("{value:.1}"))
        .label_style(LABEL)
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.1))
        .draw()?;
    let least = found.front.iter().map(|one| one.relative.faults).fold(1.0, f64::min);
    chart.draw_series(found.front.iter().map(|one| {
        let radius = if one.chosen { 8 } else { 5 };
        Circle::new(place(one), radius, colour(one.relative.faults, least).filled())
    }))?;
    let chosen = found.front.iter().filter(|one| one.chosen).map(|one| (place(one), "chosen", 5));
    chart.draw_series([((1.0, 1.0), "default", -18)].into_iter().chain(chosen).map(
        |(at, name, down)| {
            EmptyElement::at(at)
                + Circle::new((0, 0), 9, RIVAL.stroke_width(1))
                + Text::new(name, (12, down), LABEL.into_font().color(&RIVAL))
        },
    ))?;
    Ok(())
}

/// Between the colours of many faults (the default's, 1) and of the fewest.
fn colour(faults: f64, least: f64) -> RGBColor {
    let share = ((1.0 - faults) / (1.0 - least).max(1e-9)).clamp(0.0, 1.0);
    let between = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share) as u8;
    RGBColor(between(MANY.0, FEW.0), between(MANY.1, FEW.1), between(MANY.2, FEW.2))
}
