//! Time against memory as an SVG: a chart for each trace, and one of the means over several.

use std::path::Path;

use pagewise::catalogue;
use pagewise_replay::charts::{self, Area};
use pagewise_replay::units::bytes;
use plotters::prelude::*;

use super::compared::Compared;
use super::table::mean_of_each;
use super::verdict::reference;
use crate::competitor::GLOBAL;
use crate::pareto;

/// Size of one chart, in pixels.
const SIZE: (u32, u32) = (620, 460);
/// Font of everything but captions, and its size in pixels; how wide and high its letters are.
const LABEL: (&str, u32) = ("sans-serif", 14);
const LETTER: (i32, i32) = (8, 13);
/// A strategy, and an allocator of others.
const OURS: RGBColor = RGBColor(0, 103, 168);
const RIVAL: RGBColor = RGBColor(20, 20, 20);

/// A strategy's place.
#[derive(Clone, Debug)]
struct Place {
    name: &'static str,
    time: f64,
    resident: f64,
}

/// A chart: what stands above it and at its axes, how values at the upward axis are written.
struct Cloud {
    caption: String,
    across: String,
    up: String,
    write: fn(f64) -> String,
    places: Vec<Place>,
}

/// Writes the file.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(path: &Path, all: &[&Compared]) -> anyhow::Result<()> {
    charts::write(path, charts::draw(&clouds(all), SIZE, chart))
}

/// What is to be drawn.
fn clouds(all: &[&Compared]) -> Vec<Cloud> {
    let place = |(name, time, resident): (_, Option<f64>, Option<f64>)| {
        Some(Place { name, time: time?, resident: resident? })
    };
    let of_trace = |compared: &&Compared| Cloud {
        caption: compared.trace.clone(),
        across: "time (ns per pair of allocation and free)".into(),
        up: "most bytes resident".into(),
        write: |resident| bytes(resident as u64).replace(".0 ", " "),
        places: compared
            .rows
            .iter()
            .map(|row| {
                let resident = row.peak_resident_bytes.map(|bytes| bytes as f64);
                (row.strategy, row.ns_per_pair, resident)
            })
            .filter_map(place)
            .collect(),
    };
    let means = reference(all).filter(|_| all.len() > 1).map(|reference| Cloud {
        caption: format!("geometric means over {} traces", all.len()),
        across: format!("time ({reference} = 1)"),
        up: format!("most bytes resident ({reference} = 1)"),
        write: |ratio| format!("{ratio:.1}"),
        places: mean_of_each(all)
            .into_iter()
            .map(|mean| (mean.name, mean.time, mean.resident))
            .filter_map(place)
            .collect(),
    });
    means.into_iter().chain(all.iter().map(of_trace)).collect()
}

fn chart(area: &Area<'_>, cloud: &Cloud) -> anyhow::Result<()> {
    let places = &cloud.places;
    let most =
        |value: fn(&Place) -> f64| places.iter().map(value).fold(f64::MIN_POSITIVE, f64::max);
    // From 0, so that lengths may be compared; with room for a name.
    let (right, top) = (most(|place| place.time) * 1.12, most(|place| place.resident) * 1.08);
    let mut chart = ChartBuilder::on(area)
        .caption(&cloud.caption, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc(&cloud.across)
        .y_desc(&cloud.up)
        .y_label_formatter(&|&value| (cloud.write)(value))
        .label_style(LABEL)
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.1))
        .draw()?;
    chart.draw_series(LineSeries::new(stairs(places), BLACK.mix(0.35)))?;
    let mut names = Names::new(chart.plotting_area().get_pixel_range());
    let pixel = |place: &Place| chart.backend_coord(&(place.time, place.resident));
    places.iter().for_each(|place| names.occupy(pixel(place)));
    let name_places: Vec<_> =
        places.iter().map(|place| names.find(pixel(place), place.name)).collect();
    let ours = |place: &Place| place.name == GLOBAL || catalogue::find(place.name).is_some();
    let colour = |place: &Place| if ours(place) { OURS } else { RIVAL };
    chart.draw_series(
        places
            .iter()
            .map(|place| Circle::new((place.time, place.resident), 5, colour(place).filled())),
    )?;
    for (place, (x, y)) in places.iter().zip(name_places).filter_map(|(p, at)| Some((p, at?))) {
        let style = LABEL.into_font().color(&colour(place));
        // Names are placed in pixels of the whole picture; an area draws in its own.
        let (left, upper) = area.get_base_pixel();
        area.draw_text(place.name, &style, (x - left, y - upper))?;
    }
    Ok(())
}

