//! Curves, each with its name at its end.

use plotters::prelude::*;

use super::names::spread;
use super::{Area, Axis, INK, LABEL, LETTER, PALETTE, frame, width, within};

/// Pixels between the chart and the names, and length of the line sample before a name.
const BESIDE: i32 = 52;
const PIECE: i32 = 30;
/// Maximum number of lines whose ends are connected to their names.
const LED: usize = 12;
/// Lengths of a dash and of the gap after it, in pixels, for each round of colours.
const DASHES: [Option<(u32, u32)>; 4] = [None, Some((7, 5)), Some((2, 4)), Some((14, 4))];

/// The role of a line among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One of several: in its own colour; dashed after each round of colours.
    Usual,
    /// The reference for the others: black.
    Reference,
    /// Pale, in the colour of the previous line.
    Pale,
}

/// A line: its name, and its points from left to right.
#[derive(Clone, Debug)]
pub struct Line {
    /// The label at its end.
    pub name: String,
    /// Points.
    pub points: Vec<(f64, f64)>,
    /// Its role among the others.
    pub kind: Kind,
}

/// A chart of lines.
#[derive(Debug)]
pub struct Curves {
    /// The caption.
    pub caption: String,
    /// The horizontal axis.
    pub across: Axis,
    /// The vertical axis.
    pub up: Axis,
    /// The lines; those without points are left out.
    pub lines: Vec<Line>,
}

impl Curves {
    /// Returns the minimum height in pixels of a chart of `lines` lines, so that their names fit.
    #[must_use]
    pub fn height(lines: usize) -> u32 {
        110 + LETTER.1 as u32 * lines as u32
    }

    /// Draws the chart.
    ///
    /// # Errors
    /// If it cannot be drawn.
    pub fn draw(&self, area: &Area<'_>) -> anyhow::Result<()> {
        let lines: Vec<_> = self.lines.iter().filter(|line| !line.points.is_empty()).collect();
        let widest = lines.iter().map(|line| width(&line.name)).max().unwrap_or(0);
        let axes = (&self.across, &self.up);
        let mut chart = frame(area, &self.caption, axes, (12 + BESIDE + widest, 12))?;
        let place = |&(x, y): &(f64, f64)| (self.across.place(x), self.up.place(y));
        let looks = looks(&lines);
        for (line, look) in lines.iter().zip(&looks) {
            let points: Vec<_> = line.points.iter().map(place).collect();
            match look.dashes {
                Some((dash, gap)) => {
                    chart.draw_series(DashedLineSeries::new(points, dash, gap, look.style))?;
                }
                None => {
                    chart.draw_series(LineSeries::new(points, look.style))?;
                }
            }
        }
        let end = |line: &&&Line| line.points.last().map(|at| chart.backend_coord(&place(at)));
        let ends: Vec<_> = lines.iter().filter_map(|line| end(&line)).collect();
        let (across, down) = chart.plotting_area().get_pixel_range();
        let wanted: Vec<_> = ends.iter().map(|end| end.1).collect();
        let heights = spread(&wanted, LETTER.1, down.start..down.end);
        for (((line, look), &end), &height) in lines.iter().zip(&looks).zip(&ends).zip(&heights) {
            let name = (across.end + BESIDE, height);
            let piece = (name.0 - PIECE - 4, height);
            if lines.len() <= LED {
                let thin = look.style.color.mix(0.6).stroke_width(1);
                let leader = [end, (across.end + 4, end.1), piece].map(|at| within(area, at));
                area.draw(&PathElement::new(leader, thin))?;
            }
            look.piece(area, within(area, piece))?;
            let (x, y) = within(area, name);
            let ink = LABEL.into_font().color(&INK);
            area.draw_text(&line.name, &ink, (x, y - LETTER.1 / 2))?;
        }
        Ok(())
    }
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug)]
struct Look {
    style: ShapeStyle,
    dashes: Option<(u32, u32)>,
}

impl Look {
    /// Draws a line sample, from its left end.
    fn piece(&self, area: &Area<'_>, (left, y): (i32, i32)) -> anyhow::Result<()> {
        let (dash, gap) = self.dashes.map_or((PIECE, 0), |(dash, gap)| (dash as i32, gap as i32));
        for start in (0..PIECE).step_by((dash + gap) as usize) {
            let ends = [(left + start, y), (left + (start + dash).min(PIECE), y)];
            area.draw(&PathElement::new(ends, self.style))?;
        }
        Ok(())
    }
}

/// Returns the look of each line.
fn looks(lines: &[&Line]) -> Vec<Look> {
    let mut usual = 0;
    let mut last = (INK, None);
    let look = |line: &&Line| match line.kind {
        Kind::Reference => Look { style: BLACK.stroke_width(3), dashes: None },
        Kind::Pale => Look { style: last.0.mix(0.35).stroke_width(2), dashes: last.1 },
        Kind::Usual => {
            last = (PALETTE[usual % PALETTE.len()], DASHES[usual / PALETTE.len() % DASHES.len()]);
            usual += 1;
            Look { style: last.0.stroke_width(2), dashes: last.1 }
        }
    };
    lines.iter().map(look).collect()
}

#[cfg(test)]
mod tests {
    use super::super::draw;
    use super::*;

    #[test]
    fn every_line_is_drawn_and_named_beside_its_end() {
        let line = |name: &str, kind, points: &[(f64, f64)]| Line {
            name: name.into(),
            points: points.to_vec(),
            kind,
        };
        let points = [(1.0, 400.0), (50.0, 20.0)];
        let lines = vec![
            line("MRU", Kind::Usual, &points),
            line("published", Kind::Pale, &points),
            line("SYSTEM", Kind::Reference, &points),
            line("nothing", Kind::Usual, &[]),
        ];
        let all = || lines.iter().flat_map(|line| line.points.iter().copied());
        let text = |value: f64| format!("{value:.0}");
        let curves = Curves {
            caption: "faults".into(),
            across: Axis::logarithmic("pages", all().map(|at| at.0), text),
            up: Axis::logarithmic("faults", all().map(|at| at.1), text),
            lines: lines.clone(),
        };
        let svg = draw(&[curves], (600, 400), |area, curves| curves.draw(area)).expect("drawn");
        for name in ["MRU", "published", "SYSTEM", "faults"] {
            assert!(svg.contains(&format!("\n{name}\n")), "{name}: {svg}");
        }
        assert!(!svg.contains("nothing"));
    }

    #[test]
    fn more_lines_than_colours_are_distinguishable() {
        let line = Line { name: String::new(), points: vec![(0.0, 0.0)], kind: Kind::Usual };
        let looks = looks(&vec![&line; DASHES.len() * PALETTE.len()]);
        let distinct: std::collections::HashSet<_> =
            looks.iter().map(|look| (look.style.color.rgb(), look.dashes)).collect();
        assert_eq!(distinct.len(), looks.len());
    }
}
