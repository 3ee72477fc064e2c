//! Plots time against memory as an SVG: a chart per trace, and one of the means over several.

use std::path::Path;

use pagewise::catalogue;
use pagewise_replay::charts::{self, Axis, Cloud, PALETTE, Place};
use pagewise_replay::units::bytes;
use plotters::style::RGBColor;

use super::compared::Compared;
use super::measure::reference;
use super::table::mean_of_each;
use crate::competitor::{GLOBAL, HC, LIBPAGEWISE};
use crate::pareto;

/// Size of one chart, in pixels.
const SIZE: (u32, u32) = (680, 480);
/// The colours of pagewise's allocators and of others.
const OURS: RGBColor = PALETTE[0];
const RIVAL: RGBColor = RGBColor(20, 20, 20);

/// A competitor's name, time and memory.
type Measured = (&'static str, f64, f64);

/// Writes the file.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(path: &Path, all: &[&Compared]) -> anyhow::Result<()> {
    charts::write(path, charts::draw(&clouds(all), SIZE, |area, cloud| cloud.draw(area)))
}

/// Returns the clouds of points to draw.
fn clouds(all: &[&Compared]) -> Vec<Cloud> {
    let measured =
        |(name, time, resident): (_, Option<f64>, Option<f64>)| Some((name, time?, resident?));
    let of_trace = |compared: &&Compared| {
        let rows = compared.rows.iter().map(|row| {
            (row.strategy, row.ns_per_pair, row.peak_resident_bytes.map(|bytes| bytes as f64))
        });
        let measured: Vec<Measured> = rows.filter_map(measured).collect();
        let most = measured.iter().map(|one| one.2).fold(0.0, f64::max);
        let unit = 1024_f64.powi((most.max(1.0).log2() / 10.0) as i32);
        let across = "time (ns per pair of allocation and free)";
        let across = Axis::linear(across, measured.iter().map(|one| one.1), 1.0, number);
        let text = |resident: f64| bytes(resident as u64).replace(".0 ", " ");
        let up = Axis::linear("peak resident bytes", measured.iter().map(|one| one.2), unit, text);
        cloud(compared.trace.clone(), across, up, &measured)
    };
    let means = reference(all).filter(|_| all.len() > 1).map(|reference| {
        let means = mean_of_each(all).into_iter().map(|mean| (mean.name, mean.time, mean.resident));
        let measured: Vec<Measured> = means.filter_map(measured).collect();
        let axis = |name: &str, value: fn(&Measured) -> f64| {
            Axis::linear(
                format!("{name} ({reference} = 1)"),
                measured.iter().map(value),
                1.0,
                number,
            )
        };
        let (across, up) = (axis("time", |one| one.1), axis("peak resident bytes", |one| one.2));
        let caption = format!("geometric means over {} traces", all.len());
        cloud(caption, across, up, &measured)
    });
    means.into_iter().chain(all.iter().map(of_trace)).collect()
}

/// Formats a number without insignificant digits.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn cloud(caption: String, across: Axis, up: Axis, measured: &[Measured]) -> Cloud {
    let is_ours =
        |name: &str| [GLOBAL, HC, LIBPAGEWISE].contains(&name) || catalogue::find(name).is_some();
    let place = |&(name, time, resident): &Measured| Place {
        name: name.to_owned(),
        at: (time, resident),
        colour: if is_ours(name) { OURS } else { RIVAL },
        is_ringed: false,
    };
    let key = [("pagewise's", OURS), ("others'", RIVAL)];
    Cloud {
        caption: format!("{caption}: down and to the left is better"),
        across,
        up,
        places: measured.iter().map(place).collect(),
        border: stairs(measured),
        key: key.map(|(text, colour)| (text.to_owned(), colour)).to_vec(),
    }
}

/// Returns the border of the dominated region: axis-parallel steps between the points of the front.
fn stairs(measured: &[Measured]) -> Vec<(f64, f64)> {
    let costs: Vec<_> = measured.iter().map(|one| [one.1, one.2]).collect();
    let mut front: Vec<_> = pareto::front(&costs).into_iter().map(|index| costs[index]).collect();
    front.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let corners = front.windows(2).map(|pair| (pair[1][0], pair[0][1]));
    let mut line: Vec<_> = front.iter().map(|cost| (cost[0], cost[1])).chain(corners).collect();
    line.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_border_runs_along_the_axes() {
        let measured = [("A", 3.0, 1.0), ("B", 1.0, 4.0), ("C", 4.0, 4.0)];
        assert_eq!(stairs(&measured), [(1.0, 4.0), (3.0, 4.0), (3.0, 1.0)]);
    }

    #[test]
    fn numbers_have_the_digits_that_they_need() {
        assert_eq!([0.25, 1.0, 20.0, 0.0].map(number), ["0.25", "1", "20", "0"]);
    }
}
