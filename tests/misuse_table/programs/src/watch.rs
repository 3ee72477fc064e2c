//! Runs a misuse in its own process, and judges its outcome.

use std::process::{Command, Stdio};
use std::time::Duration;
use std::{env, io};

use crate::misuses::Misuse;
use crate::outcome::Outcome;
use crate::process::{self, Ended};
use crate::stage;

/// A malloc library: given as `NAME=PATH`, or as `NAME=PATH,VARIABLE=VALUE…` with settings.
#[derive(Clone, Copy, Default)]
pub(crate) struct Library<'a> {
    pub(crate) name: &'a str,
    /// Empty for the C library's own allocator.
    path: &'a str,
    settings: &'a str,
}

impl<'a> Library<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (name, of) = text.split_once('=')?;
        let (path, settings) = of.split_once(',').unwrap_or((of, ""));
        Some(Self { name, path, settings })
    }

    fn prepare(&self, command: &mut Command) {
        command.env_remove("LD_PRELOAD");
        if !self.path.is_empty() {
            command.env("LD_PRELOAD", self.path);
        }
        let settings = self.settings.split(',').filter_map(|setting| setting.split_once('='));
        command.envs(settings);
    }
}

/// The result of a run.
pub(crate) struct Run {
    pub(crate) outcome: Outcome,
    /// The allocator's message.
    pub(crate) message: String,
}

/// Time limit of a run; on an idle machine a run takes a second or two.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs a misuse with blocks of this size.
pub(crate) fn run(misuse: &Misuse, size: usize, library: Library) -> io::Result<Run> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["inside", misuse.name, &size.to_string()]).stderr(Stdio::piped());
    library.prepare(&mut command);
    Ok(match process::run(&mut command, LIMIT)? {
        None => Run { outcome: Outcome::Hangs, message: String::new() },
        Some(ended) => {
            let outcome = judge(&ended).ok_or_else(|| {
                let (name, library) = (misuse.name, library.name);
                let Ended { code, out, err, .. } = &ended;
                io::Error::other(format!("{library}, {name}, {size}: {code:?}, {out:?}, {err}"))
            })?;
            Run { outcome, message: ended.err }
        }
    })
}

/// Returns `None` if the program ended in a way that no allocator can cause.
fn judge(ended: &Ended) -> Option<Outcome> {
    let reached = |word| ended.out.lines().any(|line| line == word);
    let last = ended.out.lines().last().unwrap_or_default();
    match (ended.signal, ended.code) {
        (None, Some(0)) => match last {
            "overlap" => Some(Outcome::Overlap),
            "overwritten" => Some(Outcome::Overwritten),
            "old" => Some(Outcome::Old),
            "cleared" => Some(Outcome::Cleared),
            "unnoticed" => Some(Outcome::Unnoticed),
            _ => None,
        },
        // A library may also stop the program with an exit status.
        _ if !ended.err.is_empty() => {
            Some(if reached(stage::MISUSED) { Outcome::Late } else { Outcome::Stops })
        }
        (Some(libc::SIGSEGV | libc::SIGBUS), _) => {
            Some(if reached(stage::FAULTED) { Outcome::Guard } else { Outcome::Faults })
        }
        (Some(libc::SIGABRT | libc::SIGILL | libc::SIGTRAP), _) => Some(Outcome::Aborts),
        _ => None,
    }
}
