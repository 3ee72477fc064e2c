//! The contents of a trace: [`Info`].

use std::path::Path;

use pagewise::trace::{Header, Times};
use pagewise_replay::input;
use pagewise_replay::statistics::{self, Statistics};
use pagewise_replay::units::thousands;
use serde::Serialize;

/// A trace and its contents.
#[derive(Debug, Serialize)]
pub(crate) struct Info {
    /// The file's name without its extension.
    pub(crate) trace: String,
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
    /// When it was recorded, RFC 3339; null if unknown.
    pub(crate) date: Option<String>,
    /// Seconds from the first event to the last clock sample; null if the trace has no times.
    pub(crate) seconds: Option<f64>,
    pub(crate) note: String,
    pub(crate) pointer_width: u8,
    pub(crate) threads: u32,
    pub(crate) events: u64,
    /// Events of the whole recording; this trace contains the first of them.
    pub(crate) recorded_events: u64,
    #[serde(flatten)]
    pub(crate) statistics: Statistics,
    /// Whether there are call stacks.
    pub(crate) stacks: bool,
    #[serde(skip)]
    pub(crate) times: Option<Times>,
}

impl Info {
    /// Describes which part of the recording the trace contains, unless it is the whole.
    pub(crate) fn part(&self) -> Option<String> {
        match self.recorded_events {
            Header::UNKNOWN => Some("the first of an unknown number: the recording was cut".into()),
            all if all > self.events => Some(format!("the first of {} recorded", thousands(all))),
            _ => None,
        }
    }

    /// Reads a whole trace.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn of(path: &Path) -> anyhow::Result<Self> {
        let (header, statistics, times) = statistics::of(path)?;
        let last = times.as_ref().and_then(|times| times.samples().last());
        let Header { origin, events, recorded_events, threads, stacks, .. } = header;
        Ok(Self {
            trace: input::trace_name(path),
            program: origin.program,
            arguments: origin.arguments,
            date: date(origin.date),
            seconds: last.map(|last| last.nanoseconds as f64 / 1e9),
            note: origin.note,
            pointer_width: origin.pointer_width,
            threads,
            events,
            recorded_events,
            statistics,
            stacks,
            times,
        })
    }
}

/// Formats seconds since 1970 as a date, if known and plausible.
fn date(seconds: u64) -> Option<String> {
    // Dates after the year 9999 cannot be formatted.
    (1..253_402_300_800).contains(&seconds).then(|| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        humantime::format_rfc3339_seconds(time).to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_if_known() {
        assert_eq!(date(0), None);
        assert_eq!(date(86_400).as_deref(), Some("1970-01-02T00:00:00Z"));
        assert_eq!(date(u64::MAX), None);
    }
}
