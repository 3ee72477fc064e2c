//! A line plot as SVG.

use pagewise_replay::charts::{self, Axis, Curves, Kind};

/// A line: its name, and its points from left to right.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    /// Drawn pale, in the colour of the previous line: the published figures beside ours.
    pub(super) pale: bool,
}

/// Draws the lines in one picture, each with its name beside it.
///
/// # Errors
/// If the picture cannot be drawn.
pub(super) fn svg(title: &str, across: &str, up: &str, lines: &[Line]) -> anyhow::Result<String> {
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let number = |value: f64| {
        let text = format!("{value:.4}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let line = |line: &Line| charts::Line {
        name: line.name.clone(),
        points: line.points.clone(),
        kind: if line.pale { Kind::Pale } else { Kind::Usual },
    };
    let curves = Curves {
        caption: title.to_owned(),
        across: Axis::linear(across, points().map(|point| point.0), 1.0, number),
        up: Axis::linear(up, points().map(|point| point.1), 1.0, number),
        lines: lines.iter().map(line).collect(),
    };
    let height = Curves::height(lines.len()).max(460);
    charts::draw(&[curves], (860, height), |area, curves| curves.draw(area))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_drawn_and_named() {
        let line = |name: &str, pale| Line {
            name: name.into(),
            points: vec![(0.0, 1.0), (0.5, 0.7), (1.0, 0.5)],
            pale,
        };
        let svg = svg("t", "x", "y", &[line("MRU", false), line("published", true)]).unwrap();
        assert!(svg.contains("MRU") && svg.contains("published"));
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    }
}
