//! Replays in child processes: this program, run again with the hidden subcommand `alone`. Each has
//! a fresh heap, as a program has at its start, and may use another library's `malloc`.
//!
//! ```text
//!  command ──spawns──► [LD_PRELOAD=LIB] pagewise alone --job NAME --parameters JSON TRACE
//!          ◄──────────────────────── one line of JSON ──────────────────────────────┘
//! ```
//! The lab's own data use another allocator than the C library's (see `main.rs`), so only the
//! replay uses the child's C heap. The loader only warns about a library it cannot load, so the
//! child reports which file its `malloc` is in.

use std::env;
use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use pagewise_replay::printable::printable;
use pagewise_replay::workload::{Stop, Workload};
use pagewise_replay::{input, output};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::system::library::{Library, malloc_file};

/// What the child does with the trace.
pub(crate) trait Job: Serialize + DeserializeOwned {
    /// Distinguishes it from other jobs.
    const NAME: &'static str;
    /// The result.
    type Found: Serialize + DeserializeOwned;

    /// Runs the job, in the child.
    ///
    /// # Errors
    /// A [`Stop`] of the replay; invalid parameters.
    fn run(&self, workload: &Workload) -> anyhow::Result<Self::Found>;
}

/// Runs a job on a trace, for the parent process.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    trace: PathBuf,
    #[arg(long)]
    job: String,
    /// The job's parameters, as JSON.
    #[arg(long)]
    parameters: String,
}

/// A job's name, and the function that runs it in the child.
pub(crate) type Served = (&'static str, fn(&Args) -> anyhow::Result<ExitCode>);

/// Returns the row for a job in the table of jobs.
pub(crate) const fn served<J: Job>() -> Served {
    (J::NAME, serve::<J>)
}

/// Runs the hidden subcommand: the requested one of these jobs.
///
/// # Errors
/// If there is no such job; the job's own errors.
pub(crate) fn run(args: &Args, jobs: &[Served]) -> anyhow::Result<ExitCode> {
    let job = jobs.iter().find(|(name, _)| *name == args.job);
    let (_, serve) = job.with_context(|| format!("unknown job '{}'", args.job))?;
    serve(args)
}

/// A child's answer.
#[derive(Debug, Serialize, Deserialize)]
struct Answer<F> {
    /// The file that contains `malloc`, if known.
    malloc: Option<PathBuf>,
    outcome: Outcome<F>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome<F> {
    Found(F),
    Exhausted { operation: u64, bytes: usize },
}

fn serve<J: Job>(args: &Args) -> anyhow::Result<ExitCode> {
    let job: J = serde_json::from_str(&args.parameters)?;
    let workload = Workload::load(&args.trace)?;
    let outcome = match job.run(&workload) {
        Ok(found) => Outcome::Found(found),
        Err(error) => match error.downcast()? {
            Stop::Exhausted { operation, bytes } => Outcome::Exhausted { operation, bytes },
            stop => bail!(stop),
        },
    };
    output::print_line(&serde_json::to_string(&Answer { malloc: malloc_file(), outcome })?)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs a job on a trace in a fresh process, with this library's `malloc` instead of the C
/// library's. If a signal ends the process, that is the [`Stop`]: an allocator that crashes on one
/// trace should not take the results of others with it.
///
/// # Errors
/// If the process cannot be run or fails; if the library was not loaded.
pub(crate) fn run_in_child<J: Job>(
    job: &J,
    trace: &Path,
    library: Option<&Library>,
) -> anyhow::Result<Result<J::Found, Stop>> {
    let myself = env::current_exe().context("the path of this program's executable is unknown")?;
    let mut command = Command::new(myself);
    command.arg("alone").args(input::Limits::options());
    command.args(["--job", J::NAME, "--parameters"]).arg(serde_json::to_string(job)?);
    command.arg("--").arg(trace);
    leave_out_settings(&mut command);
    if let Some(library) = library {
        command.envs(library.variables());
    }
    prepare(&mut command, Addresses::Fixed);

    let output = command.output().context("cannot start a child process for a replay")?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message.trim().trim_start_matches("pagewise: ");
        if let Some(signal) = output.status.signal() {
            let message = message.lines().next().unwrap_or_default();
            return Ok(Err(Stop::Died { signal, message: printable(message).into_owned() }));
        }
        let with = library.map_or_else(String::new, |library| format!(" with {}", library.name));
        let trace = input::shown(trace);
        let colon = if message.is_empty() { "" } else { ": " };
        bail!("{trace}: a replay{with} failed ({}){colon}{message}", output.status);
    }
    let answer: Answer<J::Found> = serde_json::from_slice(&output.stdout)
        .context("the output of a replay's child process is unreadable")?;
    if let Some(library) = library {
        let loader = String::from_utf8_lossy(&output.stderr);
        library.check_loaded(answer.malloc.as_deref(), &loader)?;
    }
    Ok(match answer.outcome {
        Outcome::Found(found) => Ok(found),
        Outcome::Exhausted { operation, bytes } => Err(Stop::Exhausted { operation, bytes }),
    })
}

/// Removes the environment variables that would affect measurements.
pub(crate) fn leave_out_settings(command: &mut Command) {
    let names = env::vars_os().map(|(name, _)| name);
    names.filter(|name| affects_measurements(name)).for_each(|name| {
        command.env_remove(name);
    });
}

/// Returns whether an environment variable would affect the measurements: it loads another library,
/// or is a setting of the allocator.
fn affects_measurements(name: &OsStr) -> bool {
    name == "LD_PRELOAD" || name.as_encoded_bytes().starts_with(b"PAGEWISE_")
}

/// Where the kernel puts the parts of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addresses {
    /// At the same addresses in each run, so that a heap always has the same position within pages
    /// and a run can be repeated.
    Fixed,
    /// At random, as the system does.
    Random,
}

/// Sets the process's addresses, and has the kernel end the process with this one: a signal that
/// ends pagewise reaches no child, whose replay may take minutes.
pub(crate) fn prepare(command: &mut Command, addresses: Addresses) {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt;

        let parent = std::process::id() as libc::pid_t;
        let prepare = move || {
            if addresses == Addresses::Fixed {
                // SAFETY: the call only changes the memory layout of the next program of this
                // process. Where it is forbidden, the layout stays random.
                unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) };
            }
            // The kernel sends the signal when the thread that made the child ends; that thread
            // waits for the child.
            // SAFETY: plain calls that change and query this process only.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if libc::getppid() != parent {
                    libc::_exit(1);
                }
            }
            Ok(())
        };
        // SAFETY: between fork and exec the closure makes system calls only; it neither locks nor
        // allocates.
        unsafe { command.pre_exec(prepare) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (command, addresses);
}
