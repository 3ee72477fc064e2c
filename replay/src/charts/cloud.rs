//! Named points, and the border of the region that they dominate.

use plotters::prelude::*;

use super::names::{Names, Rectangle};
use super::{Area, Axis, INK, LABEL, LETTER, frame, width, within};

/// A point.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its label.
    pub name: String,
    /// Its position.
    pub at: (f64, f64),
    /// Its colour.
    pub colour: RGBColor,
    /// Whether it is marked with a ring.
    pub is_ringed: bool,
}

/// A chart of points.
#[derive(Debug)]
pub struct Cloud {
    /// The caption.
    pub caption: String,
    /// The horizontal axis.
    pub across: Axis,
    /// The vertical axis.
    pub up: Axis,
    /// The points.
    pub places: Vec<Place>,
    /// Points of an axis-parallel line behind them.
    pub border: Vec<(f64, f64)>,
    /// The meaning of the colours, below the chart.
    pub key: Vec<(String, RGBColor)>,
}

impl Cloud {
    /// Draws the chart.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn draw(&self, area: &Area<'_>) -> anyhow::Result<()> {
        let mut chart = frame(area, &self.caption, (&self.across, &self.up), (24, 34))?;
        let place = |&(x, y): &(f64, f64)| (self.across.place(x), self.up.place(y));
        let border: Vec<_> = self.border.iter().map(place).collect();
        chart.draw_series(LineSeries::new(border.iter().copied(), INK.mix(0.3)))?;
        let (across, down) = chart.plotting_area().get_pixel_range();
        let mut names = Names::new(Rectangle {
            left: across.start + 2,
            upper: down.start,
            right: across.end + 20,
            lower: down.end - 2,
        });
        let pixel = |at: &(f64, f64)| chart.backend_coord(at);
        border.windows(2).for_each(|ends| names.occupy_line(pixel(&ends[0]), pixel(&ends[1])));
        let pixels: Vec<_> = self.places.iter().map(|one| pixel(&place(&one.at))).collect();
        pixels.iter().for_each(|&at| names.occupy(at));
        let (mut left, key) =
            (within(area, (across.start, 0)).0, area.dim_in_pixel().1 as i32 - 26);
        for (text, colour) in &self.key {
            area.draw(&Circle::new((left + 6, key + LETTER.1 / 2), 5, colour.filled()))?;
            area.draw_text(text, &LABEL.into_font().color(&INK), (left + 16, key))?;
            left += width(text) + 36;
        }
        for (one, &at) in self.places.iter().zip(&pixels) {
            let name = names.find(at, &one.name);
            // Draw a line to a name that is away from its point.
            let near = name.nearest(at);
            if (near.0 - at.0).abs().max((near.1 - at.1).abs()) > 12 {
                let leader = [at, near].map(|at| within(area, at));
                area.draw(&PathElement::new(leader, one.colour.mix(0.6).stroke_width(1)))?;
            }
            let (x, y) = within(area, (name.left, name.upper));
            area.draw_text(&one.name, &LABEL.into_font().color(&INK), (x, y))?;
        }
        for (one, &at) in self.places.iter().zip(&pixels) {
            let at = within(area, at);
            area.draw(&Circle::new(at, 5, one.colour.filled()))?;
            if one.is_ringed {
                area.draw(&Circle::new(at, 9, INK.stroke_width(1)))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PALETTE, draw};
    use super::*;

    #[test]
    fn every_point_is_drawn_and_named() {
        let cloud = |places: Vec<Place>| {
            let text = |value: f64| format!("{value:.0}");
            Cloud {
                caption: "t".into(),
                across: Axis::linear("x", places.iter().map(|one| one.at.0), 1.0, text),
                up: Axis::linear("y", places.iter().map(|one| one.at.1), 1.0, text),
                border: places.iter().map(|one| one.at).collect(),
                places,
                key: vec![("ours".into(), PALETTE[0])],
            }
        };
        let place = |name: &str, at| Place {
            name: name.into(),
            at,
            colour: PALETTE[0],
            is_ringed: name == "MRU",
        };
        let near: Vec<_> =
            (0..20).map(|n| place(&format!("P{n}"), (1.0, 2.0 + f64::from(n) / 1e3))).collect();
        let mut places = vec![place("MRU", (1.0, 2.0)), place("STACK", (3.0, 9.0))];
        places.extend(near);
        let clouds = [cloud(places), cloud(Vec::new())];
        let svg = draw(&clouds, (620, 460), |area, cloud| cloud.draw(area)).expect("drawn");
        assert!(
            ["MRU", "STACK", "P0", "P19"].iter().all(|name| svg.contains(&format!("\n{name}\n")))
        );
        // 22 points, a ring, and the keys of two charts.
        assert_eq!(svg.matches("<circle").count(), 25);
        assert!(svg.trim_end().ends_with("</svg>"));
    }
}
