//! Output: files, written completely or not at all, and printing. Every failure is an error, never
//! a panic.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Seek, Write};
use std::os::fd::{BorrowedFd, RawFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use pagewise::trace::WriteError;
use serde::Serialize;

use crate::input::STANDARD;
use crate::printable::{printable_json, printable_lines};
use crate::usage::Usage;

/// Whether a file (`-`) has claimed standard output, so that messages go to stderr.
static CLAIMED: AtomicBool = AtomicBool::new(false);

/// Returns whether one of these files is standard output (`-`); messages then go to stderr. Call it
/// before anything is printed.
///
/// # Errors
/// If more than one is.
pub fn claim<'p>(files: impl IntoIterator<Item = &'p Path>) -> Result<bool, Usage> {
    let number = files.into_iter().filter(|path| descriptor(path) == Some(1)).count();
    CLAIMED.store(number > 0, Ordering::Relaxed);
    if number > 1 {
        return Err(Usage("only one file can be standard output".to_owned()));
    }
    Ok(number > 0)
}

/// Prints text to stdout, with nothing in it that a terminal would act on.
///
/// # Errors
/// If it cannot be written. A closed pipe ends the process (see `main`).
pub fn print(text: &str) -> anyhow::Result<()> {
    let text = printable_lines(text);
    if CLAIMED.load(Ordering::Relaxed) {
        return io::stderr().write_all(text.as_bytes()).context("stderr cannot be written");
    }
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.with_context(|| unwritable(Path::new(STANDARD)))
}

/// Prints a line, as [`print()`].
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

/// Returns a value as JSON, on several lines, with nothing in it that a terminal would act on.
///
/// # Errors
/// If the value cannot be JSON.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(printable_json)
}

/// Says something on stderr, with nothing in it that a terminal would act on. If that fails nothing
/// sensible is left to do.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{}", printable_lines(text));
}

/// Returns the number of the open file that a path names: `-` is standard output.
fn descriptor(path: &Path) -> Option<RawFd> {
    match path.to_str()? {
        STANDARD | "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        path => {
            let number = ["/dev/fd/", "/proc/self/fd/"].iter().find_map(|of| path.strip_prefix(of));
            number?.parse().ok()
        }
    }
}

/// Returns whether a path must be written in place and not replaced: standard output, a device, a
/// pipe.
pub fn is_stream(path: &Path) -> bool {
    descriptor(path).is_some() || path.metadata().is_ok_and(|there| !there.is_file())
}

/// That a file cannot be written.
fn unwritable(path: &Path) -> String {
    match descriptor(path) {
        Some(1) => "standard output cannot be written".to_owned(),
        _ => format!("{} cannot be written", path.display()),
    }
}

/// Returns the name of an output for people.
pub fn shown(path: &Path) -> String {
    if path == Path::new(STANDARD) { "standard output".into() } else { path.display().to_string() }
}

/// Writes the output of `write` to a stream once it is complete, since a trace's header is written
/// last.
fn fill_stream<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let open = || match descriptor(path) {
        Some(number) => {
            // SAFETY: nothing here closes the file; if none is open under the number the call fails.
            let shared = unsafe { BorrowedFd::borrow_raw(number) };
            shared.try_clone_to_owned().map(File::from)
        }
        None => File::options().write(true).open(path),
    };
    let mut stream = open().with_context(|| unwritable(path))?;
    let mut whole = tempfile::tempfile().context("cannot make a temporary file for the output")?;
    let result = fill(&whole, write)?;
    let copied = whole.rewind().and_then(|()| io::copy(&mut whole, &mut stream));
    copied.with_context(|| unwritable(path))?;
    Ok(result)
}

/// Returns the folder of a file.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Fails if it is certain that [`create`] could not write one of these files. Call it before a long
/// run, not to run for nothing.
///
/// # Errors
/// A folder, or a file in a folder in which none can be made.
pub fn check<'p>(files: impl IntoIterator<Item = &'p Path>) -> anyhow::Result<()> {
    for path in files {
        anyhow::ensure!(!path.is_dir(), "{}: it is a directory", unwritable(path));
        if !is_stream(path) {
            tempfile::tempfile_in(folder(path)).with_context(|| unwritable(path))?;
        }
    }
    Ok(())
}

