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
use crate::printable::{printable, printable_json, printable_lines};
use crate::usage::Usage;

/// Whether an output file (`-`) uses standard output, so that messages go to stderr.
static CLAIMED: AtomicBool = AtomicBool::new(false);

/// Names the files that a command will [create]: [checks](check) them, and returns whether one of
/// them is standard output (`-`); messages then go to stderr. Call it before anything is printed.
///
/// # Errors
/// If more than one is standard output; the errors of [`check`].
pub fn claim<'p>(files: impl IntoIterator<Item = &'p Path>) -> anyhow::Result<bool> {
    let mut number = 0;
    for path in files {
        check(path)?;
        number += usize::from(descriptor(path) == Some(1));
    }
    CLAIMED.store(number > 0, Ordering::Relaxed);
    if number > 1 {
        return Err(Usage("only one file can be standard output".to_owned()).into());
    }
    Ok(number > 0)
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
            number?.parse().ok()
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
        _ => format!("{} cannot be written", path.display()),
    }
}

/// Returns an output's name for messages, on one line.
pub fn shown(path: &Path) -> String {
    if path == Path::new(STANDARD) {
        return "standard output".into();
    }
    printable(&path.display().to_string()).into_owned()
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

/// Fails if [`create`] certainly could not write this file. Call it before a long run, so that the
/// run is not in vain.
///
/// # Errors
/// If the path is a folder, or no file can be created in its folder.
pub fn check(path: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(!path.is_dir(), "{}: it is a directory", unwritable(path));
    if !is_stream(path) {
        tempfile::tempfile_in(folder(path)).with_context(|| unwritable(path))?;
    }
    Ok(())
}

/// Creates or replaces the file at `path` with the output of `write`. The output is written to a
/// file in the same folder, which gets this name only when `write` has succeeded. Otherwise, and if
/// a signal ends this process, nothing is left behind, and an existing file is kept. SIGKILL leaves
/// a file `.NAME….part` where the file system has no files without a name. Standard output (`-`), a
/// device or a pipe cannot be replaced, and is written in place.
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
        let file = part.make_in(folder(path), make).with_context(unwritable)?;
        let unfinished = unfinished::Name::new(file.path());
        anyhow::Ok((file, unfinished))
    };
    let ((file, _unfinished), result) = match unnamed::create(folder(path)) {
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
    file.persist(path).map_err(|error| error.error).with_context(unwritable)?;
    Ok(result)
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
fn ran_out(error: &anyhow::Error) -> bool {
    const NO_ROOM: [ErrorKind; 3] =
        [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge];
    let mut errors = error.chain().filter_map(|cause| match cause.downcast_ref::<WriteError>() {
        Some(WriteError::Io(error)) => Some(error),
        _ => cause.downcast_ref::<io::Error>(),
    });
    errors.any(|error| NO_ROOM.contains(&error.kind()))
}

/// Files without a name, which no process leaves behind however it ends.
#[cfg(target_os = "linux")]
mod unnamed {
    use std::ffi::CString;
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;

    /// Creates a file that can get a name in this folder.
    pub(super) fn create(folder: &Path) -> io::Result<File> {
        let file =
            File::options().read(true).write(true).custom_flags(libc::O_TMPFILE).open(folder)?;
        // Without `/proc` it could not be linked.
        Path::new(&path(&file)).symlink_metadata()?;
        Ok(file)
    }

    /// Gives a file this name, and returns it.
    pub(super) fn link(file: &File, name: &Path) -> io::Result<File> {
        let (from, to) = (CString::new(path(file))?, CString::new(name.as_os_str().as_bytes())?);
        let (here, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
        // SAFETY: both are C strings.
        match unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), follow) } {
            0 => file.try_clone(),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn path(file: &File) -> String {
        format!("/proc/self/fd/{}", file.as_raw_fd())
    }
}

#[cfg(not(target_os = "linux"))]
mod unnamed {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    pub(super) fn create(_: &Path) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn link(_: &File, _: &Path) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The unfinished file, which a signal must remove.
mod unfinished {
    use std::ffi::{CString, c_char, c_int};
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;
    use std::ptr;
    use std::sync::atomic::{AtomicPtr, Ordering};

    /// Its name, a C string, or null.
    static NAME: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

    /// Sets the name while the file is being written.
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
                // SAFETY: the name comes from `into_raw`, and no other code uses it any more.
                drop(unsafe { CString::from_raw(name) });
            }
        }
    }

    /// Handles the signal here, unless it is ignored, or a recording handles it.
    fn catch(signal: c_int) {
        // SAFETY: an all-zero `sigaction` is a valid value; the handler is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, ptr::null(), &raw mut action) == 0;
            if known && action.sa_sigaction == libc::SIG_DFL {
                action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
                libc::sigaction(signal, &raw const action, ptr::null_mut());
            }
        }
    }

    /// Removes the file and ends the process with the same signal.
    extern "C" fn on_signal(signal: c_int) {
        let name = NAME.swap(ptr::null_mut(), Ordering::SeqCst);
        // SAFETY: all three calls are async-signal-safe; the name is a C string or null.
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
    fn a_failure_keeps_the_old_file() {
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

    /// SIGKILL left it behind. The new file has the permissions that any has.
    #[test]
    #[cfg(target_os = "linux")]
    fn an_unfinished_file_has_no_name() {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().unwrap();
        let names = || fs::read_dir(directory.path()).unwrap().count();
        let (path, other) = (directory.path().join("out"), directory.path().join("other"));
        let left = create(&path, |out| {
            out.write_all(b"half")?;
            out.flush()?;
            Ok(names())
        });
        let is_possible = unnamed::create(directory.path()).is_ok();
        assert_eq!(left.unwrap(), usize::from(!is_possible));
        fs::write(&other, "").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode();
        assert_eq!((mode(&path), names()), (mode(&other), 2));
    }

    #[test]
    fn a_device_is_written_to_and_stays_one() {
        // A link of our own to the device: if the test fails, only the link is replaced.
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
    fn a_file_without_disk_space_is_named() {
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
    fn a_missing_directory_is_named() {
        let error = create(Path::new("/no/such/directory/out"), |_| Ok(())).unwrap_err();
        let cause = io::Error::from_raw_os_error(libc::ENOENT);
        assert_eq!(
            format!("{error:#}"),
            format!("/no/such/directory/out cannot be written: {cause}")
        );
    }
}
