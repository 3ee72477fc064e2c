//! Page-fault curves as an SVG: one chart for each trace and page size, both axes logarithmic.

use std::path::Path;

use pagewise_replay::charts::{self, Axis, Curves, Kind, Line};
use pagewise_replay::units::{bytes, thousands};

use super::row::{Row, Simulated};
use crate::competitor::SYSTEM;

/// Size of one chart, in pixels; higher if there are many curves.
const SIZE: (u32, u32) = (780, 480);

/// Writes the file.
///
/// # Errors
/// If it cannot be written.
pub(super) fn write(path: &Path, all: &[Simulated]) -> anyhow::Result<()> {
    let entries = all.iter().map(|one| one.rows.len()).max().unwrap_or(0);
    let size = (SIZE.0, SIZE.1.max(Curves::height(entries)));
    charts::write(path, charts::draw(all, size, |area, one| curves(one).draw(area)))
}

fn curves(simulated: &Simulated) -> Curves {
    let points = || simulated.rows.iter().flat_map(|row| &row.curve);
    let number = |value: f64| thousands(value.round() as u64);
    let across = points().map(|&(pages, _)| pages as f64);
    let up = points().map(|&(_, faults)| faults as f64);
    let line = |row: &Row| Line {
        name: row.short_name().to_owned(),
        points: row.curve.iter().map(|&(pages, faults)| (pages as f64, faults as f64)).collect(),
        kind: if row.strategy == SYSTEM { Kind::Reference } else { Kind::Usual },
    };
    Curves {
        caption: format!("{}, pages of {}", simulated.trace, bytes(simulated.page_size as u64)),
        across: Axis::logarithmic("working set (pages in memory)", across, number),
        up: Axis::logarithmic("page faults (LRU)", up, number),
        lines: simulated.rows.iter().map(line).collect(),
    }
}
