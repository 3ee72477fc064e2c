//! Watches the logs while the command runs: shows how they grow, and has them stop at a limit.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use pagewise::trace::raw;
use pagewise_replay::units;

use super::logs;

/// Between two looks.
const TICK: Duration = Duration::from_millis(200);
/// A command that ends sooner is not disturbed by figures.
const LONG: Duration = Duration::from_secs(1);

/// When the logs are to stop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    /// Bytes of all logs together.
    pub(super) most: Option<u64>,
    pub(super) duration: Option<Duration>,
}

impl Watch {
    /// Watches the logs in the directory until the command is over: until the other end of the
    /// channel is gone.
    pub(super) fn logs(&self, directory: &Path, over: Receiver<()>) {
        let began = Instant::now();
        let shown = std::io::stderr().is_terminal();
        let mut bar = None;
        loop {
            let left = self.duration.map_or(TICK, |most| most.saturating_sub(began.elapsed()));
            let wait = if left.is_zero() { TICK } else { left.min(TICK) };
            if over.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                break;
            }
            let logs = logs::files(directory, raw::EXTENSION).unwrap_or_default();
            let late = self.duration.is_some_and(|most| began.elapsed() >= most);
            if self.most.is_none() && !late && !shown {
                continue;
            }
            let written = logs.iter().filter_map(|path| raw::written(path).ok()).sum();
            if late || self.most.is_some_and(|most| written >= most) {
                // Again at each look: a process may have begun another log.
                stop(&logs);
            }
            if shown && began.elapsed() >= LONG {
                figure(bar.get_or_insert_with(new_bar), written, logs.len(), began.elapsed());
            }
        }
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
    }
}

/// Has all of these logs stop. One that cannot be told so has ended, or goes on to its own limit.
fn stop(logs: &[PathBuf]) {
    for path in logs {
        let _ = raw::stop(path);
    }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar
}

/// Says how much was recorded.
fn figure(bar: &ProgressBar, written: u64, logs: usize, elapsed: Duration) {
    bar.set_message(format!(
        "recording: {} s, {} in {}, about {}",
        elapsed.as_secs(),
        units::bytes(written),
        units::count(logs as u64, "process image"),
        // Nearly all records take one word.
        units::count(written / 8, "event"),
    ));
}
