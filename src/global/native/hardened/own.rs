//! What a thread in hardened mode has besides lists: a random state, and the quarantine. That is a
//! ring of the blocks it freed last, each with its list and size, so that nothing is looked up when
//! a block leaves.
//!
//! ```text
//!  entries  |   | oldest | … | newest |   |   |      large  | last larger block |
//!                 first        first + count
//! ```
//!
//! A block that alone exceeds the bytes of the ring has a place of its own, where it stays until
//! the next such block is freed. So it neither empties the ring, nor is handed out again at once.
//!
//! A signal handler may interrupt its thread while the quarantine changes. Blocks that the handler
//! frees then are not kept.

use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicU32, AtomicUsize, compiler_fence};

use super::release::{self, Freed};
use crate::global::native::base::mode;
use crate::global::native::lists::current;
use crate::global::native::lists::ended;
use crate::global::native::lists::listed::Listed;
use crate::global::native::lists::quick::{self, Lists};
use crate::os;

/// Most blocks in the ring.
const ENTRIES: usize = 1024;

/// Bytes of the largest block that is kept beside the ring ÷ those of the ring. By default this is
/// the least size that is mapped between guard pages.
const LARGE: usize = 4;

/// A thread's random state and quarantine. Only the thread changes them; others read what is
/// atomic. All zeros is a valid value.
#[repr(C)]
pub(super) struct Own {
    /// State of the thread's random numbers.
    random: Cell<u64>,
    /// Number of the oldest block in the ring, which is in that entry modulo [`ENTRIES`]; wraps
    /// around.
    first: Cell<u32>,
    /// Number of blocks in the ring.
    count: AtomicU32,
    /// Bytes of the blocks in the ring.
    bytes: AtomicUsize,
    /// Bytes of the large block; 0 if there is none.
    large_bytes: AtomicUsize,
    /// The large block, if there is one.
    large: Cell<Option<Freed>>,
    /// Whether the thread is changing the quarantine.
    is_changing: Cell<bool>,
    /// The ring, of the other blocks.
    entries: [Cell<Option<Freed>>; ENTRIES],
}

const _: () = assert!(size_of::<Own>() <= quick::OWN);

/// Returns the calling thread's lists and its [`Own`]; `None` if it has no lists: not yet, or no
/// longer.
#[inline(always)]
pub(super) fn of_thread() -> Option<(*mut Lists, &'static Own)> {
    let (lists, own) = quick::behind_face(current::lists())?;
    // SAFETY: in hardened mode every thread's lists have an `Own` behind them. It is initialised,
    // never freed, and used by this thread alone.
    unsafe {
        // Spares a null check in every call.
        core::hint::assert_unchecked(!own.is_null());
        Some((lists, &*own.cast::<Own>()))
    }
}

/// Returns whether `bytes` are too many for the ring.
#[inline(always)]
fn is_over(bytes: usize) -> bool {
    bytes > mode::quarantine()
}

impl Own {
    /// Returns a random number below `bound`, nearly uniform for a small `bound`.
    #[inline(always)]
    pub(super) fn below(&self, bound: u32) -> u32 {
        ((u64::from(self.draw()) * u64::from(bound)) >> 32) as u32
    }

    /// Returns the lesser of two random numbers below `bound`, which is small.
    #[inline(always)]
    pub(super) fn lesser_below(&self, bound: u32) -> u32 {
        let drawn = self.draw();
        let scale = |half: u32| (half * bound) >> 16;
        scale(drawn >> 16).min(scale(drawn & 0xffff))
    }

    /// Returns 32 random bits.
    #[inline(always)]
    fn draw(&self) -> u32 {
        let state = self.random.get();
        // Multiplicative congruential, of period 2^62; the upper bits are used: Steele & Vigna
        // 2022.
        self.random.set(state.wrapping_mul(0xf135_7aea_2e62_a9c5));
        (state >> 32) as u32
    }

    /// Runs `change` on the quarantine; `None` if it is being changed already: the caller is within
    /// a signal handler.
    #[inline(always)]
    fn change<R>(&self, change: impl FnOnce() -> R) -> Option<R> {
        if self.is_changing.replace(true) {
            return None;
        }
        compiler_fence(SeqCst);
        let result = change();
        compiler_fence(SeqCst);
        self.is_changing.set(false);
        Some(result)
    }

    /// Puts a freed block into the ring, and puts the oldest blocks back if the ring is over its
    /// limits: mostly one. Returns `false`, and does nothing, if the block alone is over the limit,
    /// as every block is where there is no quarantine, or if the ring is [being
    /// changed](Self::change).
    #[inline(always)]
    pub(super) fn keep(&self, lists: *mut Lists, freed: Freed) -> bool {
        if is_over(freed.bytes()) {
            return false;
        }
        let add = || match self.count.load(Relaxed) as usize == ENTRIES {
            true => self.exchange(freed),
            false => self.add(freed),
        };
        let Some(oldest) = self.change(add) else { return false };
        if let Some(oldest) = oldest
            && (is_over(self.bytes.load(Relaxed)) || !release::put_on_list(lists, oldest))
        {
            self.put_back(lists, oldest);
        }
        true
    }

