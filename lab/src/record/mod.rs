//! `pagewise record`: runs a command under the recorder and writes the trace of its allocations.
//!
//! ```text
//!  command ─► session: run it, LD_PRELOAD = the recorder, logs to a temporary directory
//!          ─► logs:    one per process image; convert, count, choose
//!          ─► trace
//! ```
//! The command's input and output are not redirected, signals are forwarded to it, and its exit
//! status is passed on, unless it is 0 and the log lost something. pagewise writes its messages to
//! stderr after the command has ended; if stderr is a terminal, it also shows the log's growth
//! (`watch`).

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod attach;
mod draft;
pub(crate) mod logs;
mod max_log;
mod recorder;
mod session;
mod switch;
mod symbols;
mod watch;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use logs::{Limits, Log};
use pagewise::trace::{self, ReadError, Reason, raw};
use pagewise_replay::printable::printable;
use pagewise_replay::usage::Usage;
use pagewise_replay::{output, units};

use crate::system::signals;
use max_log::MaxLog;
use session::{Asked, End, Session};
use switch::Switch;
use watch::Watch;

/// Run a command and record its allocations.
///
/// Records every process that the command starts, also through fork and exec, and writes the one
/// that allocates most. Cannot record statically linked and setuid programs.
#[derive(Debug, clap::Args)]
#[command(override_usage = USAGE, after_help = HELP)]
pub(crate) struct Args {
    /// The trace to write [default: PROGRAM.pwt, unless a file that is no trace has that name]; `-`
    /// is standard output, and the command's own output then goes to stderr.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the process of this name that allocates most.
    #[arg(long, value_name = "NAME")]
    program: Option<String>,
    /// Write every process, in the order of their starts, to FILE.1.pwt, FILE.2.pwt, …; without -o
    /// FILE is the command's name.
    #[arg(long)]
    all: bool,
    /// Keep only the first N events, and say so in the header. The log ends once it holds enough.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_events: Option<u64>,
    /// Keep only the first events, as many as fit into a file of this size, and say so in the
    /// header. At least 4K. With --pid, name another limit as well: this one does not end the
    /// recording.
    #[arg(long, value_name = "BYTES", value_parser = parse_max_bytes)]
    max_bytes: Option<usize>,
    /// Stop recording when a log, or all logs together, reach this length; the command runs on
    /// [default: 16G, but at most half of the space in the temporary directory, TMPDIR].
    #[arg(long, value_name = "BYTES", value_parser = MaxLog::parse)]
    max_log: Option<usize>,
    /// Stop recording after this time, such as `30s` or `5min`; the command runs on.
    #[arg(long, value_name = "TIME")]
    duration: Option<humantime::Duration>,
    /// Record a running process until it ends, a limit is reached, or pagewise receives a signal
    /// (Ctrl-C); the process then runs on. Requires permission to trace it.
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pid: Option<u32>,
    /// Begin with recording off; a signal or the control file turns it on.
    #[arg(long)]
    paused: bool,
    /// Turn recording on and off through this file: write `start` or `stop` to it. SIGUSR1 and
    /// SIGUSR2, sent to pagewise, do the same. Each start begins a new recording.
    #[arg(long, value_name = "FILE")]
    control: Option<PathBuf>,
    /// Also record the call stack of each allocation, at most its DEPTH innermost frames [without
    /// DEPTH: 64]. `pagewise who` then shows which functions allocate.
    #[arg(
        long,
        value_name = "DEPTH",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "64",
        value_parser = clap::value_parser!(u16).range(1..=raw::DEEPEST as i64),
        conflicts_with = "max_bytes",
    )]
    stacks: Option<u16>,
    /// Text for the trace's header, such as a description of the input.
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    /// The command and its arguments.
    #[arg(required_unless_present = "pid", trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const USAGE: &str = "\
pagewise record [OPTIONS] [--] <COMMAND>...
       pagewise record [OPTIONS] --pid <PID>";

