//! A line plot as SVG.

use pagewise_replay::charts;
use plotters::prelude::*;

/// A line: its name, and its points from left to right.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    /// Drawn pale, in the colour of the line before it: the published figures beside ours.
    pub(super) pale: bool,
}

/// Colours that people with colour-blindness can tell apart (Okabe and Ito).
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167)];

/// The lines in one picture, both axes from 0, with a legend.
///
/// # Errors
/// If the picture cannot be drawn.
pub(super) fn svg(title: &str, across: &str, up: &str, lines: &[Line]) -> anyhow::Result<String> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let right = points().map(|point| point.0).fold(f64::MIN_POSITIVE, f64::max);
    let top = points().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max);
    charts::draw(&[()], (760, 460), |area, ()| {
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", 17))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..right, 0.0..top * 1.05)?;
        chart.configure_mesh().light_line_style(TRANSPARENT).x_desc(across).y_desc(up).draw()?;
        let mut colour = 0;
        for (index, line) in lines.iter().enumerate() {
            colour += usize::from(index > 0 && !line.pale);
            let shade = COLOURS[colour % COLOURS.len()].mix(if line.pale { 0.35 } else { 1.0 });
            let style = shade.stroke_width(2);
            chart
                .draw_series(LineSeries::new(line.points.iter().copied(), style))?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .draw()?;
        Ok(())
    })
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
