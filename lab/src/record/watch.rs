//! Watches the logs while the command runs: shows their growth, and stops them at a limit.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use pagewise::trace::raw;
use pagewise_replay::units;

use super::logs::{self, Limits, Log};
use super::max_log::MaxLog;
use super::switch::Switch;

/// Interval between checks.
const TICK: Duration = Duration::from_millis(200);
/// A command shorter than this gets no progress display.
const LONG: Duration = Duration::from_secs(1);

/// When to stop the logs.
#[derive(Debug)]
pub(super) struct Watch {
    max_log: MaxLog,
    /// Recording time since it was turned on.
    pub(super) duration: Option<Duration>,
    /// Whether all logs together reached their limit.
    is_full: AtomicBool,
}

/// A running watch.
pub(super) struct Watching<'a> {
    limits: &'a Watch,
    directory: &'a Path,
    switch: Switch,
    began: Instant,
    /// When recording was turned on; `None` while it is off.
    on_since: Option<Instant>,
    bar: Option<ProgressBar>,
}

impl Watch {
    pub(super) fn new(max_log: MaxLog, duration: Option<Duration>) -> Self {
        Self { max_log, duration, is_full: AtomicBool::new(false) }
    }

    /// Says that the default limit stopped the recording, if it did: all of it, or one of the logs.
    pub(super) fn reached_default(&self, logs: &[Log], limits: Limits) -> Option<String> {
        // Otherwise the number of events limits a log.
        let is_own = limits.log().is_none_or(|bytes| bytes > self.max_log.bytes);
        let is_reached = self.is_full.load(Ordering::Relaxed)
            || is_own && logs.iter().any(Log::reached_its_limit);
        self.max_log.told().filter(|_| is_reached)
    }

    /// Watches the logs in the directory until the command has ended, which closes the channel.
    pub(super) fn logs(&self, directory: &Path, switch: Switch, over: Receiver<()>) {
        let mut watching = self.begin(directory, switch);
        while over.recv_timeout(watching.wait()) == Err(RecvTimeoutError::Timeout) {
            watching.check();
        }
    }

    pub(super) fn begin<'a>(&'a self, directory: &'a Path, switch: Switch) -> Watching<'a> {
        let began = Instant::now();
        let on_since = switch.is_on().then_some(began);
        Watching { limits: self, directory, switch, began, on_since, bar: None }
    }
}

impl Watching<'_> {
    /// Returns the time until the next check.
    pub(super) fn wait(&self) -> Duration {
        match (self.on_since, self.limits.duration) {
            (Some(since), Some(most)) => most.saturating_sub(since.elapsed()).min(TICK),
            _ => TICK,
        }
    }

    /// Carries out requests, enforces the limits, and shows progress.
    pub(super) fn check(&mut self) {
        self.switch.carry_out_requests();
        if self.switch.is_on() != self.on_since.is_some() {
            self.on_since = self.switch.is_on().then(Instant::now);
        }
        let passed = |most| self.on_since.is_some_and(|since| since.elapsed() >= most);
        let late = self.limits.duration.is_some_and(passed);
        if late {
            self.end();
        }
        let (shown, most) = (std::io::stderr().is_terminal(), self.limits.max_log.bytes);
        let logs = self.logs();
        // The files are longer than what is written. That takes many reads of each to find out.
        let lengths = logs.iter().filter_map(|path| Some(path.metadata().ok()?.len()));
        if !shown && lengths.sum::<u64>() < most {
            return;
        }
        let written = logs.iter().filter_map(|path| raw::written(path).ok()).sum();
        if written >= most && !self.is_over() {
            self.limits.is_full.store(true, Ordering::Relaxed);
            self.end();
        }
        let elapsed = self.began.elapsed();
        if shown && elapsed >= LONG {
            let state = if self.switch.is_on() { "recording" } else { "not recording" };
            let bar = self.bar.get_or_insert_with(new_bar);
            figure(bar, state, written, logs.len(), elapsed);
        }
    }

    /// Returns whether a limit was reached.
    pub(super) fn is_over(&self) -> bool {
        self.switch.is_over()
    }

    /// Returns whether all logs have stopped, as at their limit: then nothing more is recorded.
    pub(super) fn have_stopped(&self) -> bool {
        let logs = self.logs();
        let has_stopped = |log: &PathBuf| matches!(raw::stopped(log), Ok(Some(_)));
        !logs.is_empty() && logs.iter().all(has_stopped)
    }

    fn logs(&self) -> Vec<PathBuf> {
        logs::files(self.directory, raw::EXTENSION).unwrap_or_default()
    }

    /// Turns recording off for good.
    pub(super) fn end(&mut self) {
        self.switch.end();
        self.on_since = None;
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}

/// Shows how much was recorded.
fn figure(bar: &ProgressBar, state: &str, written: u64, logs: usize, elapsed: Duration) {
    bar.set_message(format!(
        "{state}: {} s, {} in {}, about {}",
        elapsed.as_secs(),
        units::bytes(written),
        units::count(logs as u64, "process image"),
        // Nearly all records take one word.
        units::count(written / 8, "event"),
    ));
}
