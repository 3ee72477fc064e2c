//! Waits for a word to change (futex).

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::AtomicU32;

use crate::os::errno;

/// Sleeps while `word` has the value `value`, until woken; may also return for no reason. Yields if
/// a sandbox forbids sleeping.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    sleep(word, value, ptr::null());
}

/// Waits as [`wait`] does, for at most `milliseconds`.
pub(crate) fn wait_for(word: &AtomicU32, value: u32, milliseconds: u64) {
    // An hour is long enough for every caller, and fits the system's types, of 32 or 64 bits.
    let milliseconds = milliseconds.min(3_600_000);
    let timeout = libc::timespec {
        tv_sec: (milliseconds / 1000) as _,
        tv_nsec: (milliseconds % 1000 * 1_000_000) as _,
    };
    sleep(word, value, &raw const timeout);
}

fn sleep(word: &AtomicU32, value: u32, timeout: *const libc::timespec) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the timeout outlive the call.
    let answer =
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, timeout) };
    if answer != 0 && ![libc::EAGAIN, libc::ETIMEDOUT].contains(&errno()) {
        // SAFETY: the call may be made at any time.
        unsafe { libc::sched_yield() };
    }
}

/// Wakes one thread that [waits](wait) for `word`.
pub(crate) fn wake(word: &AtomicU32) {
    wake_some(word, 1);
}

/// Wakes all threads that [wait] for `word`.
pub(crate) fn wake_all(word: &AtomicU32) {
    wake_some(word, c_int::MAX);
}

fn wake_some(word: &AtomicU32, most: c_int) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: waking touches no memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, most) };
}
