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

#[cfg(all(test, not(miri)))]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::global::native::{registry, sizes};
    use crate::global::tuning::SMALL_MAX;
    use crate::global::{Hardening, Pagewise, Tuning};
    use crate::os::alone;

    /// A thread with a quarantine of so many bytes frees blocks up to so large; what is kept is what a plain queue has.
    fn keeps(quarantine: u32, most: usize) {
        let hardening = Hardening::CHECKS.quarantine(quarantine);
        registry::tuning(&Tuning::new().hardening(hardening));
        let pagewise = Pagewise::new();
        // SAFETY: the block is freed once.
        unsafe { pagewise.free(pagewise.allocate(1)) };
        let lists = quick::of_face(current::lists());
        leave();
        assert_eq!(kept(lists), (0, 0));
        let (mut queue, mut sum) = (VecDeque::new(), 0);
        let mut random = 7_u64;
        let mut full = false;
        for _ in 0..6 * ENTRIES {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let size = 1 + (random >> 33) as usize % most;
            let list = if size <= SMALL_MAX { sizes::offset(size) } else { 0 };
            let bytes = if list > 0 { sizes::class_size(list) } else { size };
            // SAFETY: the block is freed once.
            unsafe { pagewise.free(pagewise.allocate(size)) };
            if bytes <= quarantine as usize {
                queue.push_back(bytes);
                sum += bytes;
                while queue.len() > ENTRIES || sum > quarantine as usize {
                    sum -= queue.pop_front().expect("there are some");
                }
            }
            full |= queue.len() == ENTRIES;
            assert_eq!(kept(lists), (queue.len(), sum));
        }
        assert_eq!(full, quarantine > 1 << 20);
        leave();
        assert_eq!(kept(lists), (0, 0));
    }

    /// By entries and by bytes, a quarantine keeps the blocks freed last.
    #[test]
    fn a_quarantine_is_a_queue() {
        alone::passes("global::native::hardened::own::tests::many");
        alone::passes("global::native::hardened::own::tests::large");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn many() {
        keeps(1 << 30, 2_000);
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn large() {
        keeps(60_000, 70_000);
    }

    /// A random number is below its bound, and each number there comes.
    #[test]
    fn random_numbers_are_below_their_bound() {
        // SAFETY: all zeros is a value.
        let own: Box<Own> = unsafe { Box::new(core::mem::zeroed()) };
        own.random.set(0x1234_5678_9abc_def1);
        for bound in [1, 2, 7, 8] {
            let mut counts = [0; 8];
            for _ in 0..1_000 * bound {
                counts[own.below(bound) as usize] += 1;
            }
            let (used, none) = counts.split_at(bound as usize);
            assert!(used.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
            assert!(none.iter().all(|&count| count == 0), "{counts:?}");
        }
    }

    /// A quarantine may be full to the byte.
    #[test]
    fn a_quarantine_is_over_beyond_its_bytes() {
        let bytes = mode::quarantine();
        assert!(!is_over(bytes) && is_over(bytes + 1));
    }
}