    /// Puts a block into the ring, which is full: it gets the place of the oldest one, which is
    /// returned.
    #[inline(always)]
    fn exchange(&self, freed: Freed) -> Option<Freed> {
        let first = self.first.get();
        let oldest = self.entries[first as usize % ENTRIES].replace(Some(freed))?;
        self.first.set(first.wrapping_add(1));
        let bytes = (self.bytes.load(Relaxed) + freed.bytes()).saturating_sub(oldest.bytes());
        self.bytes.store(bytes, Relaxed);
        Some(oldest)
    }

    /// Puts a block into the ring, which has a free place. If there are too many bytes then, takes
    /// the oldest one out.
    #[inline(never)]
    fn add(&self, freed: Freed) -> Option<Freed> {
        let (first, before) = (self.first.get(), self.count.load(Relaxed));
        self.entries[first.wrapping_add(before) as usize % ENTRIES].set(Some(freed));
        let bytes = self.bytes.load(Relaxed) + freed.bytes();
        self.note(before + 1, bytes);
        if is_over(bytes) { self.take(first, before, bytes) } else { None }
    }

    /// Puts back a block that was taken out, and more blocks while there are too many bytes.
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

    /// Keeps a freed block that is too large for the ring, and puts back the one before it. Returns
    /// `false`, and does nothing, if the block is too large for that as well, or if its place is
    /// [being changed](Self::change).
    pub(super) fn keep_large(&self, lists: *mut Lists, freed: Freed) -> bool {
        if freed.bytes() > mode::quarantine().saturating_mul(LARGE) {
            return false;
        }
        let Some(before) = self.replace_large(Some(freed)) else { return false };
        if let Some(before) = before {
            release::put_back(lists, before);
        }
        true
    }

    /// Gives the place beside the ring to `next`, and returns the block that had it, if any. `None`,
    /// and nothing done, if the place is [being changed](Self::change).
    fn replace_large(&self, next: Option<Freed>) -> Option<Option<Freed>> {
        self.change(|| {
            self.large_bytes.store(next.map_or(0, Freed::bytes), Relaxed);
            self.large.replace(next)
        })
    }

    /// Takes all blocks out, and hands each to `put_back`; none while the quarantine is [being
    /// changed](Self::change).
    fn empty(&self, put_back: impl Fn(Freed)) {
        while let Some(oldest) = self.take_oldest() {
            put_back(oldest);
        }
        self.replace_large(None).flatten().into_iter().for_each(put_back);
    }

    /// Takes the oldest block out; `None` if there is none, or if the ring is [being
    /// changed](Self::change).
    fn take_oldest(&self) -> Option<Freed> {
        let take = || {
            let left = self.count.load(Relaxed).checked_sub(1)?;
            self.take(self.first.get(), left, self.bytes.load(Relaxed))
        };
        self.change(take).flatten()
    }

    /// Takes the oldest block out, which leaves `left` blocks. `bytes` are those of all blocks,
    /// this one included.
    #[inline(always)]
    fn take(&self, first: u32, left: u32, bytes: usize) -> Option<Freed> {
        let oldest = self.entries[first as usize % ENTRIES].get()?;
        self.first.set(first.wrapping_add(1));
        self.note(left, bytes.saturating_sub(oldest.bytes()));
        Some(oldest)
    }

    /// Records how many blocks the ring has, and their bytes.
    #[inline(always)]
    fn note(&self, count: u32, bytes: usize) {
        self.count.store(count, Relaxed);
        self.bytes.store(bytes, Relaxed);
    }
}

/// Draws a random state for the calling thread, and empties its quarantine without putting anything
/// back. Lists whose thread stayed behind in a fork may have had a quarantine, perhaps half
/// changed; its blocks stay in use.
pub(in super::super) fn begin() {
    if mode::is_hardened()
        && let Some((_, own)) = of_thread()
    {
        ended::set_put_back_others(put_back_orphaned);
        own.random.set(os::random() | 1);
        own.first.set(0);
        own.note(0, 0);
        own.large.set(None);
        own.large_bytes.store(0, Relaxed);
        own.is_changing.set(false);
    }
}

/// Puts back all blocks in the quarantine of lists without a thread. If the thread stayed behind in
/// a fork while it was changing its quarantine, the blocks stay in use.
///
/// # Safety
/// No thread of this process has the lists.
unsafe fn put_back_orphaned(lists: *mut Lists) {
    let face = NonNull::new(lists).map(quick::face);
    let Some((_, own)) = face.and_then(quick::behind_face) else { return };
    // SAFETY: as in `of_thread`, except that the caller alone uses it.
    let own = unsafe { &*own.cast::<Own>() };
    own.empty(release::put_into_heap);
}

