//! FreeBSD: the calling thread's number, and waiting for a word to change (`_umtx_op`).

use core::ffi::c_ulong;
use core::ptr;
use core::sync::atomic::AtomicU32;

/// Returns the system's number for the calling thread.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: the call may be made at any time.
    unsafe { libc::pthread_getthreadid_np() }
}

/// Sleeps while `word` has the value `value`, until woken; may also return for no reason. Yields
/// where the system refuses to wait.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    sleep(word, value, None);
}

/// Waits as [`wait`] does, for at most `milliseconds`.
pub(crate) fn wait_for(word: &AtomicU32, value: u32, milliseconds: u64) {
    // An hour is long enough for every caller.
    sleep(word, value, Some(milliseconds.min(3_600_000)));
}

fn sleep(word: &AtomicU32, value: u32, milliseconds: Option<u64>) {
    // SAFETY: all zeros is a valid value. Without a flag the timeout is relative.
    let mut timeout: libc::_umtx_time = unsafe { core::mem::zeroed() };
    let (mut len, mut place) = (0, ptr::null_mut());
    if let Some(milliseconds) = milliseconds {
        timeout._timeout.tv_sec = (milliseconds / 1000) as libc::time_t;
        timeout._timeout.tv_nsec = (milliseconds % 1000 * 1_000_000) as libc::c_long;
        timeout._clockid = libc::CLOCK_MONOTONIC as u32;
        (len, place) = (size_of_val(&timeout), (&raw mut timeout).cast());
    }
    let operation = libc::UMTX_OP_WAIT_UINT_PRIVATE;
    // SAFETY: the word and the timeout outlive the call, which takes the timeout's length in place
    // of a pointer.
    unsafe {
        let word = word.as_ptr().cast();
        let len = ptr::without_provenance_mut(len);
        if libc::_umtx_op(word, operation, c_ulong::from(value), len, place) != 0 {
            libc::sched_yield();
        }
    }
}

/// Wakes one thread that [waits](wait) for `word`.
pub(crate) fn wake(word: &AtomicU32) {
    wake_some(word, 1);
}

/// Wakes all threads that [wait] for `word`.
pub(crate) fn wake_all(word: &AtomicU32) {
    wake_some(word, i32::MAX as c_ulong);
}

fn wake_some(word: &AtomicU32, most: c_ulong) {
    let (operation, none) = (libc::UMTX_OP_WAKE_PRIVATE, ptr::null_mut());
    // SAFETY: waking touches no memory.
    unsafe { libc::_umtx_op(word.as_ptr().cast(), operation, most, none, none) };
}
