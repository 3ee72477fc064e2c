//! Clocks, and a short sleep.

use core::ptr;

use crate::os::Uncancelled;

/// The cheapest monotonic clock of the system.
#[cfg(target_os = "linux")]
const COARSE: libc::clockid_t = libc::CLOCK_MONOTONIC_COARSE;
#[cfg(target_os = "freebsd")]
const COARSE: libc::clockid_t = libc::CLOCK_MONOTONIC_FAST;
#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
const COARSE: libc::clockid_t = libc::CLOCK_MONOTONIC;

/// Returns the milliseconds of a monotonic clock.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time.
    unsafe { libc::clock_gettime(COARSE, &raw mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Returns the processor time of the calling thread in nanoseconds; the monotonic clock's time if
/// the system does not tell.
pub(crate) fn thread_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let clocks = [libc::CLOCK_THREAD_CPUTIME_ID, libc::CLOCK_MONOTONIC];
    let clocks = if cfg!(miri) { &clocks[1..] } else { &clocks[..] };
    // SAFETY: the call writes the time.
    let _ = clocks.iter().any(|&clock| unsafe { libc::clock_gettime(clock, &raw mut time) == 0 });
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps for a moment (20 µs) to let other threads run.
pub(crate) fn pause() {
    let _uncancelled = Uncancelled::new();
    let moment = libc::timespec { tv_sec: 0, tv_nsec: 20_000 };
    // SAFETY: the call reads the time.
    unsafe { libc::nanosleep(&raw const moment, ptr::null_mut()) };
}
