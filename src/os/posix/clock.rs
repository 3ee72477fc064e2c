//! Clocks, and a short sleep.

#[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
use crate::os::{read_clock, sleep};

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
    read_clock(COARSE, &mut time);
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Returns the nanoseconds since 1970 began.
#[cfg(all(feature = "profiler", target_os = "linux"))]
pub(crate) fn since_1970() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    read_clock(libc::CLOCK_REALTIME, &mut time);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the processor time of the calling thread in nanoseconds; the monotonic clock's time if
/// the system does not tell.
pub(crate) fn thread_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let clocks = [libc::CLOCK_THREAD_CPUTIME_ID, libc::CLOCK_MONOTONIC];
    let clocks = if cfg!(miri) { &clocks[1..] } else { &clocks[..] };
    let _ = clocks.iter().any(|&clock| read_clock(clock, &mut time));
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps for a moment (20 µs) to let other threads run.
pub(crate) fn pause() {
    sleep(&libc::timespec { tv_sec: 0, tv_nsec: 20_000 });
}

/// Writes the time of a clock. Returns whether it did.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
fn read_clock(clock: libc::clockid_t, time: &mut libc::timespec) -> bool {
    // SAFETY: the call writes the time.
    unsafe { libc::clock_gettime(clock, time) == 0 }
}

/// Sleeps.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64", not(miri))))]
fn sleep(time: &libc::timespec) {
    let _uncancelled = crate::os::Uncancelled::new();
    // SAFETY: the call reads the time.
    unsafe { libc::nanosleep(time, core::ptr::null_mut()) };
}
