//! A trace in equal parts of its operations: the live bytes of some sites, and the clock.

use std::collections::HashMap;
use std::path::Path;

use pagewise::trace::{Event, Times};
use pagewise_replay::input;

use super::watch::PARTS;

/// The values of each part.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// Seconds since the recording began: at the beginning, and at the end of each part. Empty if
    /// the trace has no times.
    pub(super) clock: Vec<f64>,
    /// Live bytes of each series, at each part's peak.
    pub(super) live: Vec<Vec<u64>>,
}

/// Follows a trace of `operations` operations. A site that is not in `series` counts for the last
/// series.
///
/// # Errors
/// If the trace cannot be read.
pub(super) fn follow(
    path: &Path,
    operations: u64,
    times: Option<&Times>,
    series: &HashMap<u32, usize>,
) -> anyhow::Result<Course> {
    let parts = operations.clamp(1, PARTS);
    let rest = series.values().map(|series| series + 1).max().unwrap_or(0);
    let seconds = |events: u64| {
        // To the microsecond, as it was recorded.
        let nanoseconds = times.and_then(|times| times.at(events))?;
        Some((nanoseconds / 1000) as f64 / 1e6)
    };
    let mut clock: Vec<f64> = seconds(0).into_iter().collect();
    let mut live = vec![vec![0_u64; parts as usize]; rest + 1];
    let mut most = vec![0; parts as usize];
    let mut now = vec![0_u64; rest + 1];
    let mut blocks: Vec<(usize, u64)> = Vec::new();
    let (mut total, mut events, mut done) = (0_u64, 0_u64, 0_u64);
    let mut trace = input::open(path)?.with_progress();
    while let Some(event) = trace.next() {
        events += 1;
        let (slot, new) = match event? {
            Event::Thread { .. } | Event::Tick { .. } => continue,
            Event::Allocate { slot, size, .. } | Event::Reallocate { slot, size } => {
                (slot as usize, (series.get(&trace.site()).copied().unwrap_or(rest), size))
            }
            Event::Free { slot } => (slot as usize, (rest, 0)),
        };
        if slot >= blocks.len() {
            blocks.resize(slot + 1, (rest, 0));
        }
        let old = std::mem::replace(&mut blocks[slot], new);
        now[old.0] -= old.1;
        now[new.0] += new.1;
        total = total - old.1 + new.1;

        let part = u128::from(done) * u128::from(parts) / u128::from(operations.max(1));
        let part = (part as usize).min(parts as usize - 1);
        if total >= most[part] {
            most[part] = total;
            for (live, now) in live.iter_mut().zip(&now) {
                live[part] = *now;
            }
        }
        done += 1;
        let ended = u128::from(done) * u128::from(parts) / u128::from(operations.max(1));
        while (clock.len() as u128) <= ended
            && let Some(seconds) = seconds(events)
        {
            clock.push(seconds);
        }
    }
    Ok(Course { clock, live })
}
