//! Lists of threads that have ended. The next threads begin with them, and with the blocks that are on them: where each
//! request has a thread of its own, most of its blocks are those of the request before, still in the processor's cache.
//!
//! ```text
//!  a thread ends ──▶ LEFT, without a lock ──▶ Ended, under the registry's lock ──▶ a thread begins
//!                      ▲                         ├─ with blocks: newest … oldest
//!                      │                         └─ empty       │
//!                      └── its blocks go back to their heaps ◀──┘ after the purge delay
//! ```
//! The blocks of all such lists together are bounded; a thread that ends beyond that puts its own back. So does every
//! thread in hardened mode.

mod chain;

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicUsize};

use chain::{Chain, waiting};

use super::apart::Apart;
use super::mode;
use super::quick::{self, Lists};
use super::sync;
use crate::os;

/// Bytes that may lie on lists of threads which have ended, for each heap that threads are spread over.
const MOST: usize = 512 << 10;

/// Lists that are looked at for some that suit.
const LOOKS: usize = 8;

/// Lists whose threads have ended since the registry last took them, linked through `next`: a thread ends without the
/// registry's lock.
static LEFT: Apart<AtomicPtr<Lists>> = Apart::new(AtomicPtr::new(ptr::null_mut()));

/// Bytes on all lists whose threads have ended.
static BYTES: Apart<AtomicUsize> = Apart::new(AtomicUsize::new(0));

/// Lists whose threads have ended, but for those in [`LEFT`]; the registry has them.
#[derive(Debug)]
pub(super) struct Ended {
    with_blocks: Chain,
    empty: Chain,
}

/// Whether blocks lie on lists whose threads have ended.
pub(super) fn any_blocks() -> bool {
    BYTES.load(Relaxed) > 0
}

/// The calling thread has these lists in its hands until they are [left](leave) or [put back](put_back): should a handler
/// fork it, the child does not adopt them.
pub(super) fn hold(lists: NonNull<Lists>) {
    waiting(lists).holder.store(sync::token(), Relaxed);
}

/// Whether lists are in the hands of the thread with this token.
pub(super) fn is_held_by(lists: NonNull<Lists>, token: u32) -> bool {
    waiting(lists).holder.load(Relaxed) == token
}

/// Leaves a thread's lists to the next, with the blocks on them, or puts these back if there are too many already where
/// threads are spread over so many heaps.
///
/// # Safety
/// The lists are the calling thread's, which does not use them any more.
pub(super) unsafe fn leave(lists: NonNull<Lists>, heaps: usize, delay: u32) {
    let bytes = if delay == 0 || mode::is_hardened() { 0 } else { quick::bytes(lists.as_ptr()) };
    let bytes = if reserve(&BYTES, bytes, heaps * MOST) { bytes } else { 0 };
    if bytes == 0 {
        // SAFETY: the caller's promise.
        unsafe { quick::flush_all(lists.as_ptr(), true) };
    }
    let waiting = waiting(lists);
    waiting.bytes.store(bytes, Relaxed);
    waiting.since.store(os::now() as u32, Relaxed);
    push(lists);
}

/// Counts so many bytes more, if that makes no more than `most`.
fn reserve(counted: &AtomicUsize, bytes: usize, most: usize) -> bool {
    let fits = counted.fetch_add(bytes, Relaxed) + bytes <= most;
    if !fits {
        counted.fetch_sub(bytes, Relaxed);
    }
    fits
}

/// Leaves lists to the next thread, which the calling one has in its hands until they are left: they are pushed once, also if
/// a handler forks in between.
fn push(lists: NonNull<Lists>) {
    let mut last = LEFT.load(Relaxed);
    loop {
        waiting(lists).next.store(last, Relaxed);
        match LEFT.compare_exchange_weak(last, lists.as_ptr(), Release, Relaxed) {
            Ok(_) => break,
            Err(other) => last = other,
        }
    }
    // The next may have them already.
    let _ = waiting(lists).holder.compare_exchange(sync::token(), 0, Relaxed, Relaxed);
}

/// Whether blocks lie on lists that no thread has.
pub(super) fn have_blocks(lists: NonNull<Lists>) -> bool {
    waiting(lists).bytes.load(Relaxed) > 0
}