/// The border of what is reached: from point to point of the front, along the axes.
fn stairs(places: &[Place]) -> Vec<(f64, f64)> {
    let costs: Vec<_> = places.iter().map(|place| [place.time, place.resident]).collect();
    let mut front: Vec<_> = pareto::front(&costs).into_iter().map(|index| costs[index]).collect();
    front.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let corners = front.windows(2).map(|pair| (pair[1][0], pair[0][1]));
    let mut line: Vec<_> = front.iter().map(|cost| (cost[0], cost[1])).chain(corners).collect();
    line.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    line
}

/// Where names can stand without covering one another.
struct Names {
    /// Left, upper, right, lower edge of what is taken, in pixels.
    taken: Vec<[i32; 4]>,
    inside: [i32; 4],
}

impl Names {
    fn new((across, down): (std::ops::Range<i32>, std::ops::Range<i32>)) -> Self {
        Self { taken: Vec::new(), inside: [across.start, down.start, across.end + 10, down.end] }
    }

    /// A point stands here.
    fn occupy(&mut self, (x, y): (i32, i32)) {
        self.taken.push([x - 5, y - 5, x + 5, y + 5]);
    }

    /// A place for the name of the point: beside it, above or below; none if all are taken.
    fn find(&mut self, (x, y): (i32, i32), name: &str) -> Option<(i32, i32)> {
        let (width, height) = (name.len() as i32 * LETTER.0, LETTER.1);
        let (left, middle) = (x - 9 - width, x - width / 2);
        let places = [
            (x + 9, y - 7),
            (left, y - 7),
            (middle, y - 21),
            (middle, y + 8),
            (x + 7, y - 19),
            (x + 7, y + 6),
            (left, y - 19),
            (left, y + 6),
        ];
        let found =
            places.map(|(x, y)| [x, y, x + width, y + height]).into_iter().find(|name| {
                let apart = |other: &[i32; 4]| {
                    name[0] > other[2]
                        || name[2] < other[0]
                        || name[1] > other[3]
                        || name[3] < other[1]
                };
                let inside = name[0] >= self.inside[0]
                    && name[1] >= self.inside[1]
                    && name[2] <= self.inside[2]
                    && name[3] <= self.inside[3];
                inside && self.taken.iter().all(apart)
            })?;
        self.taken.push(found);
        Some((found[0], found[1]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &'static str, time: f64, resident: f64) -> Place {
        Place { name, time, resident }
    }

    #[test]
    fn the_border_runs_along_the_axes() {
        let places = [place("A", 3.0, 1.0), place("B", 1.0, 4.0), place("C", 4.0, 4.0)];
        assert_eq!(stairs(&places), [(1.0, 4.0), (3.0, 4.0), (3.0, 1.0)]);
    }

    #[test]
    fn names_do_not_cover_one_another() {
        let mut names = Names::new((0..400, 0..400));
        let points = [(100, 100), (103, 102), (106, 104)];
        points.iter().for_each(|&point| names.occupy(point));
        let found = points.map(|point| names.find(point, "MOST-FREE"));
        let distinct: std::collections::HashSet<_> = found.iter().flatten().collect();
        assert_eq!(distinct.len(), found.iter().flatten().count());
        assert!(found[0].is_some());
    }

    #[test]
    fn every_strategy_is_drawn_also_when_there_is_none() {
        let cloud = |places| Cloud {
            caption: "t".into(),
            across: "x".into(),
            up: "y".into(),
            write: |value| format!("{value:.0}"),
            places,
        };
        let clouds = [cloud(vec![place("MRU", 1.0, 2.0)]), cloud(Vec::new())];
        let svg = charts::draw(&clouds, SIZE, chart).expect("drawn");
        assert!(svg.contains("MRU") && svg.trim_end().ends_with("</svg>"));
        assert_eq!(svg.matches("<circle").count(), 1);
    }
}
