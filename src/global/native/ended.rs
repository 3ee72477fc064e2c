//! Lists of threads that have ended. The next threads begin with them, and with the blocks that are on them: where each
//! request has a thread of its own, most of its blocks are those of the request before, still in the processor's cache.
//!
//! ```text
//!  a thread ends ──▶ LEFT, without a lock ──▶ Ended, under the registry's lock ──▶ a thread begins
//!                                                  └─ after the purge delay: its blocks go back to their heaps
//! ```
//! The blocks of all such lists together are bounded; a thread that ends beyond that puts its own back. So does every
//! thread in hardened mode.

use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};

use super::apart::Apart;
use super::mode;
use super::quick::{self, Lists, Waiting};
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

/// Lists whose threads have ended, the last first, but for those in [`LEFT`]; the registry has them.
#[derive(Debug)]
pub(super) struct Ended {
    first: *mut Lists,
}

// SAFETY: lists are tied to a thread only while it uses them.
unsafe impl Send for Ended {}

/// Whether somebody puts back the blocks on such lists.
static PUTS_BACK: Apart<AtomicBool> = Apart::new(AtomicBool::new(false));

/// Whether somebody puts blocks back, dozens of batches at once, on none of which memory is looked after: it is done while
/// memory is looked after already.
pub(super) fn puts_back() -> bool {
    PUTS_BACK.load(Relaxed)
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
        unsafe { quick::flush_all(lists.as_ptr()) };
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

fn waiting(lists: NonNull<Lists>) -> &'static Waiting {
    // SAFETY: lists are never given up.
    unsafe { &(*lists.as_ptr()).waiting }
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
    PUTS_BACK.store(true, Relaxed);
    // SAFETY: the caller's promise.
    unsafe { quick::flush_all(lists.as_ptr()) };
    PUTS_BACK.store(false, Relaxed);
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
        Self { first: ptr::null_mut() }
    }

    /// Lists for a thread, with blocks on them perhaps, the last that suit, of a few; else the last: it is to
    /// [begin](begin) with them. `None` if there are none.
    pub(super) fn take(
        &mut self,
        suits: impl Fn(NonNull<Lists>) -> bool,
    ) -> Option<NonNull<Lists>> {
        self.receive();
        let taken = self.take_first(LOOKS, suits).or_else(|| self.take_first(1, |_| true));
        taken.inspect(|&lists| hold(lists))
    }

    /// Lists with blocks on them, whose thread ended so many milliseconds ago, or before. They are to be
    /// [put back](put_back).
    pub(super) fn take_idle(&mut self, delay: u32) -> Option<NonNull<Lists>> {
        self.receive();
        let now = os::now() as u32;
        let taken = self.take_first(usize::MAX, |lists| {
            let waiting = waiting(lists);
            let since = now.wrapping_sub(waiting.since.load(Relaxed));
            waiting.bytes.load(Relaxed) > 0 && since >= delay
        });
        taken.inspect(|&lists| hold(lists))
    }

    /// Forgets all, after a fork: those of the threads that stayed behind are [added](Self::add).
    pub(super) fn forget(&mut self) {
        LEFT.store(ptr::null_mut(), Relaxed);
        BYTES.store(0, Relaxed);
        PUTS_BACK.store(false, Relaxed);
        self.first = ptr::null_mut();
    }

    /// Adds lists that are empty.
    pub(super) fn add(&mut self, lists: NonNull<Lists>) {
        let waiting = waiting(lists);
        waiting.bytes.store(0, Relaxed);
        waiting.holder.store(0, Relaxed);
        waiting.next.store(self.first, Relaxed);
        self.first = lists.as_ptr();
    }

    /// Takes those that were left since.
    fn receive(&mut self) {
        let Some(first) = NonNull::new(LEFT.swap(ptr::null_mut(), Acquire)) else { return };
        let mut last = first;
        while let Some(next) = NonNull::new(waiting(last).next.load(Relaxed)) {
            last = next;
        }
        waiting(last).next.store(self.first, Relaxed);
        self.first = first.as_ptr();
    }

    /// Takes out the first that are wanted, of so many.
    fn take_first(
        &mut self,
        looks: usize,
        wants: impl Fn(NonNull<Lists>) -> bool,
    ) -> Option<NonNull<Lists>> {
        let mut before: Option<NonNull<Lists>> = None;
        let mut at = NonNull::new(self.first);
        for _ in 0..looks {
            let lists = at?;
            let next = waiting(lists).next.load(Relaxed);
            if wants(lists) {
                match before {
                    None => self.first = next,
                    Some(before) => waiting(before).next.store(next, Relaxed),
                }
                return Some(lists);
            }
            (before, at) = (at, NonNull::new(next));
        }
        None
    }
}

