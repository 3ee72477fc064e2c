//! The outcome of a program: runs it in its own process, with a time limit, and judges it.

use std::env;
use std::fmt::{self, Display, Formatter};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::Duration;

use crate::cgroup::Cgroup;
use crate::process::{self, Ended};
use crate::programs::{Expected, Program};

/// The outcome of a program.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    Survived,
    /// It finished, with this figure.
    Mebibytes(f64),
    /// It exited, and reported a failure.
    Fails(String),
    /// A signal killed it.
    Dies(i32),
    /// It did not finish in time.
    Hangs,
    /// The machine does not allow it to run.
    Unavailable(String),
}

impl Outcome {
    /// Called by the program itself: reports to the watching process.
    pub(crate) fn report(&self) -> ExitCode {
        println!("{self}");
        if let Self::Fails(_) = self { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    /// Parses the output of a program that ended.
    fn parse(out: &str) -> Self {
        let line = out.lines().last().unwrap_or("prints nothing");
        match line.strip_suffix(" MiB").and_then(|figure| figure.parse().ok()) {
            Some(figure) => Self::Mebibytes(figure),
            None if line == "survived" => Self::Survived,
            None => match line.strip_prefix("not here: ") {
                Some(reason) => Self::Unavailable(reason.to_owned()),
                None => Self::Fails(line.to_owned()),
            },
        }
    }

    /// Returns whether the outcome is as required, given glibc's outcome; `None` if that is
    /// unknown.
    pub(crate) fn is_good(&self, expected: Expected, glibc: &Self) -> Option<bool> {
        match (self, expected, glibc) {
            (Self::Unavailable(_), ..) => None,
            (Self::Survived, Expected::Survives, _) => Some(true),
            (Self::Mebibytes(figure), Expected::AtMost { times, and }, Self::Mebibytes(glibc)) => {
                Some(*figure <= glibc * times + and)
            }
            (Self::Mebibytes(figure), Expected::AtLeast { times }, Self::Mebibytes(glibc)) => {
                Some(*figure >= glibc * times)
            }
            (Self::Mebibytes(figure), Expected::Below { mebibytes }, _) => {
                Some(*figure < mebibytes)
            }
            (Self::Mebibytes(_), ..) => None,
            _ => Some(false),
        }
    }
}

impl Display for Outcome {
    fn fmt(&self, out: &mut Formatter) -> fmt::Result {
        match self {
            Self::Survived => write!(out, "survived"),
            Self::Mebibytes(figure) if *figure < 10.0 => write!(out, "{figure:.1} MiB"),
            Self::Mebibytes(figure) => write!(out, "{figure:.0} MiB"),
            Self::Fails(what) => write!(out, "{what}"),
            Self::Dies(libc::SIGABRT) => write!(out, "dies (abort)"),
            Self::Dies(libc::SIGSEGV) => write!(out, "dies (segmentation fault)"),
            Self::Dies(libc::SIGKILL) => write!(out, "killed"),
            Self::Dies(signal) => write!(out, "dies (signal {signal})"),
            Self::Hangs => write!(out, "hangs"),
            Self::Unavailable(reason) => write!(out, "not here: {reason}"),
        }
    }
}

/// Runs a program with a library preloaded, or none.
pub(crate) fn of(program: &Program, library: Option<&str>) -> Outcome {
    let cgroup = match program.cgroup_mebibytes.map(Cgroup::new).transpose() {
        Ok(cgroup) => cgroup,
        Err(reason) => return Outcome::Unavailable(reason),
    };
    let mut command = Command::new(env::current_exe().expect("this program has a path"));
    command.args(["inside", program.name]);
    command.envs(program.environment.iter().copied());
    match library {
        Some(library) => command.env("LD_PRELOAD", library),
        None => command.env_remove("LD_PRELOAD"),
    };
    let prepare = program.prepare;
    let tasks = cgroup.as_ref().map(Cgroup::tasks);
    // SAFETY: only system calls are made between `fork` and `exec`.
    unsafe {
        command.pre_exec(move || {
            if let Some(tasks) = &tasks {
                Cgroup::enter(tasks)?;
            }
            prepare()
        });
    }
    let limit = Duration::from_secs(program.seconds * patience());
    match process::run(&mut command, limit) {
        Err(error) => Outcome::Unavailable(error.to_string()),
        Ok(None) => Outcome::Hangs,
        Ok(Some(Ended { signal: Some(signal), .. })) => Outcome::Dies(signal),
        Ok(Some(Ended { out, .. })) => Outcome::parse(&out),
    }
}

/// Returns the factor by which a program may take longer than usual.
fn patience() -> u64 {
    env::var("SURVIVE_PATIENCE").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}
