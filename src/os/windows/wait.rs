//! Waits for a word to change or for a moment; clocks.

use core::sync::atomic::AtomicU32;

use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};
use windows_sys::Win32::System::SystemInformation::GetTickCount64;
use windows_sys::Win32::System::Threading::{
    INFINITE, Sleep, SwitchToThread, WaitOnAddress, WakeByAddressAll, WakeByAddressSingle,
};

/// Returns the milliseconds of a monotonic clock.
pub(crate) fn now() -> u64 {
    // SAFETY: the call may be made at any time.
    unsafe { GetTickCount64() }
}

/// Returns the nanoseconds of a monotonic clock. The thread's processor time would be too coarse:
/// Windows counts it in steps of 1/64 second.
pub(crate) fn thread_time() -> u64 {
    let (mut ticks, mut per_second) = (0, 0);
    // SAFETY: the calls write a number each, and never fail.
    unsafe {
        QueryPerformanceCounter(&raw mut ticks);
        QueryPerformanceFrequency(&raw mut per_second);
    }
    (i128::from(ticks) * 1_000_000_000 / i128::from(per_second.max(1))) as u64
}

/// Lets other threads run for a moment.
pub(crate) fn pause() {
    // SAFETY: the calls may be made at any time.
    unsafe {
        if SwitchToThread() == 0 {
            Sleep(1);
        }
    }
}

/// Sleeps while `word` has the value `value`, until woken; may also return for no reason.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    sleep(word, value, INFINITE);
}

/// Waits as [`wait`] does, for at most `milliseconds`.
pub(crate) fn wait_for(word: &AtomicU32, value: u32, milliseconds: u64) {
    // An hour is long enough for every caller.
    sleep(word, value, milliseconds.min(3_600_000) as u32);
}

fn sleep(word: &AtomicU32, value: u32, milliseconds: u32) {
    // SAFETY: the word and the value outlive the call.
    unsafe {
        let bytes = size_of::<u32>();
        WaitOnAddress(word.as_ptr().cast(), (&raw const value).cast(), bytes, milliseconds);
    }
}

/// Wakes one thread that [waits](wait) for `word`.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: waking touches no memory.
    unsafe { WakeByAddressSingle(word.as_ptr().cast()) };
}

/// Wakes all threads that [wait] for `word`.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: waking touches no memory.
    unsafe { WakeByAddressAll(word.as_ptr().cast()) };
}
