//! A progress bar on stderr, if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// Progress of a long run. May be shared between threads.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Creates a bar of `steps` steps. It draws only in [`step`](Self::step), never from its own
    /// thread, which would disturb timings.
    pub fn new(steps: u64) -> Self {
        let bar = ProgressBar::new(steps);
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {elapsed}  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    /// Advances by `steps` steps; `message` describes the current work.
    pub fn step(&self, steps: u64, message: impl FnOnce() -> String) {
        if !self.0.is_hidden() {
            self.0.set_message(message());
            self.0.inc(steps);
        }
    }

    /// Prints something above the bar.
    pub fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        self.0.suspend(print)
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
