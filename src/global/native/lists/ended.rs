//! Keeps the quick lists of threads that have ended, with their blocks, for the next threads. Where
//! each request has a thread of its own, most of its blocks are then those of the previous request,
//! still in the processor's cache.
//!
//! ```text
//!  a thread ends ──▶ LEFT, without a lock ──▶ Ended, under the registry's lock ──▶ a thread begins
//!                      ▲                         ├─ with blocks: newest … oldest
//!                      │                         ├─ empty:       newest … oldest
//!                      │                         └─ bare            │
//!                      └── blocks and memory go back ◀──────────────┘ after the purge delay
//! ```
//! The bytes on all such lists together are bounded. A thread that ends beyond the bound puts its
//! own blocks back, and so does every thread in hardened mode.

mod chain;

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicUsize};

use chain::{Chain, waiting};

use super::medium;
use super::quick::{self, Lists, Waiting};
use crate::global::native::base::apart::Apart;
use crate::global::native::base::mode;
use crate::global::native::base::once::Once;
use crate::global::native::base::sync;
use crate::global::native::base::visit::Upkeep;
use crate::os;

/// The most bytes on lists of ended threads, for each heap that threads are spread over.
const MOST: usize = 512 << 10;

/// How many lists with blocks are tried for one that suits.
const LOOKS: usize = 8;

/// Lists left since the registry last received them, linked through `next`: a thread ends without
/// the registry's lock.
static LEFT: Apart<AtomicPtr<Lists>> = Apart::new(AtomicPtr::new(ptr::null_mut()));

/// Bytes on all lists of ended threads.
static BYTES: Apart<AtomicUsize> = Apart::new(AtomicUsize::new(0));

/// Number of lists of ended threads that have blocks, or memory for their places.
static WITH_MEMORY: Apart<AtomicUsize> = Apart::new(AtomicUsize::new(0));

/// Lists of ended threads that the registry has received from [`LEFT`].
#[derive(Debug)]
pub(in crate::global::native) struct Ended {
    /// Those that have blocks.
    with_blocks: Chain,
    /// Those without blocks, but with memory for their places.
    empty: Chain,
    /// Empty ones, the memory of whose places went back.
    bare: Chain,
    /// Those of threads that a fork left behind. Threads are not given them.
    orphans: Chain,
}

/// Returns whether lists of ended threads have blocks, or memory for their places.
pub(super) fn have_memory() -> bool {
    WITH_MEMORY.load(Relaxed) > 0
}

/// Returns whether lists of ended threads may have a mebibyte or more, of memory or of blocks.
pub(super) fn have_much() -> bool {
    /// As many lists take that much for their places alone.
    const MANY: usize = 32;
    WITH_MEMORY.load(Relaxed) >= MANY || BYTES.load(Relaxed) >= 1 << 20
}

/// Notes whether lists without a thread have blocks, or memory for their places.
fn note_memory(lists: &Waiting, has_memory: bool) {
    match (lists.has_memory.swap(has_memory, Relaxed), has_memory) {
        (false, true) => _ = WITH_MEMORY.fetch_add(1, Relaxed),
        // In a child, the count was reset while the thread held these lists.
        (true, false) => {
            _ = WITH_MEMORY.fetch_update(Relaxed, Relaxed, |all| Some(all.saturating_sub(1)));
        }
        _ => {}
    }
}

/// Marks lists as held by the calling thread until they are [left](leave) or [put back](put_back):
/// if a handler forks it, the child does not adopt them.
pub(super) fn hold(lists: NonNull<Lists>) {
    waiting(lists).holder.store(sync::token(), Relaxed);
}

/// Returns whether the thread with this token holds the lists.
pub(super) fn is_held_by(lists: NonNull<Lists>, token: u32) -> bool {
    waiting(lists).holder.load(Relaxed) == token
}

