//! The process's number, its standard error, and its exit.

/// Returns the number of this process, which is not 0.
pub(crate) fn process() -> u32 {
    // SAFETY: the call touches no memory of ours.
    unsafe { libc::getpid() as u32 }
}

/// Returns whether the calling thread is the only one of its process for certain. glibc tells from
/// 2.32 on; an older one does not define the variable, whose address is then null.
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64", not(miri)))]
pub(crate) fn is_single_threaded() -> bool {
    let single: *const u8;
    // SAFETY: loads an address that the loader has stored. (A name that may be missing cannot be
    // declared in Rust.)
    unsafe {
        core::arch::asm!(
            ".weak __libc_single_threaded",
            "mov {}, qword ptr [rip + __libc_single_threaded@GOTPCREL]",
            out(reg) single,
            options(nostack, preserves_flags, pure, readonly),
        );
    }
    // SAFETY: null, or the address of glibc's variable, a byte, which only the calling thread
    // changes while it is not 0.
    !single.is_null() && unsafe { single.read_volatile() } != 0
}

/// Returns whether the calling thread is the only one of its process for certain.
#[cfg(not(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64", not(miri))))]
pub(crate) fn is_single_threaded() -> bool {
    false
}

/// Identifies a file among all files that exist: device, number and type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
