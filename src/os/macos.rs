//! macOS: what it alone knows of the calling thread.

/// The number the system knows the calling thread by, its lower half.
pub(crate) fn thread_id() -> i32 {
    let mut number = 0;
    // SAFETY: no thread is the calling one; the call writes the number.
    unsafe { libc::pthread_threadid_np(core::mem::zeroed(), &raw mut number) };
    number as i32
}
