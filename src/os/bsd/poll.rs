//! Waiting for a word to change where the system has no call for it that is public and old enough: by looking at it.
//! (macOS has one from 14.4 on.) Whoever waits lets others go first a few times, then sleeps, and about twice as long each
//! further time: so it comes late by no more than it has waited, and [`LONGEST`] at most.
//!
//! What is slower for it is a lock that is held for longer than [spins](crate::global) last, by a thread that does not
//! run; and the allocator's background thread wakes a hundred times a second.

use core::ptr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::os::now;

/// Times that others go first.
const YIELDS: u32 = 8;

/// Nanoseconds of the first sleep.
const FIRST: i64 = 20_000;

/// Nanoseconds of the longest.
const LONGEST: i64 = 10_000_000;

/// Sleeps while `word` has this value, or for no reason.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    poll(word, value, || false);
}

/// As [`wait`], but for at most this many milliseconds, or a hundredth of a second more.
pub(crate) fn wait_for(word: &AtomicU32, value: u32, milliseconds: u64) {
    let end = now().saturating_add(milliseconds);
    poll(word, value, || now() >= end);
}

/// Looks at the word until it has another value, or it is enough.
fn poll(word: &AtomicU32, value: u32, enough: impl Fn() -> bool) {
    let (mut yields, mut sleep) = (0, FIRST);
    while word.load(Relaxed) == value && !enough() {
        // SAFETY: the calls touch no memory of ours but the time.
        unsafe {
            if yields < YIELDS {
                yields += 1;
                libc::sched_yield();
            } else {
                let time = libc::timespec { tv_sec: 0, tv_nsec: sleep as _ };
                libc::nanosleep(&raw const time, ptr::null_mut());
                sleep = (2 * sleep).min(LONGEST);
            }
        }
    }
}

/// Nobody sleeps for long: who [waits](wait) for the word looks at it.
pub(crate) fn wake(_: &AtomicU32) {}

/// See [`wake`].
pub(crate) fn wake_all(_: &AtomicU32) {}
