//! Waits for a word to change by polling, on systems without a suitable public call. (macOS has one
//! from 14.4 on.) A waiting thread yields a few times, then sleeps, each time about twice as long.
//! So it wakes late by at most the time it has already waited, and by at most [`LONGEST`].
//!
//! Two things are slower for it: a lock held beyond the [spinning](crate::global) phase by a thread
//! that is not running; and the allocator's background thread, which wakes a hundred times a
//! second.

use core::ptr;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::os::{Uncancelled, now};

/// Number of yields before the first sleep.
const YIELDS: u32 = 8;

/// The first sleep in nanoseconds.
const FIRST: i64 = 20_000;

/// The longest sleep in nanoseconds.
const LONGEST: i64 = 10_000_000;

/// Sleeps while `word` has the value `value`; may also return for no reason.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    poll(word, value, || false);
}

/// Waits as [`wait`] does, for at most `milliseconds` plus 10.
pub(crate) fn wait_for(word: &AtomicU32, value: u32, milliseconds: u64) {
    let end = now().saturating_add(milliseconds);
    poll(word, value, || now() >= end);
}

/// Polls `word` until its value is not `value`, or `enough` returns true.
fn poll(word: &AtomicU32, value: u32, enough: impl Fn() -> bool) {
    let _uncancelled = Uncancelled::new();
    let (mut yields, mut sleep) = (0, FIRST);
    while word.load(Relaxed) == value && !enough() {
        // SAFETY: the calls only read the time that they are given.
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

/// Does nothing: a thread that [waits](wait) for the word polls it.
pub(crate) fn wake(_: &AtomicU32) {}

/// See [`wake`].
pub(crate) fn wake_all(_: &AtomicU32) {}
