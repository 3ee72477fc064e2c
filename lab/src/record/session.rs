//! Runs a command under the recorder: [`Session`].

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::mpsc;
use std::thread;

use anyhow::Context;
#[cfg(target_os = "linux")]
use pagewise::trace::raw::Keeper;
use pagewise::trace::raw::{DIRECTORY, MAX_LOG, STACKS};
use tempfile::TempDir;

use super::recorder;
use super::switch::Switch;
use super::watch::Watch;
use crate::cannot_run::CannotRun;
use crate::system::signals;

/// A temporary directory for the logs, removed with the session unless it is [kept](Session::keep).
pub(super) struct Session {
    directory: TempDir,
    is_kept: bool,
    /// Recorders stop if this process is killed. `None` on a file system without locks.
    #[cfg(target_os = "linux")]
    _keeper: Option<Keeper>,
}

impl Drop for Session {
    fn drop(&mut self) {
        /// Attempts to remove the directory: processes that outlive the command may create logs
        /// meanwhile. Once it is gone, they cannot.
        const TRIES: u32 = 1000;
        let is_filled_again = || {
            let removed = fs::remove_dir_all(self.directory.path());
            removed.is_err_and(|error| error.kind() == ErrorKind::DirectoryNotEmpty)
        };
        let _ = !self.is_kept && (0..TRIES).all(|_| is_filled_again());
    }
}

impl Session {
    pub(super) fn new() -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("pagewise-record-")
            .tempdir()
            .context("cannot make a temporary directory for the recording")?;
        Ok(Self {
            #[cfg(target_os = "linux")]
            _keeper: Keeper::create(directory.path()).ok(),
            directory,
            is_kept: false,
        })
    }

    /// Returns the logs' directory.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Leaves the logs in place; returns their directory.
    pub(super) fn keep(mut self) -> PathBuf {
        self.is_kept = true;
        self.directory.disable_cleanup(true);
        self.directory().to_owned()
    }

    /// Runs the command to its end. Signals that would end pagewise are forwarded to the command,
    /// so that the recording until then is kept. If `aside`, the command's output goes to stderr,
    /// because stdout is for the trace.
    pub(super) fn run(
        &self,
        command: &[OsString],
        watch: &Watch,
        switch: Switch,
        asked: Asked,
        aside: bool,
    ) -> anyhow::Result<End> {
        let (program, arguments) = command.split_first().context("no command")?;
        let directory = self.directory().canonicalize()?;
        let mut preload = recorder::place(&directory)?.into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|value| !value.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        signals::stand_back();
        let mut command = Command::new(program);
        command.args(arguments).env("LD_PRELOAD", preload).env(DIRECTORY, &directory);
        let numbers = [(MAX_LOG, Some(asked.longest)), (STACKS, asked.stacks.map(u64::from))];
        for (name, number) in numbers {
            match number {
                Some(number) => command.env(name, number.to_string()),
                None => command.env_remove(name),
            };
        }
        if aside {
            command.stdout(std::io::stderr());
        }
        signals::inherit(&mut command);
        let mut child =
            command.spawn().map_err(|error| CannotRun::new(Path::new(program), error))?;
        signals::pass_to(child.id());
        let (over, ended) = mpsc::channel();
        let status = thread::scope(|scope| {
            scope.spawn(|| watch.logs(&directory, switch, ended));
            let status = child.wait().context("waiting for the command");
            drop(over);
            status
        })?;
        signals::pass_to_nobody();
        Ok(End(status))
    }
}

/// The settings passed to the recorder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Maximum bytes of a log.
    pub(super) longest: u64,
    /// Maximum frames of a call stack.
    pub(super) stacks: Option<u16>,
}

/// How the command ended.
pub(super) struct End(ExitStatus);

impl End {
    pub(super) fn success(&self) -> bool {
        self.0.success()
    }

    /// Returns the exit status to pass on; after a signal, 128 plus its number, as in shells.
    pub(super) fn code(&self) -> ExitCode {
        let code = self.0.code().unwrap_or_else(|| 128 + self.0.signal().unwrap_or(0));
        ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.code(), self.0.signal()) {
            (Some(code), _) => write!(f, "exited with status {code}"),
            (None, signal) => write!(f, "was ended by signal {}", signal.unwrap_or(0)),
        }
    }
}
