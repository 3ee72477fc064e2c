//! Turns a recording on and off at run time: [`Switch`].
//!
//! ```text
//!  control file: `start`, `stop` ─┐
//!  SIGUSR1, SIGUSR2 ──────────────┼─► the directory's `Control` ─► every recorder
//!  --max-log, --duration ─────────┘
//! ```

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use pagewise::trace::raw::{self, Control};
use pagewise_replay::input::shown;
use pagewise_replay::output;
use pagewise_replay::usage::Usage;

use super::logs;
use crate::system::signals::{self, Request};

/// Bytes of a control file to read; its words are shorter.
const LONGEST: u64 = 64;

/// A recording's switch, and its inputs: a control file, and signals.
pub(super) struct Switch {
    control: Control,
    directory: PathBuf,
    file: Option<PathBuf>,
    /// The last content of the control file, and when it was written.
    said: (String, Option<SystemTime>),
    /// A limit was reached, so recording stays off.
    is_over: bool,
}

impl Switch {
    /// Returns the switch of the logs in a directory.
    pub(super) fn new(directory: &Path, file: Option<&Path>, on: bool) -> anyhow::Result<Self> {
        let control = Control::create(directory, on)
            .with_context(|| format!("{} cannot be written", directory.display()))?;
        if let Some(file) = file
            && fs::metadata(file).is_ok_and(|about| !about.is_file())
        {
            // Reading a pipe would wait for its writer.
            return Err(Usage(format!("{} is not a file: --control needs one", shown(file))).into());
        }
        let (directory, file) = (directory.to_owned(), file.map(Path::to_owned));
        let said = (String::new(), None);
        let mut switch = Self { control, directory, file, said, is_over: false };
        // What it holds already may be from an earlier recording, and must not turn this one.
        if let (Some(request), Some(file)) = (switch.control_file_request(), &switch.file)
            && (request == Request::Start) != on
        {
            output::say(&format!(
                "pagewise: {} contains `{}` already: that counts once it is written again",
                shown(file),
                switch.said.0
            ));
        }
        Ok(switch)
    }

    /// Returns whether recording is on.
    pub(super) fn is_on(&self) -> bool {
        self.control.is_on()
    }

    /// Returns whether it is off for good.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Carries out the requests of the control file and of signals since the last check.
    pub(super) fn carry_out_requests(&mut self) {
        if let Some(request) = self.control_file_request().or_else(signals::take_request)
            && !self.is_over
        {
            self.turn(request == Request::Start);
        }
    }

    /// Turns recording off for good.
    pub(super) fn end(&mut self) {
        self.is_over = true;
        self.turn(false);
    }

    fn turn(&mut self, on: bool) {
        if on == self.is_on() {
            return;
        }
        if let Err(error) = self.control.turn(on) {
            output::say(&format!("pagewise: the recording cannot be turned on or off: {error}"));
        }
        if !on {
            // An error means that the log's process has ended.
            for path in logs::files(&self.directory, raw::EXTENSION).unwrap_or_default() {
                let _ = raw::stop(path);
            }
        }
    }

    /// Returns the request in the control file, if it is new.
    fn control_file_request(&mut self) -> Option<Request> {
        let file = self.file.as_ref()?;
        // A missing or unwritten file makes no request.
        let mut text = Vec::new();
        let opened = fs::File::open(file).ok()?;
        let written = opened.metadata().and_then(|about| about.modified()).ok();
        opened.take(LONGEST).read_to_end(&mut text).ok()?;
        let said = (String::from_utf8_lossy(&text).trim().to_owned(), written);
        if said.0.is_empty() || said == self.said {
            return None;
        }
        let request = match said.0.as_str() {
            "start" => Some(Request::Start),
            "stop" => Some(Request::Stop),
            _ => {
                output::say(&format!(
                    "pagewise: {} contains neither `start` nor `stop`",
                    shown(file)
                ));
                None
            }
        };
        self.said = said;
        request
    }
}
