//! The process: its standard error, and its end.

/// What tells a file from all others that are there: device, number and type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity(libc::dev_t, libc::ino_t, libc::mode_t);

/// Which file has the number of standard error; `None` if none has.
pub(crate) fn standard_error() -> Option<FileIdentity> {
    // SAFETY: zeros are a valid value of the type, and the call writes no more than that.
    let (answer, file) = unsafe {
        let mut file: libc::stat = core::mem::zeroed();
        (libc::fstat(libc::STDERR_FILENO, &raw mut file), file)
    };
    let identity = FileIdentity(file.st_dev, file.st_ino, file.st_mode & libc::S_IFMT);
    (answer == 0).then_some(identity)
}

/// Whether standard error is a terminal.
pub(crate) fn has_terminal() -> bool {
    // SAFETY: the call touches no memory of ours.
    unsafe { libc::isatty(libc::STDERR_FILENO) == 1 }
}

/// Has a function called when the process exits, or the library that has this code is unloaded. Whether it could be
/// done.
pub(crate) fn at_exit(run: extern "C" fn()) -> bool {
    // SAFETY: the function may run at any time.
    unsafe { libc::atexit(run) == 0 }
}
