//! FreeBSD: what it alone knows of the calling thread; and waiting for a word to change.

use core::ffi::c_ulong;
use core::ptr;
use core::sync::atomic::AtomicU32;

/// The number the system knows the calling thread by.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: the call may be made at any time.
    unsafe { libc::pthread_getthreadid_np() }
}

/// Sleeps while `word` has this value, until woken, or for no reason. Where that is refused, others go first.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    sleep(word, value, None);
}

/// As [`wait`], but for at most this many milliseconds.
pub(crate) fn wait_for(word: &AtomicU32, value: u32, milliseconds: u64) {
    // An hour is enough for everybody.
    sleep(word, value, Some(milliseconds.min(3_600_000)));
}

fn sleep(word: &AtomicU32, value: u32, milliseconds: Option<u64>) {
    // SAFETY: all zeros is a value. Without a flag the time is relative.
    let mut timeout: libc::_umtx_time = unsafe { core::mem::zeroed() };
    let (mut len, mut place) = (0, ptr::null_mut());
    if let Some(milliseconds) = milliseconds {
        timeout._timeout.tv_sec = (milliseconds / 1000) as libc::time_t;
        timeout._timeout.tv_nsec = (milliseconds % 1000 * 1_000_000) as libc::c_long;
        timeout._clockid = libc::CLOCK_MONOTONIC as u32;
        (len, place) = (size_of_val(&timeout), (&raw mut timeout).cast());
    }
    let operation = libc::UMTX_OP_WAIT_UINT_PRIVATE;
    // SAFETY: the word and the timeout live as long as the call, which takes the timeout's length for a pointer.
    unsafe {
        let word = word.as_ptr().cast();
        let len = ptr::without_provenance_mut(len);
        if libc::_umtx_op(word, operation, c_ulong::from(value), len, place) != 0 {
            libc::sched_yield();
        }
    }
}

/// Wakes one of those who [wait](wait) for the word.
pub(crate) fn wake(word: &AtomicU32) {
    wake_some(word, 1);
}

/// Wakes all who [wait](wait) for the word.
pub(crate) fn wake_all(word: &AtomicU32) {
    wake_some(word, i32::MAX as c_ulong);
}

fn wake_some(word: &AtomicU32, most: c_ulong) {
    let (operation, none) = (libc::UMTX_OP_WAKE_PRIVATE, ptr::null_mut());
    // SAFETY: waking touches no memory.
    unsafe { libc::_umtx_op(word.as_ptr().cast(), operation, most, none, none) };
}