/// Leaves a thread's lists to the next thread, with their blocks. Puts these back if there are too
/// many for so few `heaps` that threads are spread over, if the purge `delay` (milliseconds) is 0,
/// or in hardened mode. Without a delay, the memory of their places goes back as well.
///
/// # Safety
/// The lists are the calling thread's, which does not use them any more.
pub(super) unsafe fn leave(lists: NonNull<Lists>, heaps: usize, delay: u32) {
    let bytes =
        if delay == 0 || mode::is_hardened() { 0 } else { quick::all_kept(lists.as_ptr()).bytes };
    let bytes = if reserve(&BYTES, bytes, heaps * MOST) { bytes } else { 0 };
    // SAFETY: the caller guarantees that the lists are its own.
    unsafe {
        if bytes == 0 {
            quick::flush_all(lists.as_ptr(), Upkeep::IfDue);
        }
        if delay == 0 {
            quick::give_back_places(lists);
        }
    }
    let waiting = waiting(lists);
    waiting.bytes.store(bytes, Relaxed);
    note_memory(waiting, delay > 0);
    waiting.since.store(os::now() as u32, Relaxed);
    push(lists);
}

/// Adds `bytes` to `counted` if the sum is at most `most`; returns whether it is.
fn reserve(counted: &AtomicUsize, bytes: usize, most: usize) -> bool {
    let fits = counted.fetch_add(bytes, Relaxed) + bytes <= most;
    if !fits {
        counted.fetch_sub(bytes, Relaxed);
    }
    fits
}

/// Pushes lists that the calling thread holds to [`LEFT`]: once, even if a handler forks in
/// between.
fn push(lists: NonNull<Lists>) {
    let mut last = LEFT.load(Relaxed);
    loop {
        waiting(lists).next.store(last, Relaxed);
        match LEFT.compare_exchange_weak(last, lists.as_ptr(), Release, Relaxed) {
            Ok(_) => break,
            Err(other) => last = other,
        }
    }
    // The next thread may hold them already.
    let _ = waiting(lists).holder.compare_exchange(sync::token(), 0, Relaxed, Relaxed);
}

/// Returns whether lists without a thread have blocks.
pub(super) fn has_blocks(lists: NonNull<Lists>) -> bool {
    waiting(lists).bytes.load(Relaxed) > 0
}

/// Puts back the blocks on lists and beside them, gives back the memory of their places, and leaves
/// them to the next thread.
///
/// # Safety
/// The caller has [taken](Ended::take_idle) the lists, and does not use them any more.
pub(in crate::global::native) unsafe fn put_back(lists: NonNull<Lists>) {
    // This puts back dozens of batches, and the caller looks after memory already.
    // SAFETY: the caller guarantees that it has taken the lists, which nobody else uses.
    unsafe {
        if let Some(put_back) = PUT_BACK_OTHERS.get() {
            put_back(lists.as_ptr());
        }
        quick::flush_all(lists.as_ptr(), Upkeep::Never);
    }
    if !mode::is_hardened() {
        medium::of(lists.as_ptr()).put_back_all();
    }
    // SAFETY: as above.
    unsafe { quick::give_back_places(lists) };
    uncount(lists);
    push(lists);
}

/// Notes that a thread has these lists from now on.
pub(super) fn begin(lists: NonNull<Lists>) {
    uncount(lists);
}

/// Puts back the blocks that a thread keeps beside its lists.
type PutBack = unsafe fn(*mut Lists);

/// How to do that, in hardened mode: the quarantine is not known here.
static PUT_BACK_OTHERS: Apart<Once<PutBack>> = Apart::new(Once::new());

/// Sets a function that puts back the blocks that a thread keeps beside its lists. It is called for
/// lists that no thread has.
pub(in crate::global::native) fn set_put_back_others(put_back: PutBack) {
    PUT_BACK_OTHERS.set(put_back);
}

/// Subtracts the bytes and memory of lists from those of all ended threads.
fn uncount(lists: NonNull<Lists>) {
    note_memory(waiting(lists), false);
    let bytes = waiting(lists).bytes.swap(0, Relaxed);
    // In a child, the count was reset while the thread held these lists.
    let _ = BYTES.fetch_update(Relaxed, Relaxed, |all| Some(all.saturating_sub(bytes)));
}

impl Ended {
    /// Makes an empty collection.
    pub(super) const fn new() -> Self {
        Self {
            with_blocks: Chain::new(),
            empty: Chain::new(),
            bare: Chain::new(),
            orphans: Chain::new(),
        }
    }

    /// Takes lists for a thread, which [begins](begin) with them: of the last few with blocks the
    /// newest that suit, else empty ones, else bare ones, else the newest. `None` if there are
    /// none.
    pub(in crate::global::native) fn take(
        &mut self,
        suits: impl Fn(NonNull<Lists>) -> bool,
    ) -> Option<NonNull<Lists>> {
        self.receive();
        self.take_known(suits).inspect(|&lists| hold(lists))
    }

