//! Runs a command under the recorder: [`Session`].

use std::ffi::OsString;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc;
use std::thread;

use anyhow::Context;
use pagewise::trace::raw::{DIRECTORY, MAX_LOG};
use tempfile::TempDir;

use super::recorder;
use super::watch::Watch;

/// A temporary directory for the logs, removed with the session.
pub(super) struct Session {
    directory: TempDir,
}

impl Session {
    pub(super) fn new() -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("pagewise-record-")
            .tempdir()
            .context("no temporary directory for the recording")?;
        Ok(Self { directory })
    }

    /// Where the logs are.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Leaves the logs where they are, and gives their directory.
    pub(super) fn keep(self) -> PathBuf {
        self.directory.keep()
    }

    /// Runs the command to its end. Signals that would end pagewise reach the command instead, so
    /// that what was recorded until then is kept. What the command prints goes to stderr if
    /// `aside`: stdout is the trace's.
    pub(super) fn run(
        &self,
        command: &[OsString],
        watch: &Watch,
        longest: Option<u64>,
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
        match longest {
            Some(bytes) => command.env(MAX_LOG, bytes.to_string()),
            None => command.env_remove(MAX_LOG),
        };
        if aside {
            command.stdout(std::io::stderr());
        }
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot run {}", Path::new(program).display()))?;
        signals::pass_to(child.id());
        let (over, ended) = mpsc::channel();
        let status = thread::scope(|scope| {
            scope.spawn(|| watch.logs(&directory, ended));
            let status = child.wait().context("waiting for the command");
            drop(over);
            status
        })?;
        signals::pass_to_nobody();
        Ok(End(status))
    }
}

/// How the command ended.
pub(super) struct End(ExitStatus);

impl End {
    pub(super) fn success(&self) -> bool {
        self.0.success()
    }

    /// The exit status to pass on; for a signal 128 and its number, as shells have it.
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

pub(super) use signals::interrupted;

/// What happens to signals while the command runs, and after.
mod signals {
    use super::{AtomicBool, AtomicI32, Ordering};

    /// The running command; `STARTING`, or `OVER`.
    static COMMAND: AtomicI32 = AtomicI32::new(OVER);
    const STARTING: i32 = -1;
    const OVER: i32 = 0;
    /// A signal that came while the command was starting.
    static EARLY: AtomicI32 = AtomicI32::new(0);
    static INTERRUPTED: AtomicBool = AtomicBool::new(false);

    /// Whether a signal asked to end after the command had ended.
    pub(in super::super) fn interrupted() -> bool {
        INTERRUPTED.load(Ordering::Relaxed)
    }

    pub(super) fn pass_to(process: u32) {
        COMMAND.store(process as i32, Ordering::Relaxed);
        match EARLY.swap(0, Ordering::Relaxed) {
            0 => {}
            signal => on_signal(signal),
        }
    }

    pub(super) fn pass_to_nobody() {
        COMMAND.store(OVER, Ordering::Relaxed);
    }

    extern "C" fn on_signal(signal: libc::c_int) {
        match COMMAND.load(Ordering::Relaxed) {
            OVER => INTERRUPTED.store(true, Ordering::Relaxed),
            STARTING => EARLY.store(signal, Ordering::Relaxed),
            // The terminal sends these to the command, too.
            _ if signal == libc::SIGINT || signal == libc::SIGQUIT => {}
            // SAFETY: sends a signal to our child, which was not waited for yet.
            command => unsafe {
                libc::kill(command, signal);
            },
        }
    }

    /// Catches the signals that would end this process; one that is ignored stays so. The command
    /// gets their default actions back, since handlers do not outlive an `exec`.
    pub(super) fn stand_back() {
        COMMAND.store(STARTING, Ordering::Relaxed);
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: the handler only touches atomics and sends a signal, both of which are
            // allowed in one; an all-zero `sigaction` is a valid value.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(signal, std::ptr::null(), &mut action) == 0
                    && action.sa_sigaction != libc::SIG_IGN
                {
                    action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
                    action.sa_flags = libc::SA_RESTART;
                    libc::sigaction(signal, &action, std::ptr::null_mut());
                }
            }
        }
    }
}
