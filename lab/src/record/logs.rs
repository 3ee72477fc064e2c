//! The raw logs of a session: reads them and converts them to traces.

use std::fs;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use pagewise::trace::raw::{self, Converter, Dropped, LogOrigin, LogReader, Stopped};
use pagewise::trace::{Counts, Event, Header, Ledger, Origin, ReadError, Stacks, WriteError};
use pagewise_replay::printable::printable;
use pagewise_replay::progress::Progress;
use pagewise_replay::sheet::Sheet;
use pagewise_replay::{input, output, units};
use rayon::prelude::*;

use super::draft::{Draft, Timed};
use super::symbols;
use crate::system::signals::interrupted;

/// The raw log of one process image, and its contents.
pub(crate) struct Log {
    path: PathBuf,
    origin: LogOrigin,
    counts: Counts,
    holes: u64,
    /// Whether too much of it was never written to be read to its end.
    is_cut: bool,
    dropped: Dropped,
    /// Whether it has call stacks.
    stacks: bool,
    draft: Option<Draft>,
}

/// The results of a conversion, besides the events.
struct Converted {
    /// Truncated records.
    holes: u64,
    is_cut: bool,
    dropped: Dropped,
    stacks: Option<Stacks>,
}

/// How much of a recording to keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Number of events.
    pub(crate) events: Option<u64>,
    /// Bytes of the file.
    pub(crate) bytes: Option<u64>,
}

/// Records between updates of the progress and checks for interruption.
const STRIDE: u64 = 1 << 16;
/// Bytes of a typical record, to measure progress.
const RECORD: u64 = 8;
/// Bytes of the longest log for an event: at most two records of up to three words each, and a byte
/// for clock samples, a word in 256.
const LONGEST_EVENT: u64 = 2 * 3 * 8 + 1;
/// Bytes of a log before its first record.
const HEAD: u64 = 1 << 16;

/// A log of fewer bytes may have no event.
pub(super) const SHORTEST: usize = (HEAD + LONGEST_EVENT) as usize;

impl Limits {
    /// Returns whether everything is kept.
    fn are_none(self) -> bool {
        self.events.is_none() && self.bytes.is_none()
    }

    /// Returns a log size in bytes that certainly suffices for the number of events to keep, if
    /// that is limited.
    pub(super) fn log(self) -> Option<u64> {
        self.events.map(|events| events.saturating_mul(LONGEST_EVENT).saturating_add(HEAD))
    }
}

/// Returns the files in a directory with this extension.
pub(super) fn files(directory: &Path, extension: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|name| name == extension));
    Ok(paths)
}

/// Returns the reasons why logs could not be created, each once.
pub(super) fn failures(directory: &Path) -> Vec<String> {
    let number = |path: &PathBuf| path.file_stem()?.to_str()?.rsplit('.').next()?.parse().ok();
    let failed = files(directory, raw::FAILED).unwrap_or_default();
    let mut reasons: Vec<String> = failed
        .iter()
        .filter_map(number)
        .map(|error| std::io::Error::from_raw_os_error(error).to_string())
        .collect();
    reasons.sort_unstable();
    reasons.dedup();
    reasons
}

/// Reads every log in `directory` once. Returns those with events, in the order in which they
/// began. A log without a head belongs to a process that was killed while it created the log. If
/// the whole trace is to be kept, the longest log is drafted at once, since it is the likely
/// choice.
pub(super) fn survey(directory: &Path, note: &str, limits: Limits) -> anyhow::Result<Vec<Log>> {
    let mut paths =
        files(directory, raw::EXTENSION).context("the folder of the recording is missing")?;
    paths.retain(|path| raw::open(path).is_ok());
    let size = |path: &PathBuf| fs::metadata(path).map_or(0, |about| about.len());
    let progress = Progress::new(paths.iter().map(size).sum());
    let written = |path: &PathBuf| raw::written(path).unwrap_or(0);
    let longest = paths.iter().max_by_key(|path| written(path)).cloned();
    let longest = longest.filter(|_| limits.are_none());
    let surveyed = paths.into_par_iter().map(|path| {
        let note = longest.as_ref().filter(|longest| **longest == path).map(|_| note);
        Log::survey(path, &progress, note)
    });
    let mut logs: Vec<Log> = surveyed.collect::<anyhow::Result<_>>()?;
    progress.finish();
    logs.retain(|log| log.events() > 0);
    logs.sort_by_key(|log| (log.origin.started, log.origin.process));
    Ok(logs)
}

