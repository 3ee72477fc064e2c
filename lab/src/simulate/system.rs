//! The C library's allocator, or one loaded in its place, in a process of its own.
//!
//! A fresh process has a fresh heap, and the simulation runs in it, so that no addresses have to be
//! carried over. The lab's own data, the simulation's included, come from another allocator (see
//! `main.rs`) that takes memory from the kernel in mappings of its own: no block of the replay
//! shares a page with them.
//!
//! ```text
//!  pagewise simulate ──spawns──► [LD_PRELOAD=LIB] pagewise simulate-system TRACE …
//!                    ◄──────────────── one line of JSON ────────────────┘
//! ```
//! `LIB` may be any library that defines `malloc`. The loader only warns of a library it cannot
//! load, so the process tells in which file its `malloc` lies.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::memory::{Found, Memory, Program};
use super::setup::{Touch, parse_page_size};
use crate::error::Usage;
use crate::workload::{Stop, System, Workload};

/// Simulates paging under the process's own `malloc`, for `simulate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    trace: PathBuf,
    #[arg(long, value_parser = parse_page_size)]
    page_size: usize,
    /// In pages.
    #[arg(long)]
    working_set: Vec<usize>,
    #[arg(long)]
    clock: bool,
    #[arg(long)]
    touch: Touch,
}

/// What a run reports to the process that started it.
#[derive(Debug, Serialize, Deserialize)]
struct Report {
    /// File that `malloc` lies in, if that can be told.
    malloc: Option<PathBuf>,
    outcome: Outcome,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Found(Found),
    Exhausted { operation: u64, bytes: usize },
}

/// Runs the hidden subcommand.
///
/// # Errors
/// A trace that cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let workload = Workload::load(&args.trace)?;
    let memory = Memory::new(args.page_size, args.clock.then_some(&args.working_set));
    let mut program = Program { memory: &memory, touch: args.touch };
    let outcome = match workload.replay(&mut System, &mut program) {
        Ok(_) => Outcome::Found(memory.found(&args.working_set)),
        Err(Stop::Exhausted { operation, bytes }) => Outcome::Exhausted { operation, bytes },
        Err(stop) => bail!(stop),
    };
    println!("{}", serde_json::to_string(&Report { malloc: malloc_file(), outcome })?);
    Ok(ExitCode::SUCCESS)
}

/// The file that this process's `malloc` lies in.
fn malloc_file() -> Option<PathBuf> {
    // SAFETY: the name is a C string; `dladdr` takes any address, writes `info`, and what it says
    // of a file it found stays valid as long as that file is loaded.
    unsafe {
        let malloc = libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr());
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(malloc, &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        let name = CStr::from_ptr(info.dli_fname);
        Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
    }
}

/// A library whose `malloc` takes the place of the C library's.
#[derive(Clone, Debug)]
pub(super) struct Library {
    /// What the loader is told: a path, or a name for it to look up.
    path: PathBuf,
    /// `MIMALLOC (libmimalloc.so.2)`.
    pub(super) name: String,
}

impl Library {
    /// The library of this path, or of this name in the loader's directories.
    ///
    /// # Errors
    /// If it is a path and there is no such file, or the system cannot preload.
    pub(super) fn find(path: &Path) -> Result<Self, Usage> {
        if !cfg!(target_os = "linux") {
            return Err(Usage("--preload needs the loader of Linux".to_owned()));
        }
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let is_path = path.components().count() > 1;
        if (is_path && !path.is_file()) || file.is_empty() {
            return Err(Usage(format!("no library {}{}", path.display(), hint(&file))));
        }
        let path = if is_path {
            std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
        } else {
            path.to_owned()
        };
        let short = file.split(".so").next().unwrap_or_default();
        let short = short.strip_prefix("lib").unwrap_or(short).to_ascii_uppercase();
        Ok(Self { name: format!("{short} ({file})"), path })
    }
}

/// Where a library that is not there could come from.
fn hint(file: &str) -> &'static str {
    if file.contains("mimalloc") {
        "; Debian's package libmimalloc2.0 has libmimalloc.so.2"
    } else {
        ""
    }
}

/// Simulates paging under the C library's allocator, or under a library's, in a fresh process.
///
/// # Errors
/// If the process cannot be run or fails; if the library was not loaded.
pub(super) fn simulate(
    trace: &Path,
    library: Option<&Library>,
    page_size: usize,
    working_sets: &[usize],
    clock: bool,
    touch: Touch,
) -> anyhow::Result<Result<Found, Stop>> {
    let myself = std::env::current_exe().context("this program's own file is not known")?;
    let mut command = Command::new(myself);
    command.arg("simulate-system").arg(format!("--page-size={page_size}"));
    command.args(working_sets.iter().map(|pages| format!("--working-set={pages}")));
    command.args(clock.then_some("--clock"));
    command.args(touch.to_possible_value().map(|touch| format!("--touch={}", touch.get_name())));
    command.arg("--").arg(trace);
    if let Some(library) = library {
        command.env("LD_PRELOAD", &library.path);
    }
    #[cfg(target_os = "linux")]
    fix_layout(&mut command);
    let output = command.output().context("the system's allocator could not be run")?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("the system's allocator could not be run ({}): {message}", output.status);
    }
    let report: Report = serde_json::from_slice(&output.stdout)
        .context("the system allocator's run is unreadable")?;
    if let Some(library) = library {
        check_loaded(library, report.malloc.as_deref())?;
    }
    Ok(match report.outcome {
        Outcome::Found(found) => Ok(found),
        Outcome::Exhausted { operation, bytes } => Err(Stop::Exhausted { operation, bytes }),
    })
}

/// Has the kernel lay out the process's memory always alike, not at random, so that its heap lies
/// the same way in large pages and a run can be repeated.
#[cfg(target_os = "linux")]
fn fix_layout(command: &mut Command) {
    use std::os::unix::process::CommandExt;

    let fix = || {
        // SAFETY: the call changes how the next program of this process is laid out, no more. Where
        // it is forbidden the layout stays random.
        unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) };
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes one system call; it takes no lock and no
    // memory.
    unsafe { command.pre_exec(fix) };
}

/// Sees that `malloc` lay in the library.
fn check_loaded(library: &Library, malloc: Option<&Path>) -> anyhow::Result<()> {
    let malloc = malloc.unwrap_or(Path::new("an unknown file"));
    if malloc.file_name() != library.path.file_name() {
        let wanted = library.path.display();
        let hint = hint(&library.path.to_string_lossy());
        bail!(
            "{wanted} did not take the place of malloc, which came from {} (is it an allocator's \
             shared library for this machine?{hint})",
            malloc.display()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_library_is_called_by_its_name_and_file() {
        let name = |path: &str| Library::find(Path::new(path)).map(|library| library.name);
        assert_eq!(name("libmimalloc.so.2").unwrap(), "MIMALLOC (libmimalloc.so.2)");
        let missing = name("/none/libmimalloc.so.2").unwrap_err().to_string();
        assert!(missing.contains("no library /none/libmimalloc.so.2; Debian's"), "{missing}");
        assert!(!name("/none/libother.so").unwrap_err().to_string().contains("Debian"));
    }

    #[test]
    fn this_process_knows_where_its_malloc_lies() {
        if cfg!(all(target_os = "linux", target_env = "gnu")) {
            let file = malloc_file().unwrap();
            assert!(file.to_string_lossy().contains("libc.so"), "{}", file.display());
        }
    }
}