/// Creates the file `path`, or replaces it, with the output of `write`. The content grows in a
/// temporary file beside it, which takes its name only when `write` has succeeded. Otherwise, and
/// if a signal ends this process, nothing is left behind, and an existing file stays. Standard
/// output (`-`), a device or a pipe cannot be replaced, and is written in place.
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
    let name = path.file_name().with_context(unwritable)?;
    let mut prefix = std::ffi::OsString::from(".");
    prefix.push(name);
    let temporary = tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".part")
        // `tempfile_in` would name the temporary file in its errors, which the user did not choose.
        .make_in(folder(path), |path| {
            File::options().read(true).write(true).create_new(true).open(path)
        })
        .with_context(unwritable)?;
    let _unfinished = unfinished::Name::new(temporary.path());
    let result = fill(temporary.as_file(), write).map_err(|error| {
        // Other errors of `write` name their own subject.
        if ran_out(&error) { error.context(unwritable()) } else { error }
    })?;
    temporary.persist(path).map_err(|error| error.error).with_context(unwritable)?;
    Ok(result)
}

/// Writes all of a file.
fn fill<T>(
    file: &File,
    write: impl FnOnce(&mut BufWriter<&File>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut buffered = BufWriter::new(file);
    let result = write(&mut buffered)?;
    buffered.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(result)
}

/// Returns whether there was no room for the file.
fn ran_out(error: &anyhow::Error) -> bool {
    const NO_ROOM: [ErrorKind; 3] =
        [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge];
    let mut errors = error.chain().filter_map(|cause| match cause.downcast_ref::<WriteError>() {
        Some(WriteError::Io(error)) => Some(error),
        _ => cause.downcast_ref::<io::Error>(),
    });
    errors.any(|error| NO_ROOM.contains(&error.kind()))
}

/// The file that a signal is to take with it.
mod unfinished {
    use std::ffi::{CString, c_char, c_int};
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;
    use std::ptr;
    use std::sync::atomic::{AtomicPtr, Ordering};

    /// Its name, a C string, or null.
    static NAME: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

    /// The name, while the file grows.
    pub(super) struct Name;

    impl Name {
        pub(super) fn new(path: &Path) -> Self {
            if let Ok(name) = CString::new(path.as_os_str().as_bytes()) {
                NAME.store(name.into_raw(), Ordering::SeqCst);
                [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter().for_each(catch);
            }
            Self
        }
    }

    impl Drop for Name {
        fn drop(&mut self) {
            let name = NAME.swap(ptr::null_mut(), Ordering::SeqCst);
            if !name.is_null() {
                // SAFETY: the name comes from `into_raw`, and no other code has it any more.
                drop(unsafe { CString::from_raw(name) });
            }
        }
    }

    /// Has the signal handled here, unless it is ignored, or a recording handles it.
    fn catch(signal: c_int) {
        // SAFETY: an all-zero `sigaction` is a valid value; the handler does only what a signal
        // handler may do.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, ptr::null(), &raw mut action) == 0;
            if known && action.sa_sigaction == libc::SIG_DFL {
                action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
                libc::sigaction(signal, &raw const action, ptr::null_mut());
            }
        }
    }

    /// Removes the file and ends the process by the same signal.
    extern "C" fn on_signal(signal: c_int) {
        let name = NAME.swap(ptr::null_mut(), Ordering::SeqCst);
        // SAFETY: all three calls are allowed in a handler; the name is a C string or null.
        unsafe {
            if !name.is_null() {
                libc::unlink(name);
            }
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_failure_leaves_what_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        fs::write(&path, "before").unwrap();
        let failed: anyhow::Result<()> = create(&path, |out| {
            out.write_all(b"half")?;
            anyhow::bail!("no")
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"before");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_success_replaces_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        fs::write(&path, "before").unwrap();
        create(&path, |out| Ok(out.write_all(b"after")?)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"after");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_device_is_written_to_and_stays_one() {
        // A name of our own for the device: if the test fails, only that name is replaced.
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("full");
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        let error = create(&path, |out| Ok(out.write_all(b"text")?)).unwrap_err();
        let expected = format!("{} cannot be written: No space left", path.display());
        assert!(format!("{error:#}").starts_with(&expected), "{error:#}");
        assert!(!path.metadata().unwrap().is_file());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_there_is_no_room_for_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let full: anyhow::Result<()> =
            create(&path, |_| Err(io::Error::from(ErrorKind::StorageFull).into()));
        let error = full.unwrap_err();
        assert!(
            format!("{error:#}").starts_with(&format!("{} cannot be written: ", path.display()))
        );
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = create(Path::new("/no/such/directory/out"), |_| Ok(())).unwrap_err();
        let cause = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(
            format!("{error:#}"),
            format!("/no/such/directory/out cannot be written: {cause}")
        );
    }
}