impl Log {
    /// Reads a log once, and drafts its trace if a note for it is given.
    pub(crate) fn survey(
        path: PathBuf,
        progress: &Progress,
        note: Option<&str>,
    ) -> anyhow::Result<Self> {
        let reader = open(&path)?;
        let mut log = Self {
            path,
            origin: reader.origin().clone(),
            counts: Counts::default(),
            holes: 0,
            is_cut: false,
            dropped: Dropped::default(),
            stacks: reader.stacks().is_some(),
            draft: None,
        };
        // Without space for a draft, the log is read again if it is chosen.
        if let Some(note) = note
            && let Ok(draft) = Draft::begin(log.noted(note), log.stacks)
            && log.fill(draft, progress)?
        {
            return Ok(log);
        }
        let mut ledger = Ledger::new();
        let converted = log.convert(progress, |event, _, _| {
            ledger.enter(event).with_context(|| log.path.display().to_string())?;
            Ok(true)
        })?;
        log.counts = ledger.counts();
        log.note_losses(&converted);
        Ok(log)
    }

    /// Surveys the log and fills the draft; false if there is no space for it.
    fn fill(&mut self, mut draft: Draft, progress: &Progress) -> anyhow::Result<bool> {
        let mut has_room = true;
        let converted = self.convert(progress, |event, site, time| {
            match draft.timed.write(event, site, time) {
                Ok(()) => {}
                Err(WriteError::Io(_)) => has_room = false,
                Err(error) => return Err(error).with_context(|| self.path.display().to_string()),
            }
            Ok(has_room)
        })?;
        if has_room {
            self.counts = draft.timed.writer.counts();
            self.note_losses(&converted);
            draft.stacks = converted.stacks.unwrap_or_default();
            self.draft = Some(draft);
        }
        Ok(has_room)
    }

    fn note_losses(&mut self, converted: &Converted) {
        self.holes = converted.holes;
        self.is_cut = converted.is_cut;
        self.dropped = converted.dropped;
    }

    /// Passes the log's events to `each`, with their sites and the nanoseconds since the log began,
    /// until it returns false.
    fn convert(
        &self,
        progress: &Progress,
        mut each: impl FnMut(Event, u32, Option<u64>) -> anyhow::Result<bool>,
    ) -> anyhow::Result<Converted> {
        let mut records = open(&self.path)?;
        let mut converter = Converter::new();
        let (mut count, mut going) = (0_u64, true);
        while let Some(record) = records.next().filter(|_| going) {
            let (thread, record) = record.map_err(|error| named(error, &self.path))?;
            let time = records.nanoseconds();
            converter.convert_at(thread, record, records.site(), |event, site| {
                going = going && each(event, site, time)?;
                anyhow::Ok(())
            })?;
            count += 1;
            if count.is_multiple_of(STRIDE) {
                progress.step(STRIDE * RECORD, || format!("converting {}", self.program()));
                anyhow::ensure!(!interrupted(), "interrupted");
                input::within_memory_of(&self.path, converter.remembered(), 0)?;
            }
        }
        Ok(Converted {
            holes: records.holes(),
            is_cut: records.is_cut(),
            dropped: converter.dropped(),
            stacks: records.stacks().cloned(),
        })
    }

    /// Returns the log's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the log lost events that it should have recorded.
    pub(super) fn failed(&self) -> bool {
        matches!(self.origin.stopped, Some(Stopped::Failed(_)))
    }

    /// Returns whether it ended at its own limit.
    pub(super) fn reached_its_limit(&self) -> bool {
        matches!(self.origin.stopped, Some(Stopped::Limit))
    }

    /// Returns the recorded program.
    pub(super) fn program(&self) -> &str {
        &self.origin.origin.program
    }

    /// Returns the number of events in the log.
    pub(crate) fn events(&self) -> u64 {
        self.counts.events
    }

    /// Returns the trace's origin, with a note.
    fn noted(&self, note: &str) -> Origin {
        // The note tells readers of the trace that something is missing.
        let note = match self.origin.stopped {
            Some(why) if note.is_empty() => format!("cut short: {why}"),
            Some(why) => format!("{note}; cut short: {why}"),
            None => note.to_owned(),
        };
        Origin { note, ..self.origin.origin.clone() }
    }

    /// Returns the number of events of the whole run.
    fn recorded(&self) -> u64 {
        if self.origin.stopped.is_some() || self.is_cut {
            return Header::UNKNOWN;
        }
        self.counts.events
    }

