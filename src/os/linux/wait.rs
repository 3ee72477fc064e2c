//! Waiting: for a word to change (a futex), for a moment, and the clock that tells how long.

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::AtomicU32;

/// Milliseconds of a clock that never goes back.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Nanoseconds of processor time that the calling thread has taken; of another clock where the system does not tell.
pub(crate) fn thread_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let clocks = [libc::CLOCK_THREAD_CPUTIME_ID, libc::CLOCK_MONOTONIC];
    let clocks = if cfg!(miri) { &clocks[1..] } else { &clocks[..] };
    // SAFETY: the call writes the time.
    let _ = clocks.iter().any(|&clock| unsafe { libc::clock_gettime(clock, &raw mut time) == 0 });
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Lets other threads go on for a moment.
pub(crate) fn pause() {
    let moment = libc::timespec { tv_sec: 0, tv_nsec: 20_000 };
    // SAFETY: the call reads the time.
    unsafe { libc::nanosleep(&raw const moment, ptr::null_mut()) };
}

/// Sleeps while `word` has this value, until woken, or for no reason. Where a sandbox refuses to let it
/// sleep, others go first.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    let no_timeout = ptr::null::<libc::timespec>();
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word lives as long as the call; `errno` is the calling thread's own.
    unsafe {
        let answer = libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, no_timeout);
        if answer != 0 && *libc::__errno_location() != libc::EAGAIN {
            libc::sched_yield();
        }
    }
}

/// As [`wait`], but for at most this many milliseconds.
pub(crate) fn wait_for(word: &AtomicU32, value: u32, milliseconds: u64) {
    // An hour is enough for everybody, and no timeout is too long for the system's types then.
    let milliseconds = milliseconds.min(3_600_000) as i32;
    let timeout = libc::timespec {
        tv_sec: (milliseconds / 1000).into(),
        tv_nsec: (milliseconds % 1000 * 1_000_000).into(),
    };
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the timeout live as long as the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, &raw const timeout) };
}

/// Wakes one of those who [wait](wait) for the word.
pub(crate) fn wake(word: &AtomicU32) {
    wake_some(word, 1);
}

/// Wakes all who [wait](wait) for the word.
pub(crate) fn wake_all(word: &AtomicU32) {
    wake_some(word, c_int::MAX);
}

fn wake_some(word: &AtomicU32, most: c_int) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: waking touches no memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, most) };
}
