//! macOS: the calling thread's number.

/// Returns the lower half of the system's number for the calling thread.
pub(crate) fn thread_id() -> i32 {
    let mut number = 0;
    // SAFETY: thread 0 stands for the calling thread; the call writes the number.
    unsafe { libc::pthread_threadid_np(core::mem::zeroed(), &raw mut number) };
    number as i32
}