    /// Writes the trace `path`.
    pub(crate) fn write(
        &mut self,
        path: &Path,
        note: &str,
        limits: Limits,
    ) -> anyhow::Result<Header> {
        if let Some(draft) = self.draft.take() {
            let progress = Progress::new(0);
            let finished = draft.finish(self.recorded(), &progress);
            progress.finish();
            match finished {
                Ok((header, mut file)) => {
                    output::create(path, |out| Ok(std::io::copy(&mut file, out)?))?;
                    return Ok(header);
                }
                // There is no space for the last of it.
                Err(error) if output::ran_out(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let origin = self.noted(note);
        let progress = Progress::new(self.counts.events * RECORD);
        let written = output::create(path, |out| {
            let mut keep = limits.events.unwrap_or(u64::MAX);
            loop {
                out.rewind()?;
                let (header, length) = self.write_prefix(out, &origin, keep, limits, &progress)?;
                match limits.bytes {
                    Some(most) if length > most && header.events <= 1 => anyhow::bail!(
                        "a trace with its first event takes more than the {} of --max-bytes",
                        units::bytes(most)
                    ),
                    Some(most) if length > most => {
                        // Compression varies little along a trace, so one or two more passes
                        // suffice.
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

    /// Writes the first `keep` events, or fewer if they exceed the limit of bytes. Also returns the
    /// length of the file.
    fn write_prefix<W: Write + Seek>(
        &self,
        out: &mut W,
        origin: &Origin,
        keep: u64,
        limits: Limits,
        progress: &Progress,
    ) -> anyhow::Result<(Header, u64)> {
        let mut writer = Timed::new(&mut *out, origin.clone(), self.stacks)?;
        let converted = self.convert(progress, |event, site, time| {
            let full = limits.bytes.is_some_and(|most| writer.writer.bytes_written() > most);
            if full || writer.writer.events() >= keep {
                return Ok(false);
            }
            writer.write(event, site, time)?;
            Ok(true)
        })?;
        let mut stacks = converted.stacks.unwrap_or_default();
        symbols::find(&mut stacks, progress)?;
        let header = writer.writer.finish_with(self.recorded(), &stacks)?;
        let length = out.stream_position()?;
        Ok((header, length))
    }

    /// Describes the written trace in a sentence or two.
    pub(crate) fn description(&self, header: &Header, path: &Path) -> String {
        let mut text = format!(
            "{} (process {}): {} to {}, at most {} and {} live",
            printable(self.program()),
            self.origin.process,
            units::count(header.events, "event"),
            output::shown(path),
            units::count(header.peak_blocks, "block"),
            units::bytes(header.peak_bytes),
        );
        if header.is_prefix() && header.recorded_events != Header::UNKNOWN {
            text += &format!("; the first of {}", units::thousands(header.recorded_events));
        }
        if header.stacks {
            text += "; `pagewise who` shows which functions allocate";
        }
        if self.holes > 0 {
            let places = units::count(self.holes, "record");
            text += &format!("; {places} cut short where a thread or process ended");
        }
        if !self.dropped.is_nothing() {
            text += &format!("; {}", self.dropped);
        }
        if self.is_cut {
            text += "; more than 64 MiB of the log were never written: what follows is missing";
        }
        if let Some(why) = self.origin.stopped {
            text += &format!("; {why}: the rest of the run is missing");
        }
        text
    }
}

/// Opens a raw log; errors show its path for people.
fn open(path: &Path) -> anyhow::Result<LogReader<std::io::BufReader<fs::File>>> {
    Ok(raw::open(path).map_err(|error| named(error, path))?)
}

fn named(error: ReadError, path: &Path) -> ReadError {
    error.in_file(Path::new(&input::shown(path)))
}

/// Returns the recorded processes, one row each; if they are too many, the largest ones.
pub(super) fn table(logs: &[Log]) -> String {
    const MOST: usize = 20;
    let mut shown: Vec<&Log> = logs.iter().collect();
    shown.sort_by_key(|log| std::cmp::Reverse(log.events()));
    shown.truncate(MOST);
    let least = shown.last().map_or(0, |log| log.events());
    let heads = ["process", "program", "events", "live bytes at most"];
    let mut sheet = Sheet::new(heads).with_names_in(1);
    for log in logs.iter().filter(|log| log.events() >= least).take(MOST) {
        sheet.push([
            log.origin.process.to_string(),
            printable(log.program()).into_owned(),
            units::thousands(log.events()),
            units::bytes(log.counts.peak_bytes),
        ]);
    }
    let text = sheet.plain();
    let rest = logs.len() - shown.len();
    if rest > 0 { format!("{text}and {rest} smaller ones") } else { text.trim_end().to_owned() }
}
