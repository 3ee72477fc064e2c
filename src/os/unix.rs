//! Calls that are the same on every Unix.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

/// Returns the size of an OS page in bytes; asks the system once.
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

/// Maps `len` bytes of zeros. Only pages that are touched take memory, or count as taken. Returns
/// `None` if the system refuses.
pub(crate) fn map_lazily(len: usize) -> Option<NonNull<u8>> {
    // The BSDs without the flag never count untouched pages; Miri does not know the flag.
    #[cfg(not(any(target_os = "freebsd", target_os = "dragonfly", miri)))]
    const UNCOUNTED: libc::c_int = libc::MAP_NORESERVE;
    #[cfg(any(target_os = "freebsd", target_os = "dragonfly", miri))]
    const UNCOUNTED: libc::c_int = 0;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | UNCOUNTED;
    // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no memory in
    // use.
    let base = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
    if base == libc::MAP_FAILED { None } else { NonNull::new(base.cast()) }
}

/// Unmaps a [lazy](map_lazily) mapping.
///
/// # Safety
/// `base` came from [`map_lazily`] with this `len`, and the mapping is no longer used.
pub(crate) unsafe fn unmap(base: NonNull<u8>, len: usize) {
    // SAFETY: the caller guarantees that the mapping is whole and unused.
    unsafe { libc::munmap(base.as_ptr().cast(), len) };
}

/// Writes one line on standard error and ends the process.
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

/// Keeps the calling thread from being cancelled until it is dropped. POSIX ends a cancelled thread
/// within calls that wait. The thread would then never return from the allocator, which may hold
/// locks or be about to stop the process.
pub(crate) struct Uncancelled(c_int);

#[cfg(all(any(target_os = "linux", target_os = "macos", target_os = "freebsd"), not(miri)))]
mod cancel {
    use core::ffi::c_int;

    unsafe extern "C" {
        /// As in POSIX.
        pub(super) fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }

    /// The state in which a thread cannot be cancelled.
    pub(super) const DISABLE: c_int = if cfg!(target_os = "macos") { 0 } else { 1 };
}

/// On other systems, threads are not cancelled.
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
        // SAFETY: the call writes the thread's previous state.
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

/// While this lives, a write of the calling thread that fails sends it no signal. A write to a pipe
/// that nobody reads (SIGPIPE), or beyond the limit on files (SIGXFSZ), would end the program.
pub(crate) struct Unsignalled {
    /// The signals that were blocked before; `None` if the system refused to block more.
    before: Option<libc::sigset_t>,
    /// The signals that a write may send, without those that the program has not received yet.
    sent: libc::sigset_t,
}

impl Unsignalled {
    const SIGNALS: [c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

    pub(crate) fn new() -> Self {
        // SAFETY: all zeros is a valid value, and the calls write at most one set each.
        unsafe {
            let (mut before, mut sent) = (core::mem::zeroed(), core::mem::zeroed());
            libc::sigemptyset(&raw mut sent);
            // Miri has no signals.
            if cfg!(miri) {
                return Self { before: None, sent };
            }
            for signal in Self::SIGNALS {
                libc::sigaddset(&raw mut sent, signal);
            }
            if libc::pthread_sigmask(libc::SIG_BLOCK, &raw const sent, &raw mut before) != 0 {
                libc::sigemptyset(&raw mut sent);
                return Self { before: None, sent };
            }
            for signal in Self::SIGNALS {
                // Only a signal that was blocked can have been sent and not be received.
                if libc::sigismember(&raw const before, signal) == 1 && is_pending(signal) {
                    libc::sigdelset(&raw mut sent, signal);
                }
            }
            Self { before: Some(before), sent }
        }
    }

    /// Receives the signal that a write sent, which failed with this error.
    pub(crate) fn receive(&self, error: c_int) {
        let signal = match error {
            libc::EPIPE => libc::SIGPIPE,
            libc::EFBIG => libc::SIGXFSZ,
            _ => return,
        };
        // SAFETY: all zeros is a valid value, and the calls write at most one set, and one number.
        unsafe {
            if libc::sigismember(&raw const self.sent, signal) == 1 && is_pending(signal) {
                let mut one = core::mem::zeroed();
                let mut received = 0;
                libc::sigemptyset(&raw mut one);
                libc::sigaddset(&raw mut one, signal);
                libc::sigwait(&raw const one, &raw mut received);
            }
        }
    }
}

impl Drop for Unsignalled {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: the set is the one that the thread had.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, core::ptr::null_mut()) };
        }
    }
}

/// Returns whether a signal was sent that the calling thread blocks.
fn is_pending(signal: c_int) -> bool {
    // SAFETY: all zeros is a valid value, and the call writes at most one set.
    unsafe {
        let mut pending = core::mem::zeroed();
        libc::sigpending(&raw mut pending) == 0
            && libc::sigismember(&raw const pending, signal) == 1
    }
}

/// Writes to standard error. Ignores failure: there is nowhere else to report it.
pub(crate) fn write(mut message: &[u8]) {
    let _uncancelled = Uncancelled::new();
    let unsignalled = Unsignalled::new();
    while !message.is_empty() {
        // SAFETY: the message is valid for reads of its length.
        let written = unsafe { libc::write(2, message.as_ptr().cast::<c_void>(), message.len()) };
        match usize::try_from(written) {
            Ok(written) => message = &message[written..],
            Err(_) => match errno() {
                libc::EINTR => {}
                error => return unsignalled.receive(error),
            },
        }
    }
}

/// Registers handlers to call before each fork, and after it in the parent and in the child. The
/// system may allocate for this. If it lacks memory, no handler is called.
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
        // SAFETY: the caller guarantees that the handlers may run at any time.
        unsafe { libc::pthread_atfork(before, in_parent, in_child) };
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Sends the calling thread SIGXFSZ, as a write beyond the limit on files does.
    fn send() {
        // SAFETY: the signal is blocked.
        unsafe { libc::raise(libc::SIGXFSZ) };
    }

    /// The signal of a write that failed is received, and one that the program blocked, and was
    /// sent before, is left to the program.
    #[test]
    fn only_the_signal_of_a_write_is_received() {
        let failed = || {
            let unsignalled = Unsignalled::new();
            send();
            unsignalled.receive(libc::EFBIG);
            assert!(!is_pending(libc::SIGXFSZ));
        };
        failed();
        let outer = Unsignalled::new();
        failed();
        send();
        let inner = Unsignalled::new();
        send();
        inner.receive(libc::EFBIG);
        drop(inner);
        assert!(is_pending(libc::SIGXFSZ));
        outer.receive(libc::EFBIG);
        assert!(!is_pending(libc::SIGXFSZ));
    }

    /// If the system refused to block the signals, the thread's mask stays as it is.
    #[test]
    fn a_mask_that_was_not_changed_is_not_restored() {
        let outer = Unsignalled::new();
        drop(Unsignalled { before: None, sent: outer.sent });
        // It would end the process if it were not blocked.
        send();
        outer.receive(libc::EFBIG);
        assert!(!is_pending(libc::SIGXFSZ));
    }
}

/// Returns the calling thread's `errno`.
pub(crate) fn errno() -> c_int {
    #[cfg(feature = "std")]
    return std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
    // SAFETY: the location is the calling thread's own and always valid.
    #[cfg(not(feature = "std"))]
    unsafe {
        *crate::os::errno_location()
    }
}
