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
    unsafe {
        // Said for the compiler, which would test it in every call.
        core::hint::assert_unchecked(!own.is_null());
        Some((lists, &*own.cast::<Own>()))
    }
}

/// Whether these are too many bytes for a quarantine.
#[inline(always)]
fn is_over(bytes: usize) -> bool {
    bytes > mode::quarantine()
}

impl Own {
    /// A random number below `bound`, as good as even for a small one.
    #[inline(always)]
    pub(super) fn below(&self, bound: u32) -> u32 {
        let state = self.random.get();
        // Multiplicative congruential, of period 2^62; the upper bits are used: Steele & Vigna 2022.
        self.random.set(state.wrapping_mul(0xf135_7aea_2e62_a9c5));
        (((state >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// Puts a freed block into the quarantine, and those that were there for their time back: mostly one. `false` if it is
    /// longer than all of that may be, or there is none.
    #[inline(always)]
    pub(super) fn keep(&self, lists: *mut Lists, freed: Freed) -> bool {
        let kept = !is_over(freed.bytes());
        if kept {
            match self.count.load(Relaxed) as usize == ENTRIES {
                true => self.exchange(lists, freed),
                false => self.add(lists, freed),
            }
        }
        kept
    }

    /// As [`keep`](Self::keep), where there is no free place: that of the oldest is that of the newest then.
    #[inline(always)]
    fn exchange(&self, lists: *mut Lists, freed: Freed) {
        let first = self.first.get();
        let Some(oldest) = self.entries[first as usize % ENTRIES].replace(Some(freed)) else {
            return;
        };
        self.first.set(first.wrapping_add(1));
        let bytes = (self.bytes.load(Relaxed) + freed.bytes()).saturating_sub(oldest.bytes());
        self.bytes.store(bytes, Relaxed);
        if is_over(bytes) || !release::put_on_list(lists, oldest) {
            self.put_back(lists, oldest);
        }
    }

    /// As [`keep`](Self::keep), where there is a free place.
    #[inline(never)]
    fn add(&self, lists: *mut Lists, freed: Freed) {
        let (first, before) = (self.first.get(), self.count.load(Relaxed));
        self.entries[first.wrapping_add(before) as usize % ENTRIES].set(Some(freed));
        let bytes = self.bytes.load(Relaxed) + freed.bytes();
        self.note(before + 1, bytes);
        if is_over(bytes)
            && let Some(oldest) = self.take(first, before, bytes)
            && (is_over(self.bytes.load(Relaxed)) || !release::put_on_list(lists, oldest))
        {
            self.put_back(lists, oldest);
        }
    }

    /// Puts a block back that was taken out, and more while there are too many bytes.
    #[cold]
    #[inline(never)]
    fn put_back(&self, lists: *mut Lists, taken: Freed) {
        release::put_back(lists, taken);
        while is_over(self.bytes.load(Relaxed))
            && let Some(oldest) = self.take_oldest()
        {
            release::put_back(lists, oldest);
        }
    }

    /// Takes the oldest out; `None` if there is none.
    fn take_oldest(&self) -> Option<Freed> {
        let left = self.count.load(Relaxed).checked_sub(1)?;
        self.take(self.first.get(), left, self.bytes.load(Relaxed))
    }

    /// Takes the oldest out, after which so many are left, of so many bytes with it.
    #[inline(always)]
    fn take(&self, first: u32, left: u32, bytes: usize) -> Option<Freed> {
        let oldest = self.entries[first as usize % ENTRIES].get()?;
        self.first.set(first.wrapping_add(1));
        self.note(left, bytes.saturating_sub(oldest.bytes()));
        Some(oldest)
    }

    #[inline(always)]
    fn note(&self, count: u32, bytes: usize) {
        self.count.store(count, Relaxed);
        self.bytes.store(bytes, Relaxed);
    }
}

/// Begins with random numbers of its own, and with an empty quarantine: lists that a fork left behind may have had one,
/// perhaps changed by half, whose blocks stay in use.
pub(in super::super) fn begin() {
    if mode::is_hardened()
        && let Some((_, own)) = of_thread()
    {
        own.random.set(os::random() | 1);
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
        while let Some(oldest) = own.take_oldest() {
            release::put_back(lists, oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quarantine may be full to the byte.
    #[test]
    fn a_quarantine_is_over_beyond_its_bytes() {
        let bytes = mode::quarantine();
        assert!(!is_over(bytes) && is_over(bytes + 1));
    }
}
