//! Charts, side by side and below one another, as an SVG.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::output;

/// Charts side by side, at most.
const ABREAST: usize = 3;

/// Where a chart is drawn.
pub type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;

/// A chart of each of these, all of a size in pixels.
///
/// # Errors
/// What `chart` fails with.
pub fn draw<T>(
    all: &[T],
    (width, height): (u32, u32),
    chart: impl Fn(&Area<'_>, &T) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let columns = all.len().clamp(1, ABREAST);
    let lines = all.len().div_ceil(columns).max(1);
    let mut svg = String::new();
    {
        let size = (width * columns as u32, height * lines as u32);
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        for (area, one) in root.split_evenly((lines, columns)).iter().zip(all) {
            chart(area, one)?;
        }
        root.present()?;
    }
    Ok(svg)
}

/// Writes charts to a file.
///
/// # Errors
/// If it could not be drawn, or cannot be written.
pub fn write(path: &Path, drawn: anyhow::Result<String>) -> anyhow::Result<()> {
    let svg = drawn.with_context(|| format!("{} cannot be drawn", path.display()))?;
    output::create(path, |out| Ok(out.write_all(svg.as_bytes())?))
}
