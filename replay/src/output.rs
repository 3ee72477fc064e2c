//! Output: files, written completely or not at all, and printing. Every failure is an error, never
//! a panic.

mod apart;
mod names;
mod unfinished;
mod unnamed;

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, BufWriter, ErrorKind, Seek, Write};
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use pagewise::trace::WriteError;
use serde::Serialize;

use self::names::folder;
pub use self::names::shown;
use crate::input::STANDARD;
use crate::printable::{printable_json, printable_lines};
use crate::usage::Usage;

/// Whether an output file (`-`) uses standard output, so that messages go to stderr.
static CLAIMED: AtomicBool = AtomicBool::new(false);

/// Whether there is no standard output.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Says that this process was started without standard output. Rust's runtime opened `/dev/null` in
/// its place, so writes to it seem to succeed.
pub fn have_no_standard_output() {
    CLOSED.store(true, Ordering::Relaxed);
}

/// Returns the error that writing to a closed file would have been.
fn standard_output() -> anyhow::Result<()> {
    let closed = CLOSED.load(Ordering::Relaxed).then(|| io::Error::from_raw_os_error(libc::EBADF));
    closed.map_or(Ok(()), Err).with_context(|| unwritable(Path::new(STANDARD)))
}

/// Names the files that a command will read, and those that it will [create]: [checks](check) the
/// latter, and returns whether one of them is standard output (`-`); messages then go to stderr.
/// Call it before anything is printed.
///
/// # Errors
/// If one would replace a file to read or another one, or more than one is standard output; the
/// errors of [`check`].
pub fn claim<'p>(
    read: impl IntoIterator<Item = &'p Path>,
    files: impl IntoIterator<Item = &'p Path>,
) -> anyhow::Result<bool> {
    let files: Vec<_> = files.into_iter().collect();
    for path in &files {
        check(path)?;
    }
    let number = files.iter().filter(|path| descriptor(path) == Some(1)).count();
    CLAIMED.store(number > 0, Ordering::Relaxed);
    if number > 1 {
        return Err(Usage("only one file can be standard output".to_owned()).into());
    }
    apart::check(read, &files)?;
    Ok(number > 0)
}

/// Returns whether two paths name the same file, which exists.
pub fn are_same(one: &Path, other: &Path) -> bool {
    apart::are_same(one, other)
}

/// Prints text to stdout, without terminal control sequences.
///
/// # Errors
/// If it cannot be written. A closed pipe ends the process (see `main`).
pub fn print(text: &str) -> anyhow::Result<()> {
    let text = printable_lines(text);
    if CLAIMED.load(Ordering::Relaxed) {
        return io::stderr().write_all(text.as_bytes()).context("stderr cannot be written");
    }
    standard_output()?;
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.with_context(|| unwritable(Path::new(STANDARD)))
}

/// Prints a line, like [`print()`].
///
/// # Errors
/// As [`print()`].
pub fn print_line(line: &str) -> anyhow::Result<()> {
    print(&format!("{line}\n"))
}

/// Prints a value as JSON, on several lines.
///
/// # Errors
/// As [`print()`].
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print_line(&json(value)?)
}

/// Formats a value as JSON, on several lines, without terminal control sequences.
///
/// # Errors
/// If the value cannot be represented in JSON.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(printable_json)
}

/// Prints a message on stderr, without terminal control sequences. Failure is ignored, because
/// there is nowhere to report it.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{}", printable_lines(text));
}

/// Returns the descriptor of the open file that a path denotes: `-` is standard output.
fn descriptor(path: &Path) -> Option<RawFd> {
    match path.to_str()? {
        STANDARD | "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        path => {
            let number = ["/dev/fd/", "/proc/self/fd/"].iter().find_map(|of| path.strip_prefix(of));
            // Digits alone: no descriptor has a sign.
            number.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
        }
    }
}

/// Returns whether a path must be written in place, not replaced: standard output, a device, a
/// pipe.
pub fn is_stream(path: &Path) -> bool {
    descriptor(path).is_some() || path.metadata().is_ok_and(|there| !there.is_file())
}

/// The message for a file that cannot be written.
fn unwritable(path: &Path) -> String {
    match descriptor(path) {
        Some(1) => "standard output cannot be written".to_owned(),
        _ => format!("{} cannot be written", shown(path)),
    }
}

/// Writes the output of `write` to a stream only when complete, since a trace's header is written
/// last.
fn fill_stream<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let open = || match descriptor(path) {
        Some(number) => {
            // SAFETY: nothing here closes the file; if no file has this descriptor, the call fails.
            let shared = unsafe { BorrowedFd::borrow_raw(number) };
            shared.try_clone_to_owned().map(File::from)
        }
        None => File::options().write(true).open(path),
    };
    let mut stream = open().with_context(|| unwritable(path))?;
    let mut whole =
        tempfile::tempfile().context("a temporary file for the output cannot be made")?;
    let unspaced = "a temporary file for the output cannot be written";
    let result = fill(&whole, write)
        .map_err(|error| if ran_out(&error) { error.context(unspaced) } else { error })?;
    let copied = whole.rewind().and_then(|()| io::copy(&mut whole, &mut stream));
    copied.with_context(|| unwritable(path))?;
    Ok(result)
}

