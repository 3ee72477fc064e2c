//! Resident memory over time, as a table and a picture.

use std::fmt::{self, Display, Formatter, Write};
use std::fs;
use std::time::Duration;

/// Samples: seconds and resident bytes, in time order.
pub(crate) struct Curve(Vec<(f64, f64)>);

/// Rows of the table.
const PARTS: usize = 20;

/// Pixels of the picture, and the margins of its axes.
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 320.0;
const MARGIN: f64 = 60.0;

impl Curve {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Records the current resident memory.
    pub(crate) fn sample(&mut self, time: Duration) {
        let statm = fs::read_to_string("/proc/self/statm").expect("there is a /proc");
        let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
        // SAFETY: a plain query.
        let page_size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        self.0.push((time.as_secs_f64(), pages.expect("a number") * page_size as f64));
    }

    /// Returns the least, median and greatest MiB in a part of the run; `None` without samples.
    fn part(&self, from: f64, to: f64) -> Option<[f64; 3]> {
        let &(end, _) = self.0.last()?;
        let within = self.0.iter().filter(|(time, _)| (from * end..=to * end).contains(time));
        let mut sizes: Vec<f64> = within.map(|(_, bytes)| bytes / f64::from(1 << 20)).collect();
        sizes.sort_by(f64::total_cmp);
        Some([*sizes.first()?, sizes[sizes.len() / 2], *sizes.last()?])
    }

    /// Returns whether the median of the last tenth exceeds that of the second by more than a tenth
    /// and 8 MiB.
    pub(crate) fn rises(&self) -> bool {
        match (self.part(0.1, 0.2), self.part(0.9, 1.0)) {
            (Some([_, before, _]), Some([_, after, _])) => after > before * 1.1 + 8.0,
            _ => false,
        }
    }

    /// Returns the curve as SVG.
    pub(crate) fn picture(&self) -> String {
        let end = self.0.last().map_or(1.0, |sample| sample.0).max(1.0);
        let most = self.0.iter().map(|sample| sample.1 / f64::from(1 << 20)).fold(1.0, f64::max);
        let top = (most / 50.0).ceil() * 50.0;
        let x = |seconds: f64| MARGIN + seconds / end * (WIDTH - 2.0 * MARGIN);
        let y = |mebibytes: f64| HEIGHT - MARGIN - mebibytes / top * (HEIGHT - 2.0 * MARGIN);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{MARGIN}\" y=\"30\">resident memory, MiB, over minutes</text>\n"
        );
        for line in 0..=4 {
            let (share, left, right) = (f64::from(line) / 4.0, MARGIN, WIDTH - MARGIN);
            let (height, value) = (y(top * share), top * share);
            let (place, minutes) = (x(end * share), end * share / 60.0);
            let _ = writeln!(
                svg,
                "<path d=\"M{left} {height:.1}H{right}\" stroke=\"#ddd\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value:.0}</text>\
                 <text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{minutes:.0}</text>",
                left - 8.0,
                height + 4.0,
                HEIGHT - MARGIN + 20.0,
            );
        }
        let points: Vec<String> = self
            .0
            .iter()
            .map(|&(seconds, bytes)| {
                format!("{:.1},{:.1}", x(seconds), y(bytes / f64::from(1 << 20)))
            })
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"#06c\" stroke-width=\"1\"/>\n</svg>",
            points.join(" ")
        );
        svg
    }
}

/// Prints a table of the parts of the run.
impl Display for Curve {
    fn fmt(&self, out: &mut Formatter) -> fmt::Result {
        writeln!(out, "| until minute | least MiB | median | most |\n|---:|---:|---:|---:|")?;
        let end = self.0.last().map_or(0.0, |sample| sample.0);
        for part in 0..PARTS {
            let (from, to) = (part as f64 / PARTS as f64, (part + 1) as f64 / PARTS as f64);
            if let Some([least, median, most]) = self.part(from, to) {
                let minute = end * to / 60.0;
                writeln!(out, "| {minute:.1} | {least:.1} | {median:.1} | {most:.1} |")?;
            }
        }
        Ok(())
    }
}
