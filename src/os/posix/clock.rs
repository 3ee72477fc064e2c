//! Clocks, and a moment.

use core::ptr;

use crate::os::Uncancelled;

/// A clock that never goes back, as cheap as the system has one.
#[cfg(target_os = "linux")]
const COARSE: libc::clockid_t = libc::CLOCK_MONOTONIC_COARSE;
#[cfg(target_os = "freebsd")]
const COARSE: libc::clockid_t = libc::CLOCK_MONOTONIC_FAST;
#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
const COARSE: libc::clockid_t = libc::CLOCK_MONOTONIC;

/// Milliseconds of a clock that never goes back.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time.
    unsafe { libc::clock_gettime(COARSE, &raw mut time) };
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
    let _uncancelled = Uncancelled::new();
    let moment = libc::timespec { tv_sec: 0, tv_nsec: 20_000 };
    // SAFETY: the call reads the time.
    unsafe { libc::nanosleep(&raw const moment, ptr::null_mut()) };
}