/// Fails if [`create`] certainly could not write this file. Call it before a long run, so that the
/// run is not in vain.
///
/// # Errors
/// If the path is a folder or cannot be a file's, or no file can be created in its folder; if it is
/// standard output, and that is closed.
pub fn check(path: &Path) -> anyhow::Result<()> {
    let is_folder = path.is_dir() || path.as_os_str().as_bytes().ends_with(b"/");
    anyhow::ensure!(!is_folder, "{}: it is a directory", unwritable(path));
    if descriptor(path) == Some(libc::STDOUT_FILENO) {
        standard_output()?;
    }
    if !is_stream(path) {
        let there = path.symlink_metadata().map(drop);
        let usable = there.or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(()),
            // Such as a name that is too long.
            _ => Err(error),
        });
        usable.with_context(|| unwritable(path))?;
        let target = names::target(path).with_context(|| unwritable(path))?;
        tempfile::tempfile_in(folder(&target)).with_context(|| unwritable(path))?;
    }
    Ok(())
}

/// Maximum bytes of a file's name at the beginning of that of its unfinished file; a name has at
/// most 255.
const LONGEST_PREFIX: usize = 200;

/// Refuses to replace a file under a name that the user did not choose, unless `is_ours` finds that
/// pagewise wrote it: `what` it would then be.
///
/// # Errors
/// If there is such a file.
pub fn check_default(
    path: &Path,
    what: &str,
    is_ours: impl FnOnce(&Path) -> bool,
) -> Result<(), Usage> {
    if path.symlink_metadata().is_err() || is_ours(path) {
        return Ok(());
    }
    Err(Usage(format!("{} is there already, and is not {what}: name a file with -o", shown(path))))
}

/// Creates or replaces the file at `path` with the output of `write`. The output is written to a
/// file in the same folder, which gets this name only when `write` has succeeded. Otherwise, and if
/// a signal ends this process, nothing is left behind, and an existing file is kept. The new file
/// has the owner and permissions of the one that it replaces, and links to that lead to it. SIGKILL
/// leaves a file `.NAME….part` where the file system has no files without a name. Standard output
/// (`-`), a device or a pipe cannot be replaced, and is written in place.
///
/// # Errors
/// If the file cannot be created; the errors of `write`.
pub fn create<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let unwritable = || unwritable(path);
    if is_stream(path) {
        return fill_stream(path, write);
    }
    let target = names::target(path).with_context(unwritable)?;
    let folder = folder(&target);
    let name = target.file_name().with_context(unwritable)?;
    // With the rest it must not be longer than a name can be.
    let name = name.as_bytes();
    let mut prefix = OsString::from(".");
    prefix.push(OsStr::from_bytes(&name[..name.len().min(LONGEST_PREFIX)]));
    let mut part = tempfile::Builder::new();
    part.prefix(&prefix).suffix(".part");
    let fill = |file: &File| {
        fill(file, write).map_err(|error| {
            // Other errors of `write` name the file themselves.
            if ran_out(&error) { error.context(unwritable()) } else { error }
        })
    };
    // `tempfile_in` would name the temporary file in its errors, which the user did not choose.
    let named = |make: &dyn Fn(&Path) -> io::Result<File>| {
        let file = part.make_in(folder, make).with_context(unwritable)?;
        let unfinished = unfinished::Name::new(file.path());
        anyhow::Ok((file, unfinished))
    };
    let ((file, _unfinished), result) = match unnamed::create(folder) {
        Ok(whole) => {
            let result = fill(&whole)?;
            (named(&|name| unnamed::link(&whole, name))?, result)
        }
        Err(_) => {
            let open =
                |name: &Path| File::options().read(true).write(true).create_new(true).open(name);
            let made = named(&open)?;
            let result = fill(made.0.as_file())?;
            (made, result)
        }
    };
    if let Ok(replaced) = target.metadata() {
        resemble(file.as_file(), &replaced).with_context(unwritable)?;
    }
    file.persist(&target).map_err(|error| error.error).with_context(unwritable)?;
    Ok(result)
}

/// Gives a new file the permissions of the one that it replaces, and its owner, as far as the
/// system allows that.
fn resemble(file: &File, replaced: &Metadata) -> io::Result<()> {
    let made = file.metadata()?;
    if (made.uid(), made.gid()) != (replaced.uid(), replaced.gid()) {
        let _ = fchown(file, Some(replaced.uid()), Some(replaced.gid()));
    }
    file.set_permissions(Permissions::from_mode(replaced.mode() & 0o777))
}

/// Writes a complete file.
fn fill<T>(
    file: &File,
    write: impl FnOnce(&mut BufWriter<&File>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut buffered = BufWriter::new(file);
    let result = write(&mut buffered)?;
    buffered.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(result)
}

/// Returns whether there was no space for the file.
pub fn ran_out(error: &anyhow::Error) -> bool {
    const NO_ROOM: [ErrorKind; 3] =
        [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge];
    let mut errors = error.chain().filter_map(|cause| match cause.downcast_ref::<WriteError>() {
        Some(WriteError::Io(error)) => Some(error),
        _ => cause.downcast_ref::<io::Error>(),
    });
    errors.any(|error| NO_ROOM.contains(&error.kind()))
}

#[cfg(test)]
mod tests;
