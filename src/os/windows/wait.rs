//! Waiting: for a word to change, for a moment, and the clock that tells how long.

use core::sync::atomic::AtomicU32;

use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};
use windows_sys::Win32::System::SystemInformation::GetTickCount64;
use windows_sys::Win32::System::Threading::{
    INFINITE, Sleep, SwitchToThread, WaitOnAddress, WakeByAddressAll, WakeByAddressSingle,
};

/// Milliseconds of a clock that never goes back.
pub(crate) fn now() -> u64 {
    // SAFETY: the call may be made at any time.
    unsafe { GetTickCount64() }
}

/// Nanoseconds of a clock that never goes back: the system tells a thread's processor time by sixty-fourths of a second.
pub(crate) fn thread_time() -> u64 {
    let (mut ticks, mut per_second) = (0, 0);
    // SAFETY: the calls write a number each, and never fail.
    unsafe {
        QueryPerformanceCounter(&raw mut ticks);
        QueryPerformanceFrequency(&raw mut per_second);
    }
    (i128::from(ticks) * 1_000_000_000 / i128::from(per_second.max(1))) as u64
}

/// Lets other threads go on for a moment.
pub(crate) fn pause() {
    // SAFETY: the calls may be made at any time.
    unsafe {
        if SwitchToThread() == 0 {
            Sleep(1);
        }
    }
}

/// Sleeps while `word` has this value, until woken, or for no reason.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    sleep(word, value, INFINITE);
}

/// As [`wait`], but for at most this many milliseconds.
pub(crate) fn wait_for(word: &AtomicU32, value: u32, milliseconds: u64) {
    // An hour is enough for everybody.
    sleep(word, value, milliseconds.min(3_600_000) as u32);
}

fn sleep(word: &AtomicU32, value: u32, milliseconds: u32) {
    // SAFETY: the word and the value live as long as the call.
    unsafe {
        let bytes = size_of::<u32>();
        WaitOnAddress(word.as_ptr().cast(), (&raw const value).cast(), bytes, milliseconds);
    }
}

/// Wakes one of those who [wait](wait) for the word.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: waking touches no memory.
    unsafe { WakeByAddressSingle(word.as_ptr().cast()) };
}

/// Wakes all who [wait](wait) for the word.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: waking touches no memory.
    unsafe { WakeByAddressAll(word.as_ptr().cast()) };
}
