//! Plots the Pareto fronts as an SVG: time against memory, page faults by colour; a chart per
//! family with its points numbered, and a key to the numbers below it.

use std::path::Path;

use pagewise_replay::charts::{self, Area, Axis, Cloud, PALETTE, Place};
use plotters::prelude::*;

use super::found::{Found, OnFront, Tuned};
use crate::pareto;

/// Size of one chart, in pixels.
const SIZE: (u32, u32) = (760, 480);
/// Characters per line below a chart, and a line's height in pixels.
const LETTERS: usize = 100;
const LINE: u32 = 17;
/// The colours of candidates with as many faults as the default or more, and of the one with the
/// fewest.
const MANY: RGBColor = PALETTE[1];
const FEW: RGBColor = PALETTE[0];

/// Writes the file.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(path: &Path, tuned: &Tuned) -> anyhow::Result<()> {
    let traces = tuned.traces.join(", ");
    let lines = tuned.families.iter().map(|found| key(found).len() as u32).max().unwrap_or(0);
    let size = (SIZE.0, SIZE.1 + LINE * lines + 16);
    let drawn = charts::draw(&tuned.families, size, |area, found| {
        let (above, below) = area.split_vertically(SIZE.1);
        cloud(found, &traces).draw(&above)?;
        list(&below, found)
    });
    charts::write(path, drawn)
}

/// Returns the default, and the front by time.
fn points(found: &Found) -> Vec<(String, (f64, f64), f64, bool)> {
    let of = |(number, one): (usize, &OnFront)| {
        let name =
            if one.chosen { format!("{} chosen", number + 1) } else { (number + 1).to_string() };
        (name, (one.relative.time, one.relative.memory), one.relative.faults, one.chosen)
    };
    let default = ("default".to_owned(), (1.0, 1.0), 1.0, false);
    [default].into_iter().chain(found.front.iter().enumerate().map(of)).collect()
}

fn cloud(found: &Found, traces: &str) -> Cloud {
    let points = points(found);
    let least = points.iter().map(|point| point.2).fold(1.0, f64::min);
    let number =
        |value: f64| format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned();
    let memory = format!("{} (the default = 1)", found.family.memory());
    let place = |(name, at, faults, chosen): &(String, (f64, f64), f64, bool)| Place {
        name: name.clone(),
        at: *at,
        colour: colour(*faults, least),
        is_ringed: *chosen || name == "default",
    };
    let key = [
        ("as many page faults as the default".to_owned(), MANY),
        (format!("{} times as many", number(least)), FEW),
    ];
    Cloud {
        caption: format!("{traces}: {}: down and to the left is better", found.family.title()),
        across: Axis::linear(
            "time (the default = 1)",
            points.iter().map(|one| one.1.0),
            1.0,
            number,
        ),
        up: Axis::linear(memory, points.iter().map(|one| one.1.1), 1.0, number),
        places: points.iter().map(place).collect(),
        border: border(&points),
        key: key.to_vec(),
    }
}

/// Returns the border of the dominated region in time and memory: axis-parallel steps.
fn border(points: &[(String, (f64, f64), f64, bool)]) -> Vec<(f64, f64)> {
    let costs: Vec<_> = points.iter().map(|point| [point.1.0, point.1.1]).collect();
    let mut front: Vec<_> = pareto::front(&costs).into_iter().map(|index| costs[index]).collect();
    front.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let corners = front.windows(2).map(|pair| (pair[1][0], pair[0][1]));
    let mut line: Vec<_> = front.iter().map(|cost| (cost[0], cost[1])).chain(corners).collect();
    line.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    line
}

/// Returns the lines of the key to the numbers.
fn key(found: &Found) -> Vec<String> {
    let options = textwrap::Options::new(LETTERS).subsequent_indent("    ");
    let lines = found.front.iter().enumerate().flat_map(|(number, one)| {
        let mark = if one.chosen { " (chosen)" } else { "" };
        let text = format!("{:>2}  {}{mark}", number + 1, one.candidate);
        let lines = textwrap::wrap(&text, &options);
        lines.into_iter().map(std::borrow::Cow::into_owned).collect::<Vec<_>>()
    });
    lines.collect()
}

fn list(area: &Area<'_>, found: &Found) -> anyhow::Result<()> {
    let font = ("sans-serif", 13).into_font();
    for (number, line) in (0..).zip(key(found)) {
        // SVG drops leading blanks.
        let text = line.trim_start();
        let left = 24 + 7 * (line.len() - text.len()) as i32;
        area.draw_text(text, &font.color(&BLACK), (left, 4 + LINE as i32 * number))?;
    }
    Ok(())
}

/// Interpolates between the colours of many faults (the default's, 1) and of the fewest.
fn colour(faults: f64, least: f64) -> RGBColor {
    let share = ((1.0 - faults) / (1.0 - least).max(1e-9)).clamp(0.0, 1.0);
    let between = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share) as u8;
    RGBColor(between(MANY.0, FEW.0), between(MANY.1, FEW.1), between(MANY.2, FEW.2))
}