const HELP: &str = "\
Examples:
  pagewise record -- gawk '{ n[$1]++ } END { print length(n) }' words.txt
      writes gawk.pwt
  pagewise compare gawk.pwt
      compares allocators over it
  pagewise record -o build.pwt --program rustc -- cargo build
  pagewise record --duration 1min --max-log 2G -- redis-server
      records for a minute; end the server with Ctrl-C
  pagewise record --paused --control ctl -- ./server
      records from `echo start > ctl` on
  pagewise record -o - -- ls | pagewise info -
  pagewise record --stacks --pid $(pidof server) --duration 1min
      records a running server
  pagewise record --stacks -- ./server && pagewise who server.pwt
      shows which functions allocate
  pagewise record --max-bytes 2M --note 'the first page' -o gs.pwt -- gs -q a.ps";

/// Runs the subcommand. The exit status is the command's, or that of an error of ours.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let aside = args.claim()?;
    let limits =
        Limits { events: args.max_events, bytes: args.max_bytes.map(|bytes| bytes as u64) };
    anyhow::ensure!(
        args.stacks.is_none() || cfg!(any(target_arch = "x86_64", target_arch = "aarch64")),
        "--stacks needs x86-64 or AArch64"
    );
    signals::ignore_closed_pipes();
    let session = Session::new()?;
    signals::handle_requests();
    let directory = session.directory().canonicalize()?;
    let switch = Switch::new(&directory, args.control.as_deref(), !args.paused)?;
    let max_log = MaxLog::new(args.max_log, &directory);
    let watch = Watch::new(max_log, args.duration.map(Into::into));
    let longest = limits.log().map_or(max_log.bytes, |bytes| bytes.min(max_log.bytes));
    let asked = Asked { longest, stacks: args.stacks };
    let recorded = match args.pid {
        Some(process) => Recorded::process(process, &directory, &watch, switch, asked)?,
        None => Recorded {
            end: Some(session.run(&args.command, &watch, switch, asked, aside)?),
            name: Path::new(&args.command[0]).display().to_string(),
            is_left: true,
        },
    };
    let written = convert(args, session.directory(), &recorded, limits, &watch);
    let complete = match written {
        Ok(complete) => complete,
        Err(Failure { error, log: None }) => return Err(error),
        Err(Failure { error, log: Some(log) }) => {
            let log = session.keep().join(log);
            let text = format!(
                "{error:#}; the recording is kept: `pagewise import {} -o FILE.pwt` makes a trace \
                 of it",
                log.display()
            );
            return Err(match error.is::<Usage>() {
                true => Usage(text).into(),
                false => anyhow::Error::msg(text),
            });
        }
    };
    // Success would mean that everything was recorded, and the process is as it was.
    let code = if complete && recorded.is_left { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok(match &recorded.end {
        Some(end) if !end.success() => {
            output::say(&format!("pagewise: {recorded}"));
            end.code()
        }
        _ => code,
    })
}

/// A finished recording.
struct Recorded {
    name: String,
    /// How the command ended; `None` for a process attached to.
    end: Option<End>,
    /// Whether a process attached to calls its own functions again.
    is_left: bool,
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.end {
            Some(end) => write!(f, "{} {end}", printable(&self.name)),
            None => f.write_str(&printable(&self.name)),
        }
    }
}

