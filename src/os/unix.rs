//! What every Unix does by the same calls.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

/// Size of an OS page in bytes, asked for once.
pub(crate) fn page_size() -> usize {
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    match SIZE.load(Relaxed) {
        0 => {
            // SAFETY: the call touches no memory of ours.
            let size = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) });
            let size = size.ok().filter(|size| size.is_power_of_two()).unwrap_or(4096);
            SIZE.store(size, Relaxed);
            size
        }
        size => size,
    }
}

/// Maps `len` bytes of zeros, of which only what is touched takes memory, or counts as taken; `None` if
/// the system refuses.
pub(crate) fn map_lazily(len: usize) -> Option<NonNull<u8>> {
    // The BSDs without the flag never count what is not touched, and Miri knows no flag.
    #[cfg(not(any(target_os = "freebsd", target_os = "dragonfly", miri)))]
    const UNCOUNTED: libc::c_int = libc::MAP_NORESERVE;
    #[cfg(any(target_os = "freebsd", target_os = "dragonfly", miri))]
    const UNCOUNTED: libc::c_int = 0;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | UNCOUNTED;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no memory in use.
    let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED { None } else { NonNull::new(base.cast()) }
}

/// Takes a [lazy](map_lazily) mapping back.
///
/// # Safety
/// `base` was mapped so with `len` bytes, and nothing uses it any more.
pub(crate) unsafe fn unmap(base: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(base.as_ptr().cast(), len) };
}

/// Ends the process with one line on standard error.
#[cold]
pub(crate) fn stop(message: &[u8]) -> ! {
    write(message);
    abort()
}

/// Ends the process.
pub(crate) fn abort() -> ! {
    // SAFETY: `abort` does not return.
    unsafe { libc::abort() }
}

/// Keeps the calling thread from being cancelled while this lives. Calls that wait are where a thread ends that another
/// cancelled: it would not come back from the allocator, which may hold locks, or be about to stop the process.
pub(crate) struct Uncancelled(c_int);

#[cfg(all(any(target_os = "linux", target_os = "macos", target_os = "freebsd"), not(miri)))]
mod cancel {
    use core::ffi::c_int;

    unsafe extern "C" {
        /// POSIX's function.
        pub(super) fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }

    /// That a thread cannot be cancelled.
    pub(super) const DISABLE: c_int = if cfg!(target_os = "macos") { 0 } else { 1 };
}

/// Elsewhere threads are not cancelled.
#[cfg(not(all(any(target_os = "linux", target_os = "macos", target_os = "freebsd"), not(miri))))]
mod cancel {
    use core::ffi::c_int;

    pub(super) unsafe fn pthread_setcancelstate(_: c_int, _: *mut c_int) -> c_int {
        0
    }

    pub(super) const DISABLE: c_int = 0;
}

impl Uncancelled {
    pub(crate) fn new() -> Self {
        let mut before = 0;
        // SAFETY: the call writes the thread's state of before.
        unsafe { cancel::pthread_setcancelstate(cancel::DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the call writes a state.
        unsafe { cancel::pthread_setcancelstate(self.0, &raw mut self.0) };
    }
}

/// Writes to standard error. If that cannot be done, nobody can be told.
pub(crate) fn write(mut message: &[u8]) {
    let _uncancelled = Uncancelled::new();
    while !message.is_empty() {
        // SAFETY: the message is valid for reads of its length.
        let written = unsafe { libc::write(2, message.as_ptr().cast::<c_void>(), message.len()) };
        match usize::try_from(written) {
            Ok(written) => message = &message[written..],
            Err(_) if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {
            }
            Err(_) => return,
        }
    }
}

/// Has these called before each fork, and after it in the parent and in the child. The system may
/// allocate for it; where it has no memory, forks go unnoticed.
///
/// # Safety
/// The handlers may run at any time.
pub(crate) unsafe fn at_fork(
    before: Option<unsafe extern "C" fn()>,
    in_parent: Option<unsafe extern "C" fn()>,
    in_child: Option<unsafe extern "C" fn()>,
) {
    // Miri has no `fork`.
    if cfg!(not(miri)) {
        // SAFETY: the caller's promise.
        unsafe { libc::pthread_atfork(before, in_parent, in_child) };
    }
}