/// Puts back the blocks on lists, and leaves them to the next thread.
///
/// # Safety
/// The caller has [taken](Ended::take_idle) them, and does not use them any more.
pub(super) unsafe fn put_back(lists: NonNull<Lists>) {
    // Dozens of batches at once, while memory is looked after already.
    // SAFETY: the caller's promise.
    unsafe { quick::flush_all(lists.as_ptr(), false) };
    uncount(lists);
    push(lists);
}

/// A thread has these lists from now on.
pub(super) fn begin(lists: NonNull<Lists>) {
    uncount(lists);
}

/// The blocks on lists are no longer counted as those of a thread that has ended.
fn uncount(lists: NonNull<Lists>) {
    let bytes = waiting(lists).bytes.swap(0, Relaxed);
    // In a child whose thread had these in its hands, nothing is counted.
    let _ = BYTES.fetch_update(Relaxed, Relaxed, |all| Some(all.saturating_sub(bytes)));
}

impl Ended {
    pub(super) const fn new() -> Self {
        Self { with_blocks: Chain::new(), empty: Chain::new() }
    }

    /// Lists for a thread: of the last few with blocks on them the last that suit, else empty ones, else the last: it is to
    /// [begin](begin) with them. `None` if there are none.
    pub(super) fn take(
        &mut self,
        suits: impl Fn(NonNull<Lists>) -> bool,
    ) -> Option<NonNull<Lists>> {
        self.receive();
        self.take_known(suits).inspect(|&lists| hold(lists))
    }

    /// Lists with blocks on them, whose thread ended so many milliseconds ago, or before. They are to be
    /// [put back](put_back). O(1), but for those that were left since the last call.
    pub(super) fn take_idle(&mut self, delay: u32) -> Option<NonNull<Lists>> {
        self.receive();
        self.take_known_idle(os::now() as u32, delay).inspect(|&lists| hold(lists))
    }

    /// Forgets all, after a fork: those of the threads that stayed behind are [added](Self::add).
    pub(super) fn forget(&mut self) {
        LEFT.store(ptr::null_mut(), Relaxed);
        BYTES.store(0, Relaxed);
        *self = Self::new();
    }

    /// Adds lists that are empty.
    pub(super) fn add(&mut self, lists: NonNull<Lists>) {
        let waiting = waiting(lists);
        waiting.bytes.store(0, Relaxed);
        waiting.holder.store(0, Relaxed);
        self.empty.push(lists);
    }

    /// Takes those that were left since.
    fn receive(&mut self) {
        self.know(LEFT.swap(ptr::null_mut(), Acquire));
    }

    /// Adds lists that were left, linked through `next`, the last first.
    fn know(&mut self, last: *mut Lists) {
        // The first that was left is pushed first.
        let (mut first, mut rest) = (ptr::null_mut(), NonNull::new(last));
        while let Some(lists) = rest {
            rest = NonNull::new(waiting(lists).next.swap(first, Relaxed));
            first = lists.as_ptr();
        }
        let mut left = NonNull::new(first);
        while let Some(lists) = left {
            left = NonNull::new(waiting(lists).next.load(Relaxed));
            if have_blocks(lists) { self.with_blocks.push(lists) } else { self.empty.push(lists) }
        }
    }

    /// As [`take`](Self::take), of those received.
    fn take_known(&mut self, suits: impl Fn(NonNull<Lists>) -> bool) -> Option<NonNull<Lists>> {
        let suit = self.with_blocks.iter().take(LOOKS).find(|&lists| suits(lists));
        let taken = suit.or_else(|| self.empty.last()).or_else(|| self.with_blocks.last())?;
        self.remove(taken);
        Some(taken)
    }

    /// As [`take_idle`](Self::take_idle), of those received. The oldest alone is asked: who was stopped on the way from its
    /// clock to [`LEFT`] lies before others that ended later, and waits for these.
    fn take_known_idle(&mut self, now: u32, delay: u32) -> Option<NonNull<Lists>> {
        let oldest = self.with_blocks.first()?;
        let is_due = now.wrapping_sub(waiting(oldest).since.load(Relaxed)) >= delay;
        is_due.then(|| self.remove(oldest))?;
        Some(oldest)
    }

    fn remove(&mut self, lists: NonNull<Lists>) {
        let chain = if have_blocks(lists) { &mut self.with_blocks } else { &mut self.empty };
        chain.remove(lists);
    }
}

#[cfg(all(test, not(miri), not(target_family = "wasm")))]
mod tests;