/// Returns what is in the quarantine of the thread with these lists.
pub(in super::super) fn kept(lists: *mut Lists) -> Listed {
    let lists = NonNull::new(lists).filter(|_| mode::is_hardened());
    let Some((_, own)) = lists.and_then(|lists| quick::behind_face(quick::face(lists))) else {
        return Listed::default();
    };
    // SAFETY: as in `of_thread`; the fields read are atomic.
    let (count, bytes, large) = unsafe {
        let own = own.cast::<Own>();
        (&(*own).count, &(*own).bytes, &(*own).large_bytes)
    };
    let large = large.load(Relaxed);
    Listed {
        blocks: count.load(Relaxed) as usize + usize::from(large > 0),
        bytes: bytes.load(Relaxed) + large,
    }
}

/// Puts back all blocks in the calling thread's quarantine: the thread ends, or gives up its free
/// blocks.
pub(in super::super) fn flush_quarantine() {
    if !mode::is_hardened() {
        return;
    }
    if let Some((lists, own)) = of_thread() {
        own.empty(|freed| release::put_back(lists, freed));
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::global::native::base::sizes;
    use crate::global::native::lists::registry;
    use crate::global::tuning::SMALL_MAX;
    use crate::global::{Hardening, Pagewise, Tuning};
    use crate::os::alone;

    /// Frees blocks of up to `most` bytes with a quarantine of `quarantine` bytes, and compares it
    /// with a plain queue.
    fn keeps(quarantine: u32, most: usize) {
        let hardening = Hardening::CHECKS.quarantine(quarantine);
        registry::tuning(&Tuning::new().hardening(hardening));
        let pagewise = Pagewise::new();
        // SAFETY: the block is in use, and freed once.
        unsafe { pagewise.free(pagewise.allocate(1)) };
        let lists = quick::of_face(current::lists());
        flush_quarantine();
        assert_eq!(kept(lists), Listed::default());
        let (mut queue, mut sum, mut large) = (VecDeque::new(), 0, 0);
        let mut random = 7_u64;
        let mut full = false;
        for _ in 0..6 * ENTRIES {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let size = 1 + (random >> 33) as usize % most;
            let list = if size <= SMALL_MAX { sizes::offset(size) } else { 0 };
            // The words around a larger block count, and what it takes beyond its size.
            let whole = (16 + size + 8).max(Tuning::new().pages.ffcrossover + 1);
            let bytes = if list > 0 { sizes::class_size(list) } else { whole };
            // SAFETY: the block is in use, and freed once.
            unsafe { pagewise.free(pagewise.allocate(size)) };
            if bytes <= quarantine as usize {
                queue.push_back(bytes);
                sum += bytes;
                while queue.len() > ENTRIES || sum > quarantine as usize {
                    sum -= queue.pop_front().expect("there are some");
                }
            } else if list == 0 && bytes <= LARGE * quarantine as usize {
                large = bytes;
            }
            full |= queue.len() == ENTRIES;
            let blocks = queue.len() + usize::from(large > 0);
            assert_eq!(kept(lists), Listed { blocks, bytes: sum + large });
        }
        assert_eq!(full, quarantine > 1 << 20);
        flush_quarantine();
        assert_eq!(kept(lists), Listed::default());
    }

    /// A quarantine, limited by entries or by bytes, keeps the blocks freed last, and the last of
    /// those that are too large for it, but not much too large.
    #[test]
    fn a_quarantine_is_a_queue() {
        alone::passes("global::native::hardened::own::tests::many");
        alone::passes("global::native::hardened::own::tests::large");
        alone::passes("global::native::hardened::own::tests::larger");
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

    #[test]
    #[ignore = "in a process of its own"]
    fn larger() {
        keeps(15_000, 70_000);
    }

    /// The lesser of two random numbers is below their bound, and less likely the greater it is.
    #[test]
    fn lesser_numbers_are_likelier() {
        // SAFETY: all zeros is a valid value.
        let own: Box<Own> = unsafe { Box::new(core::mem::zeroed()) };
        own.random.set(0x1234_5678_9abc_def1);
        for bound in [1, 2, 7, 8] {
            let mut counts = [0; 8];
            for _ in 0..1_000 * bound * bound {
                counts[own.lesser_below(bound) as usize] += 1;
            }
            for (number, count) in (0..).zip(counts) {
                let expected = if number < bound { 2 * (bound - number) - 1 } else { 0 } * 1_000;
                let tenth = expected / 10;
                assert!((expected - tenth..=expected + tenth).contains(&count), "{counts:?}");
            }
        }
    }

    /// A random number is below its bound, and each number below it occurs.
    #[test]
    fn random_numbers_are_below_their_bound() {
        // SAFETY: all zeros is a valid value.
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
