//! The process's number, its standard error, and its exit.

/// Returns the number of this process, which is not 0.
pub(crate) fn process() -> u32 {
    // SAFETY: the call touches no memory of ours.
    unsafe { libc::getpid() as u32 }
}

/// Identifies a file among all files that exist: device, number and type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity(libc::dev_t, libc::ino_t, libc::mode_t);

/// Returns the identity of standard error's file, or `None` if the descriptor is closed.
pub(crate) fn standard_error() -> Option<FileIdentity> {
    // SAFETY: all zeros is a valid value, and the call writes at most one.
    let (answer, file) = unsafe {
        let mut file: libc::stat = core::mem::zeroed();
        (libc::fstat(libc::STDERR_FILENO, &raw mut file), file)
    };
    let identity = FileIdentity(file.st_dev, file.st_ino, file.st_mode & libc::S_IFMT);
    (answer == 0).then_some(identity)
}

/// Returns whether standard error is a terminal.
pub(crate) fn has_terminal() -> bool {
    // SAFETY: the call touches no memory of ours.
    unsafe { libc::isatty(libc::STDERR_FILENO) == 1 }
}

/// Registers a function to call when the process exits, or when the library with this code is
/// unloaded. Returns whether it did.
pub(crate) fn at_exit(run: extern "C" fn()) -> bool {
    // SAFETY: the function may run at any time.
    unsafe { libc::atexit(run) == 0 }
}
