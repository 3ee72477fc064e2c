//! Runs commands under preloaded libraries and measures them.

use std::process::{Command, Stdio};
use std::{fmt, fs};

/// A preloaded library (none if the path is empty), and the environment of its runs.
#[derive(Default)]
pub(crate) struct Library {
    pub(crate) path: String,
    settings: Vec<(String, String)>,
}

impl Library {
    /// Parses an argument: a path, and settings after colons. `None` if there is no such file.
    pub(crate) fn parse(argument: &str) -> Option<Self> {
        let mut parts = argument.split(':');
        let path = fs::canonicalize(parts.next()?).ok()?.display().to_string();
        let setting = |part: &str| {
            let (name, value) = part.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        Some(Self { path, settings: parts.map(setting).collect::<Option<_>>()? })
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path.rsplit('/').next().unwrap_or(&self.path))?;
        self.settings.iter().try_for_each(|(name, value)| write!(f, ", {name}={value}"))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Figures {
    /// CPU time, user and system.
    pub(crate) seconds: f64,
    /// Peak resident memory, KiB.
    pub(crate) peak: f64,
}

/// Runs a command with a library preloaded; `None` if it fails.
pub(crate) fn run(command: &mut Command, library: &Library) -> Option<Figures> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if !library.path.is_empty() {
        command.env("LD_PRELOAD", &library.path);
    }
    command.envs(library.settings.iter().map(|(name, value)| (name, value)));
    let child = command.spawn().ok()?;
    let mut status = 0;
    // SAFETY: all bits zero is a valid value; the child is ours and waited for once, here.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let waited = libc::wait4(child.id().cast_signed(), &raw mut status, 0, &raw mut usage);
        (waited >= 0 && status == 0).then_some(usage)?
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Some(Figures {
        seconds: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        peak: usage.ru_maxrss as f64,
    })
}
