//! The process: its standard error, and whose word it takes.

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

/// A number that nobody outside can foretell; where the system has none to give, one that is hard to.
pub(crate) fn random() -> u64 {
    let mut number = 0_u64;
    // SAFETY: the call writes no more than the number's bytes; the other touches no memory of ours.
    unsafe {
        let bytes = size_of::<u64>();
        let got = libc::syscall(libc::SYS_getrandom, &raw mut number, bytes, libc::GRND_NONBLOCK);
        if usize::try_from(got).ok() != Some(bytes) {
            let mut time: libc::timespec = core::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time);
            let place = super::threads::thread_address() as u64;
            number =
                (place ^ (time.tv_nsec as u64).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }
    number
}

/// Whether standard error is a terminal.
pub(crate) fn has_terminal() -> bool {
    // SAFETY: the call touches no memory of ours.
    unsafe { libc::isatty(libc::STDERR_FILENO) == 1 }
}

/// Whether the process has more rights than the user who started it (setuid, file capabilities): its
/// environment is then that user's, and not to be trusted.
pub(crate) fn is_privileged() -> bool {
    // SAFETY: the call touches no memory of ours. Miri does not know it.
    !cfg!(miri) && unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Has a function called when the process exits, or the library that has this code is unloaded. Whether it could be
/// done.
pub(crate) fn at_exit(run: extern "C" fn()) -> bool {
    // SAFETY: the function may run at any time.
    unsafe { libc::atexit(run) == 0 }
}
