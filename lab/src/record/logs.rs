//! The raw logs a session left: what is in them, and their conversion to traces.

use std::fs;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use pagewise::trace::raw::{self, Converter, Dropped, LogOrigin};
use pagewise::trace::{Counts, Event, Header, Ledger, Origin, Writer};
use rayon::prelude::*;

use super::session::interrupted;
use crate::progress::Progress;
use crate::{output, units};

/// The raw log of one process image, and what is in it.
pub(crate) struct Log {
    path: PathBuf,
    origin: LogOrigin,
    counts: Counts,
    holes: u64,
    dropped: Dropped,
}

/// How much of a recording to keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Events.
    pub(crate) events: Option<u64>,
    /// Bytes of the file.
    pub(crate) bytes: Option<u64>,
}

/// Records between two looks at the progress and for an interruption.
const STRIDE: u64 = 1 << 16;
/// Bytes of a record, to count progress by.
const RECORD: u64 = 24;

/// Reads every log in `directory` once; gives those with any events, in the order they began. One
/// whose head is not there is of a process that was killed while it began its log.
pub(super) fn survey(directory: &Path) -> anyhow::Result<Vec<Log>> {
    let is_log = |path: &PathBuf| path.extension().is_some_and(|name| name == raw::EXTENSION);
    let paths: Vec<PathBuf> = fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .context("the recording is gone")?;
    let begun = |path: &PathBuf| raw::open(path).is_ok();
    let paths: Vec<PathBuf> =
        paths.into_iter().filter(|path| is_log(path) && begun(path)).collect();
    let size = |path: &PathBuf| fs::metadata(path).map_or(0, |about| about.len());
    let progress = Progress::new(paths.iter().map(size).sum());
    let surveyed = paths.into_par_iter().map(|path| Log::survey(path, &progress));
    let mut logs: Vec<Log> = surveyed.collect::<anyhow::Result<_>>()?;
    progress.finish();
    logs.retain(|log| log.events() > 0);
    logs.sort_by_key(|log| (log.origin.started, log.origin.process));
    Ok(logs)
}

impl Log {
    /// Reads a log once.
    pub(crate) fn survey(path: PathBuf, progress: &Progress) -> anyhow::Result<Self> {
        let origin = raw::open(&path)?.origin().clone();
        let mut log =
            Self { path, origin, counts: Counts::default(), holes: 0, dropped: Dropped::default() };
        let mut ledger = Ledger::new();
        let (holes, dropped) = log.convert(progress, |event| {
            ledger.enter(event).with_context(|| log.path.display().to_string())?;
            Ok(true)
        })?;
        (log.counts, log.holes, log.dropped) = (ledger.counts(), holes, dropped);
        Ok(log)
    }

    /// Passes the log's events to `each` until it says no; gives how many records have holes, and
    /// what was dropped.
    fn convert(
        &self,
        progress: &Progress,
        mut each: impl FnMut(Event) -> anyhow::Result<bool>,
    ) -> anyhow::Result<(u64, Dropped)> {
        let mut records = raw::open(&self.path)?;
        let mut converter = Converter::new();
        let (mut count, mut going) = (0_u64, true);
        while let Some(record) = records.next().filter(|_| going) {
            let (thread, record) = record?;
            converter.convert(thread, record, |event| {
                going = going && each(event)?;
                anyhow::Ok(())
            })?;
            count += 1;
            if count.is_multiple_of(STRIDE) {
                progress.step(STRIDE * RECORD, || format!("converting {}", self.program()));
                anyhow::ensure!(!interrupted(), "interrupted");
            }
        }
        Ok((records.holes(), converter.dropped()))
    }

    /// The program that ran.
    pub(super) fn program(&self) -> &str {
        &self.origin.origin.program
    }

    /// Events in the log.
    pub(crate) fn events(&self) -> u64 {
        self.counts.events
    }

    /// Writes the trace `path`.
    pub(crate) fn write(&self, path: &Path, note: &str, limits: Limits) -> anyhow::Result<Header> {
        let origin = Origin { note: note.to_owned(), ..self.origin.origin.clone() };
        let progress = Progress::new(self.counts.events * RECORD);
        let written = output::create(path, |out| {
            let mut keep = limits.events.unwrap_or(u64::MAX);
            loop {
                out.rewind()?;
                let (header, length) = self.write_prefix(out, &origin, keep, limits, &progress)?;
                match limits.bytes {
                    Some(most) if length > most && header.events > 1 => {
                        // Compression varies little along a trace: a pass or two more will do.
                        let share = most as f64 / length as f64 * 0.99;
                        keep = ((header.events as f64 * share) as u64).max(1);
                    }
                    _ => {
                        out.flush()?;
                        out.get_ref().set_len(length)?;
                        return Ok(header);
                    }
                }
            }
        });
        progress.finish();
        written
    }

    /// Writes the first `keep` events, or fewer if they exceed the limit of bytes; gives the
    /// length of the file, too.
    fn write_prefix<W: Write + Seek>(
        &self,
        out: &mut W,
        origin: &Origin,
        keep: u64,
        limits: Limits,
        progress: &Progress,
    ) -> anyhow::Result<(Header, u64)> {
        let mut writer = Writer::new(&mut *out, origin.clone())?;
        self.convert(progress, |event| {
            let full = limits.bytes.is_some_and(|most| writer.bytes_written() > most);
            if full || writer.events() >= keep {
                return Ok(false);
            }
            writer.write(event)?;
            Ok(true)
        })?;
        let header = writer.finish_prefix_of(self.counts.events)?;
        let length = out.stream_position()?;
        Ok((header, length))
    }

    /// What was written, in a sentence or two.
    pub(crate) fn told(&self, header: &Header, path: &Path) -> String {
        let mut text = format!(
            "{} (process {}): {} to {}, at most {} and {} live",
            self.program(),
            self.origin.process,
            units::count(header.events, "event"),
            path.display(),
            units::count(header.peak_blocks, "block"),
            units::bytes(header.peak_bytes),
        );
        if header.is_prefix() {
            text += &format!("; the first of {}", units::thousands(header.recorded_events));
        }
        if self.holes > 0 {
            text +=
                &format!("; {} cut short by the program's end", units::count(self.holes, "record"));
        }
        if !self.dropped.is_nothing() {
            text += &format!("; {}", self.dropped);
        }
        if self.origin.stopped {
            text += "; the log could not grow, the rest of the run is missing";
        }
        text
    }
}

/// The processes recorded, one row each, the largest first if they are too many to show.
pub(super) fn table(logs: &[Log]) -> String {
    const MOST: usize = 20;
    let mut shown: Vec<&Log> = logs.iter().collect();
    shown.sort_by_key(|log| std::cmp::Reverse(log.events()));
    shown.truncate(MOST);
    let least = shown.last().map_or(0, |log| log.events());
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "process",
        "program",
        "events",
        "live bytes at most",
    ]);
    for log in logs.iter().filter(|log| log.events() >= least).take(MOST) {
        table.add_row([
            log.origin.process.to_string(),
            log.program().to_owned(),
            units::thousands(log.events()),
            units::bytes(log.counts.peak_bytes),
        ]);
    }
    for column in [0, 2, 3] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let rest = logs.len() - shown.len();
    if rest > 0 { format!("{table}\nand {rest} smaller ones") } else { table.to_string() }
}