#[cfg(all(test, not(miri), not(target_family = "wasm")))]
mod tests {
    use std::sync::Barrier;
    use std::time::{Duration, Instant};

    use super::super::visit::Visit;
    use super::super::{current, heaps, registry};
    use super::*;
    use crate::global::Pagewise;
    use crate::os::alone;

    const PAGEWISE: Pagewise = Pagewise::new();

    /// Bytes stay counted as long as they fit, to the byte.
    #[test]
    fn bytes_are_reserved_up_to_a_bound() {
        let counted = AtomicUsize::new(0);
        let reserved = [(60, true), (41, false), (40, true), (1, false), (0, true)];
        for (bytes, fits) in reserved {
            assert_eq!(reserve(&counted, bytes, 100), fits, "{bytes}");
        }
        assert_eq!(counted.load(Relaxed), 100);
    }

    /// The last lists that suit are taken first, from wherever they are, and each once.
    #[test]
    fn lists_are_taken_by_the_last_that_suit() {
        registry::heap_for_test();
        let all: Vec<_> = (0..3 * LOOKS).map(|_| quick::make().expect("there is memory")).collect();
        let mut ended = Ended::new();
        all.iter().for_each(|&lists| ended.add(lists));
        let mut left = all.clone();
        let mut take = |wanted: &[usize], expected: usize| {
            let wanted: Vec<_> = wanted.iter().map(|&index| all[index]).collect();
            // What other tests' threads left meanwhile is before these, and does not suit: it is put back.
            let mut others = Vec::new();
            let taken = loop {
                let taken = ended.take(|lists| wanted.contains(&lists)).expect("there are some");
                if all.contains(&taken) {
                    break taken;
                }
                others.push(taken);
            };
            others.into_iter().for_each(push);
            assert_eq!(taken, all[expected]);
            left.retain(|&lists| lists != taken);
        };
        let last = all.len() - 1;
        take(&[last - 1, last - 2], last - 1);
        take(&[last], last);
        take(&[last - LOOKS - 1], last - LOOKS - 1);
        // Those too far from the last are not looked at.
        take(&[0], last - 2);
        take(&[], last - 3);
        while let Some(lists) = ended.take_first(1, |_| true) {
            match all.contains(&lists) {
                true => left.retain(|&other| other != lists),
                false => push(lists),
            }
        }
        assert!(left.is_empty(), "none is lost");
    }

    /// Where a thread's small blocks are, and how many bytes of them lie on its lists.
    fn serve(blocks: usize) -> (usize, usize) {
        let thread = std::thread::spawn(move || {
            let before = quick::of_face(current::lists());
            assert!(quick::is_none(before), "it has no lists yet");
            let mut all: Vec<_> = (0..blocks).map(|_| PAGEWISE.allocate(500)).collect();
            all.push(PAGEWISE.allocate(1));
            let bytes = quick::bytes(quick::of_face(current::lists()));
            // SAFETY: lists are never given up.
            let heap = unsafe { &*quick::of_face(current::lists()) }.heap();
            // SAFETY: they are freed once.
            all.into_iter().for_each(|block| unsafe { PAGEWISE.free(block) });
            (heap.slot(), bytes)
        });
        thread.join().expect("it ends")
    }

    fn bytes() -> usize {
        BYTES.load(Relaxed)
    }

    /// A thread begins with the blocks that another one left, and with its heap; they go back when they lay there for a
    /// while, when all memory is to go back, and in the child of a fork. Those of many threads are bounded.
    #[test]
    fn a_thread_begins_with_the_blocks_of_one_that_ended() {
        alone::passes("global::native::ended::tests::begins");
    }