impl Recorded {
    /// Returns the name that a process of this command or process would have.
    fn program(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    /// Records a running process.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    fn process(
        id: u32,
        directory: &Path,
        watch: &Watch,
        switch: Switch,
        asked: Asked,
    ) -> anyhow::Result<Self> {
        let process = attach::Process::find(id)?;
        // Threads that do not stop stay attached until this thread ends.
        let problem = std::thread::scope(|scope| {
            let tracer = scope.spawn(|| attach::record(&process, directory, watch, switch, &asked));
            tracer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        if let Some(problem) = &problem {
            output::say(&format!(
                "pagewise: {problem:#}; it may go on calling the recorder, which records no more"
            ));
        }
        Ok(Self { name: process.name().to_owned(), end: None, is_left: problem.is_none() })
    }

    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    fn process(_: u32, _: &Path, _: &Watch, _: Switch, _: Asked) -> anyhow::Result<Self> {
        anyhow::bail!("--pid needs Linux on x86-64")
    }
}

/// Why there is no trace.
struct Failure {
    error: anyhow::Error,
    /// The file name of a log worth keeping.
    log: Option<OsString>,
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self { error, log: None }
    }
}

/// Makes traces from the logs of a command. Returns whether everything was recorded that should
/// have been.
fn convert(
    args: &Args,
    directory: &Path,
    recorded: &Recorded,
    limits: Limits,
    watch: &Watch,
) -> Result<bool, Failure> {
    let largest = || {
        let logs = logs::files(directory, raw::EXTENSION).unwrap_or_default();
        let length = |path: &PathBuf| path.metadata().map_or(0, |about| about.len());
        logs.iter().max_by_key(|path| length(path))?.file_name().map(ToOwned::to_owned)
    };
    let surveyed = logs::survey(directory, &args.note, limits);
    let logs = surveyed.map_err(|error| Failure { error, log: largest() })?;
    let failures = logs::failures(directory);
    if logs.is_empty() {
        let (name, end) = (&recorded.name, recorded.end.as_ref());
        let ended = end.map_or_else(String::new, |end| format!(" ({end})"));
        let why = match failures.first() {
            Some(failure) => format!(
                "no log could be written to {}: {failure}; set TMPDIR to another folder",
                directory.display()
            ),
            None if args.paused => {
                "recording was never turned on, or nothing was allocated while it was on".to_owned()
            }
            None if end.is_none() => "nothing was allocated in that time".to_owned(),
            None => "is it statically linked, setuid, or allocating nothing?".to_owned(),
        };
        return Err(anyhow::anyhow!("{name} left no recording{ended}: {why}").into());
    }
    if logs.len() > 1 {
        output::say(&logs::table(&logs));
    }
    for failure in &failures {
        let folder = directory.display();
        output::say(&format!(
            "pagewise: a process was not recorded: no log could be written to {folder}: {failure}"
        ));
    }
    let stopped = watch.reached_default(&logs, limits);
    stopped.iter().for_each(|told| output::say(told));
    let mut complete = failures.is_empty() && stopped.is_none();
    let images = logs.len();
    let called_so = logs.iter().any(|log| log.program() == recorded.program());
    let chosen = chosen(logs, args, recorded.program())
        .map_err(|error| Failure { error, log: largest() })?;
    for (mut log, path) in chosen {
        let header = log.write(&path, &args.note, limits).map_err(|error| Failure {
            error,
            log: log.path().file_name().map(ToOwned::to_owned),
        })?;
        output::say(&format!("pagewise: {}", log.description(&header, &path)));
        if images > 1 && !args.all && args.program.is_none() {
            choice(&log, images, recorded.program(), called_so).inspect(|hint| output::say(hint));
        }
        complete &= !log.failed();
    }
    Ok(complete)
}

/// Explains why another process than the command's own was written, if so.
fn choice(log: &Log, images: usize, command: &str, called_so: bool) -> Option<String> {
    if log.program() == command {
        return None;
    }
    let (program, command) = (printable(log.program()), printable(command));
    let why = if called_so {
        String::new()
    } else {
        format!(
            ". None is called {command}: a script has its interpreter's name, and a program that is \
             statically linked, setuid or has its own allocator is not recorded"
        )
    };
    let images = units::count(images as u64, "process image");
    Some(format!(
        "pagewise: {program} has the most events of {images}; `--program NAME` writes another one, \
         `--all` all{why}"
    ))
}

/// Returns the logs to write, each with its file; `command` has all of them.
fn chosen(logs: Vec<Log>, args: &Args, command: &str) -> anyhow::Result<Vec<(Log, PathBuf)>> {
    let mut names: Vec<_> = logs.iter().map(|log| log.program().to_owned()).collect();
    let wanted = |log: &Log| args.program.as_ref().is_none_or(|name| log.program() == name);
    let mut candidates: Vec<Log> = logs.into_iter().filter(wanted).collect();
    // If several have equally many, the first.
    let most = (0..candidates.len()).rev().max_by_key(|&index| candidates[index].events());
    let Some(most) = most else {
        names.sort_unstable();
        names.dedup();
        let name = args.program.as_deref().unwrap_or_default();
        return Err(Usage(format!(
            "no process called '{name}' was recorded, only {}",
            names.join(", ")
        ))
        .into());
    };
    // All together have the name that is known beforehand, whichever allocates most.
    let program = if args.all { command } else { candidates[most].program() };
    let path = args.output.clone().unwrap_or_else(|| match program {
        "" => PathBuf::from("unnamed.pwt"),
        name => default_name(name),
    });
    let is_named = args.output.is_some();
    if !args.all {
        if !is_named {
            check_default(&path)?;
        }
        return Ok(vec![(candidates.swap_remove(most), path)]);
    }
    // Another ending is a part of the name.
    let is_trace = path.extension().is_some_and(|extension| extension == "pwt");
    let name = if is_trace { path.file_stem() } else { path.file_name() }.unwrap_or_default();
    let numbered = |number: usize| {
        let mut name = name.to_owned();
        name.push(format!(".{number}.pwt"));
        path.with_file_name(name)
    };
    let chosen: Vec<_> = candidates.into_iter().zip((1..).map(numbered)).collect();
    if !is_named {
        chosen.iter().try_for_each(|(_, path)| check_default(path))?;
    }
    Ok(chosen)
}

/// Returns the name of a program's trace.
fn default_name(program: &str) -> PathBuf {
    PathBuf::from(format!("{program}.pwt"))
}

/// Refuses to replace what is no trace.
fn check_default(path: &Path) -> Result<(), Usage> {
    // A damaged trace is one.
    let reason = |error: ReadError| !matches!(error.reason(), Reason::NotATrace | Reason::Io(_));
    output::check_default(path, "a trace", |path| trace::open(path).map_or_else(reason, |_| true))
}

/// The shortest trace that can be asked for: one of a few events, with its header.
const LEAST_BYTES: usize = 4 << 10;

fn parse_max_bytes(text: &str) -> Result<usize, String> {
    match units::parse_bytes(text)? {
        bytes if bytes < LEAST_BYTES => Err("a trace may need 4 KiB for its header".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Returns the path of a command's program; `None` if it has only a name, which is looked up.
pub(crate) fn path_of(command: &[OsString]) -> Option<&Path> {
    let program = Path::new(command.first()?);
    (program.components().count() > 1).then_some(program)
}

const SEVERAL: &str =
    "--all writes several files, which cannot go to standard output: give -o a file name";

const ENDLESS: &str = "--max-bytes does not end the recording of a process: add --duration, \
                       --max-events or --max-log";

impl Args {
    /// Checks that the recording can end, and that the trace can be written, to fail before a long
    /// run rather than after it.
    /// Returns whether it goes to standard output.
    fn claim(&self) -> anyhow::Result<bool> {
        let ends = [self.max_events.is_some(), self.max_log.is_some(), self.duration.is_some()];
        if self.pid.is_some() && self.max_bytes.is_some() && ends == [false; 3] {
            return Err(Usage(ENDLESS.to_owned()).into());
        }
        let Some(path) = &self.output else {
            tempfile::tempfile_in(".").context(". cannot be written")?;
            // Another process may allocate most: then this is found out when the run is over.
            let command = self.command.first().map(|command| Path::new(command).file_name());
            let name = self.program.as_deref().or(command.flatten().and_then(OsStr::to_str));
            if let Some(name) = name.filter(|_| !self.all) {
                check_default(&default_name(name))?;
            }
            return Ok(false);
        };
        let read = path_of(&self.command).into_iter().chain(self.control.as_deref());
        let aside = output::claim(read, [&**path])?;
        if self.all && output::is_stream(path) {
            return Err(Usage(SEVERAL.to_owned()).into());
        }
        Ok(aside)
    }
}
