//! What a thread has in hardened mode besides its lists: random numbers, and the quarantine, a ring of the
//! blocks it freed last, each with what is to be known of it, so that nothing is looked up when it leaves.
//!
//! ```text
//!  entries  |   | oldest | … | newest |   |   |
//!                 first        first + count
//! ```

use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicUsize};

use super::super::quick::{self, Lists};
use super::super::{current, mode};
use super::release::{self, Freed};
use crate::os;

/// Blocks the quarantine has room for.
const ENTRIES: usize = 1024;

/// A thread's own, which only the thread changes; others read how much it keeps. All zeros is a value.
#[repr(C)]
pub(super) struct Own {
    random: Cell<u64>,
    first: Cell<u32>,
    count: AtomicU32,
    /// Bytes of the blocks in it.
    bytes: AtomicUsize,
    entries: [Cell<Option<Freed>>; ENTRIES],
}

const _: () = assert!(size_of::<Own>() <= quick::OWN);

/// The calling thread's lists and its own; `None` if it has none (yet, or any more).
#[inline(always)]
pub(super) fn of_thread() -> Option<(*mut Lists, &'static Own)> {
    let (lists, own) = quick::behind_face(current::lists())?;
    // SAFETY: in hardened mode every thread's lists have its own behind them, which is initialised, never
    // given up, and used by this thread alone.
    Some((lists, unsafe { &*own.cast::<Own>() }))
}

impl Own {
    /// A random number below `bound`, as good as even for a small one.
    #[inline(always)]
    pub(super) fn below(&self, bound: u32) -> u32 {
        let mut state = self.random.get();
        if state == 0 {
            state = os::random() | 1;
        }
        // Multiplicative congruential, of period 2^62; the upper bits are used: Steele & Vigna 2022.
        self.random.set(state.wrapping_mul(0xf135_7aea_2e62_a9c5));
        (((state >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// Puts a freed block into the quarantine, and those that were there for their time back.
    #[inline(always)]
    pub(super) fn keep(&self, lists: *mut Lists, freed: Freed) {
        let (first, count) = (self.first.get(), self.count.load(Relaxed));
        self.entries[first.wrapping_add(count) as usize % ENTRIES].set(Some(freed));
        let (mut count, mut bytes) = (count + 1, self.bytes.load(Relaxed) + freed.bytes as usize);
        self.note(count, bytes);
        let most = mode::quarantine();
        while bytes > most || count as usize == ENTRIES {
            let Some(oldest) = self.take(count, bytes) else { break };
            (count, bytes) = (count - 1, bytes.saturating_sub(oldest.bytes as usize));
            release::put_back(lists, oldest);
        }
    }

    /// Takes the oldest out of so many, of so many bytes in all.
    #[inline(always)]
    fn take(&self, count: u32, bytes: usize) -> Option<Freed> {
        let left = count.checked_sub(1)?;
        let first = self.first.get();
        let oldest = self.entries[first as usize % ENTRIES].get()?;
        self.first.set(first.wrapping_add(1));
        self.note(left, bytes.saturating_sub(oldest.bytes as usize));
        Some(oldest)
    }

    #[inline(always)]
    fn note(&self, count: u32, bytes: usize) {
        self.count.store(count, Relaxed);
        self.bytes.store(bytes, Relaxed);
    }
}

/// Begins with an empty quarantine: lists that a fork left behind may have had one, perhaps changed by half,
/// whose blocks stay in use.
pub(in super::super) fn begin() {
    if mode::is_hardened()
        && let Some((_, own)) = of_thread()
    {
        own.first.set(0);
        own.note(0, 0);
    }
}

/// What is in the quarantine of the thread with these lists: blocks and bytes.
pub(in super::super) fn kept(lists: *mut Lists) -> (usize, usize) {
    let lists = NonNull::new(lists).filter(|_| mode::is_hardened());
    let Some((_, own)) = lists.and_then(|lists| quick::behind_face(quick::face(lists))) else {
        return (0, 0);
    };
    // SAFETY: as in `of_thread`; what is read is atomic.
    let (count, bytes) = unsafe {
        let own = own.cast::<Own>();
        (&(*own).count, &(*own).bytes)
    };
    (count.load(Relaxed) as usize, bytes.load(Relaxed))
}

/// Empties the quarantine of a thread that ends, or that puts back what it keeps.
pub(in super::super) fn leave() {
    if !mode::is_hardened() {
        return;
    }
    if let Some((lists, own)) = of_thread() {
        while let Some(oldest) = own.take(own.count.load(Relaxed), own.bytes.load(Relaxed)) {
            release::put_back(lists, oldest);
        }
    }
}