    /// Takes lists that a fork left behind, or else the oldest with blocks, or else the oldest with
    /// memory for their places, if their thread ended at least `delay` milliseconds ago. The caller
    /// [puts them back](put_back).
    /// O(1), plus the lists left since the last call.
    pub(super) fn take_idle(&mut self, delay: u32) -> Option<NonNull<Lists>> {
        self.receive();
        self.take_orphan()
            .or_else(|| self.take_known_idle(os::now() as u32, delay).inspect(|&lists| hold(lists)))
    }

    /// Forgets all lists after a fork; those of threads left behind are
    /// [added](Self::add_orphan) again.
    pub(super) fn forget(&mut self) {
        LEFT.store(ptr::null_mut(), Relaxed);
        BYTES.store(0, Relaxed);
        WITH_MEMORY.store(0, Relaxed);
        *self = Self::new();
    }

    /// Adds lists of a thread that a fork left behind, or that such a thread held.
    pub(super) fn add_orphan(&mut self, lists: NonNull<Lists>) {
        let waiting = waiting(lists);
        waiting.bytes.store(0, Relaxed);
        waiting.holder.store(0, Relaxed);
        waiting.has_memory.store(false, Relaxed);
        note_memory(waiting, true);
        self.orphans.push(lists);
    }

    /// Takes lists of a thread that a fork left behind. The caller
    /// [puts them back](put_back).
    pub(super) fn take_orphan(&mut self) -> Option<NonNull<Lists>> {
        let lists = self.orphans.last()?;
        self.orphans.remove(lists);
        hold(lists);
        Some(lists)
    }

    /// Receives the lists that were left since the last call.
    fn receive(&mut self) {
        self.know(LEFT.swap(ptr::null_mut(), Acquire));
    }

    /// Adds lists that were left, linked through `next` from the newest to the oldest.
    fn know(&mut self, last: *mut Lists) {
        // Push the oldest first.
        let (mut first, mut rest) = (ptr::null_mut(), NonNull::new(last));
        while let Some(lists) = rest {
            rest = NonNull::new(waiting(lists).next.swap(first, Relaxed));
            first = lists.as_ptr();
        }
        let mut left = NonNull::new(first);
        while let Some(lists) = left {
            left = NonNull::new(waiting(lists).next.load(Relaxed));
            self.chain_of(lists).push(lists);
        }
    }

    /// As [`take`](Self::take), among those received.
    fn take_known(&mut self, suits: impl Fn(NonNull<Lists>) -> bool) -> Option<NonNull<Lists>> {
        let suit = self.with_blocks.iter().take(LOOKS).find(|&lists| suits(lists));
        let others = || self.empty.last().or(self.bare.last()).or(self.with_blocks.last());
        let taken = suit.or_else(others)?;
        self.remove(taken);
        Some(taken)
    }

    /// As [`take_idle`](Self::take_idle), among those received. Only the oldest are checked. If a
    /// thread was stopped between reading the clock and the push to [`LEFT`], its lists come behind
    /// those of threads that ended later, and wait for these.
    fn take_known_idle(&mut self, now: u32, delay: u32) -> Option<NonNull<Lists>> {
        let is_due =
            |lists: &NonNull<Lists>| now.wrapping_sub(waiting(*lists).since.load(Relaxed)) >= delay;
        let with_blocks = self.with_blocks.first().filter(is_due);
        let taken = with_blocks.or_else(|| self.empty.first().filter(is_due))?;
        self.remove(taken);
        Some(taken)
    }

    fn remove(&mut self, lists: NonNull<Lists>) {
        self.chain_of(lists).remove(lists);
    }

    /// Returns the chain that lists belong to while no thread has them.
    fn chain_of(&mut self, lists: NonNull<Lists>) -> &mut Chain {
        match (has_blocks(lists), waiting(lists).has_memory.load(Relaxed)) {
            (true, _) => &mut self.with_blocks,
            (false, true) => &mut self.empty,
            (false, false) => &mut self.bare,
        }
    }
}

#[cfg(all(test, not(miri), not(target_family = "wasm")))]
mod tests;