    #[test]
    #[ignore = "of the whole process"]
    fn begins() {
        let put_back = |delay| registry::put_back_of_ended(delay, &mut Visit::unbounded());
        let (slot, _) = serve(60);
        let left = bytes();
        assert!(left > 20 * 500, "{left} bytes are left");
        // As many as were left, but for the batch of the first block.
        let (again, found) = serve(0);
        assert_eq!(again, slot);
        assert!(found > 20 * 500, "{found} bytes are found");
        assert!(bytes() > 20 * 500 && !put_back(1 << 30), "it is not long ago");
        assert!(put_back(0) && bytes() == 0 && !any_blocks());
        assert!(!put_back(0));
        assert!(serve(0).1 < 20 * 500, "nothing was left");

        serve(60);
        PAGEWISE.purge();
        assert_eq!(bytes(), 0);

        serve(60);
        let begin = Instant::now();
        while any_blocks() {
            assert!(begin.elapsed() < Duration::from_secs(60), "they stay");
            std::thread::sleep(Duration::from_millis(50));
            PAGEWISE.maintain();
        }

        let most = heaps::shared() * MOST;
        let threads = 2 * most / (256 << 10);
        let all_have = Barrier::new(threads);
        let serve_all = || {
            let size = |index: usize| 500 + index % 10 * 50;
            let blocks: Vec<_> = (0..600).map(|index| PAGEWISE.allocate(size(index))).collect();
            all_have.wait();
            // SAFETY: they are freed once.
            blocks.into_iter().for_each(|block| unsafe { PAGEWISE.free(block) });
        };
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(serve_all))));
        // Their last destructors may run after the scope.
        let begin = Instant::now();
        while bytes() < most / 2 {
            assert!(begin.elapsed() < Duration::from_secs(60), "{} of {most}", bytes());
            std::thread::yield_now();
        }
        assert!(bytes() <= most, "{} of {most}", bytes());

        #[cfg(unix)]
        // SAFETY: the child only allocates, and ends.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                PAGEWISE.free(PAGEWISE.allocate(20_000));
                libc::_exit(if bytes() == 0 { 7 } else { 8 });
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7, "{status:#x}");
        }
    }

    /// A handler of a signal forks while its thread puts back blocks of others' lists, begins, or ends: the child goes on with
    /// the lists in its hands, which the handler, or whoever allocates next in the child, must not leave to the next thread.
    #[cfg(unix)]
    #[test]
    fn lists_in_the_hands_of_who_forks_are_left_once() {
        alone::passes("global::native::ended::tests::forks");
    }

    #[cfg(unix)]
    #[test]
    #[ignore = "in a process of its own"]
    fn forks() {
        /// Allocates on the slow path, as a handler may, which has the lists of all who stayed behind adopted.
        fn adopt() {
            // SAFETY: the block is freed once.
            unsafe { PAGEWISE.free(PAGEWISE.allocate(20_000)) };
        }
        /// How often these lists are among those that were left.
        fn left(wanted: NonNull<Lists>) -> usize {
            let all = registry::all_lists().count();
            let next = || registry::with_ended(|ended| ended.take(|_| true));
            let taken: Vec<_> = core::iter::from_fn(next).take(2 * all).collect();
            taken.into_iter().filter(|&lists| lists == wanted).count()
        }
        /// Whether that holds in the child of a fork.
        fn in_child(holds: impl FnOnce() -> bool) -> bool {
            // SAFETY: the child only uses this allocator, and ends.
            unsafe {
                let child = libc::fork();
                if child == 0 {
                    libc::_exit(if holds() { 7 } else { 8 });
                }
                let mut status = 0;
                assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7
            }
        }

        // So this thread has lists of its own.
        adopt();
        let started = Instant::now();
        let idle = loop {
            serve(60);
            // Its last destructors may run after it was joined.
            if let Some(lists) = registry::with_ended(|ended| ended.take_idle(0)) {
                break lists;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "nothing is left");
        };
        let puts_back = || {
            adopt();
            // SAFETY: they were taken above.
            unsafe { put_back(idle) };
            left(idle) == 1 && bytes() == 0
        };
        assert!(in_child(puts_back), "they are put back");
        let begins = || {
            begin(idle);
            adopt();
            left(idle) == 0
        };
        assert!(in_child(begins), "they are the thread's");
        let ended = std::thread::spawn(|| {
            adopt();
            let lists = NonNull::new(quick::of_face(current::lists())).expect("it has some");
            hold(lists);
            current::set(quick::gone());
            let ends = || {
                adopt();
                // SAFETY: they are the thread's, which has given them up.
                unsafe { registry::leave(lists) };
                // SAFETY: lists are never given up.
                let threads = unsafe { lists.as_ref() }.heap().threads.load(Relaxed);
                left(lists) == 1 && threads == 0
            };
            let is_left_once = in_child(ends);
            current::set(quick::face(lists));
            is_left_once
        });
        assert!(ended.join().expect("it ends"), "they are left");
    }
}
