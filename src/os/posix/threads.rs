//! The calling thread, and threads of our own.

use core::ffi::{c_int, c_void};
use core::ptr;

use crate::os::{Uncancelled, errno_location};

/// Returns an address that belongs to the calling thread alone.
#[inline]
pub(crate) fn thread_address() -> usize {
    errno_location().addr()
}

/// Restores the calling thread's `errno` when dropped: `free` must not change it.
pub(crate) struct KeepErrno(c_int);

impl KeepErrno {
    pub(crate) fn new() -> Self {
        // SAFETY: the location is the calling thread's own and always valid.
        Self(unsafe { *errno_location() })
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { *errno_location() = self.0 };
    }
}

/// Stack size of our threads in bytes.
const STACK: usize = 128 << 10;

/// Starts a thread with every signal blocked and a small stack; `None` if the system refuses.
pub(crate) fn start_thread(run: extern "C" fn(*mut c_void) -> *mut c_void) -> Option<usize> {
    // SAFETY: the calls initialise what they write to, and it outlives them. The calling thread's
    // signals are blocked only while the new thread is created, which inherits the mask.
    unsafe {
        let mut all = core::mem::zeroed();
        let mut before = core::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let mut attributes = core::mem::zeroed();
        let mut thread: libc::pthread_t = core::mem::zeroed();
        let mut made = false;
        if libc::pthread_attr_init(&raw mut attributes) == 0 {
            // The system refuses this size if the program's thread-local memory does not fit.
            libc::pthread_attr_setstacksize(&raw mut attributes, STACK);
            made =
                libc::pthread_create(&raw mut thread, &raw const attributes, run, ptr::null_mut())
                    == 0;
            libc::pthread_attr_destroy(&raw mut attributes);
        }
        if !made {
            let none = ptr::null();
            made = libc::pthread_create(&raw mut thread, none, run, ptr::null_mut()) == 0;
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
        made.then_some(thread as usize)
    }
}

/// Returns `false`: the system is not asked whether other threads still run.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_last_thread() -> bool {
    false
}

/// Starts a thread that ends after `thread`, the calling one, which is from [`start_thread`]. If
/// there are no others, the C library then ends the process: it calls the program's exit functions,
/// which need a usual stack, and signals. If the system refuses the thread, they get the calling
/// one's.
pub(crate) fn start_successor(thread: usize) {
    extern "C" fn run(predecessor: *mut c_void) -> *mut c_void {
        join_thread(predecessor.addr());
        // SAFETY: the call reads an empty set of signals.
        unsafe {
            let mut none = core::mem::zeroed();
            libc::sigemptyset(&raw mut none);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        }
        ptr::null_mut()
    }
    let thread = ptr::without_provenance_mut(thread);
    // SAFETY: the calls write a thread's handle; null stands for the usual attributes.
    unsafe {
        let mut successor: libc::pthread_t = core::mem::zeroed();
        if libc::pthread_create(&raw mut successor, ptr::null(), run, thread) == 0 {
            libc::pthread_detach(successor);
        }
    }
}

/// Waits until a thread from [`start_thread`] ends.
pub(crate) fn join_thread(thread: usize) {
    let _uncancelled = Uncancelled::new();
    // SAFETY: the thread was started here, and is joined only once.
    unsafe { libc::pthread_join(thread as libc::pthread_t, ptr::null_mut()) };
}
