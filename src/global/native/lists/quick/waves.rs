//! Lists whose blocks come and go in waves, which take more blocks than usual.
//!
//! A thread that allocates many blocks of a class and then frees them all, again and again, passes
//! each to its heap and back, which takes as long as `malloc` and `free` themselves. Its list sees
//! batches that are put back in a row, and then one that is taken. After [`WAVES`] of these it may
//! take [four times](room) as many blocks as usual, or more if it is short. The list of a thread
//! whose blocks come from other threads, or go to them, has no waves: to keep more blocks would
//! save nothing.
//!
//! ```text
//!  places | usual: list 0 | list 1 | … | wave: list 0 …………… | list 1 ……… | …
//! ```
//! A list moves to its wave places when it first takes more than usual, and stays there. The usual
//! places of a thread lie close together, so that few OS pages hold them.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use crate::global::native::base::apart::Apart;

/// Batches put back in a row that make a wave if the next one is taken.
pub(super) const BATCHES: i8 = 2;

/// Waves after which a list may take more blocks than usual.
pub(super) const WAVES: u8 = 2;

/// How many times the usual blocks a list may take; and how many times if it is short, up to `FEW`
/// blocks.
const TIMES: u32 = 4;
const TIMES_SHORT: u32 = 16;
const FEW: u32 = 64;

/// Returns how many blocks a list may take that usually takes `most`.
pub(super) fn room(most: u32) -> u32 {
    (TIMES * most).max((TIMES_SHORT * most).min(FEW))
}

/// Returns how many wave places `lists` lists have together, if they have `usual` usual places
/// together. The wave places of a list begin behind those of the lists before it.
pub(super) const fn places(lists: usize, usual: usize) -> usize {
    TIMES as usize * usual + FEW as usize * lists
}

/// The most bytes of blocks that all lists together may take beyond the usual.
const EXTRA: usize = 8 << 20;

/// Bytes of blocks that lists may take beyond the usual at present. A list that was
/// [shut](super::list::List::shut) at a fork stays counted in the child.
static TAKEN: Apart<AtomicUsize> = Apart::new(AtomicUsize::new(0));

/// Counts `more` bytes; `false`, and nothing is counted, if all lists together would take too many.
pub(super) fn reserve(more: usize) -> bool {
    let add = |taken: usize| taken.checked_add(more).filter(|&sum| sum <= EXTRA);
    more == 0 || TAKEN.fetch_update(Relaxed, Relaxed, add).is_ok()
}

/// Forgets `bytes` that were [counted](reserve).
pub(super) fn release(bytes: usize) {
    if bytes != 0 {
        TAKEN.fetch_sub(bytes, Relaxed);
    }
}

#[cfg(all(test, unix, not(miri), target_pointer_width = "64"))]
mod tests {
    use core::ptr::NonNull;
    use std::sync::mpsc;
    use std::thread;

    use super::super::{Lists, flush_all, kept, of_face};
    use super::*;
    use crate::global::Pagewise;
    use crate::global::native::base::sizes;
    use crate::global::native::base::visit::Upkeep;
    use crate::global::native::lists::current;
    use crate::os::alone;

    static PAGEWISE: Pagewise = Pagewise::new();

    /// Blocks that a list of these sizes usually takes at most.
    const USUAL: usize = 256;

    /// A list whose blocks come and go in waves takes more than usual, also in the child of a fork,
    /// and no more once it was emptied. Its blocks go back if its thread stays behind in a fork.
    #[test]
    fn lists_with_waves_take_more() {
        alone::passes("global::native::lists::quick::waves::tests::waves");
    }

    /// The list of a thread that frees the blocks of another takes no more than usual.
    #[test]
    fn lists_of_other_threads_blocks_take_no_more() {
        alone::passes("global::native::lists::quick::waves::tests::others");
    }

    /// All lists together do not exceed the bytes for them.
    #[test]
    fn all_lists_share_the_bytes() {
        alone::passes("global::native::lists::quick::waves::tests::shared");
    }

    fn own() -> *mut Lists {
        of_face(current::lists())
    }

    /// Returns how many blocks of `size` bytes are on the thread's list.
    fn listed(size: usize) -> usize {
        kept(own(), sizes::offset(size)).blocks
    }

    fn allocate(size: usize, count: usize) -> Vec<NonNull<u64>> {
        let block = |number: usize| {
            let block = NonNull::new(PAGEWISE.allocate(size)).expect("there is memory").cast();
            // SAFETY: the block was just allocated, and has eight bytes at least.
            unsafe { block.write(number as u64) };
            block
        };
        (0..count).map(block).collect()
    }

    fn free(blocks: Vec<NonNull<u64>>) {
        for (number, block) in (0_u64..).zip(blocks) {
            // SAFETY: the block was allocated above, and is freed once.
            unsafe {
                assert_eq!(block.read(), number);
                PAGEWISE.free(block.as_ptr().cast());
            }
        }
    }

    fn make_waves(size: usize) {
        for count in [2000; 20].into_iter().chain([900]) {
            free(allocate(size, count));
        }
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn waves() {
        make_waves(24);
        assert!(listed(24) > USUAL, "{}", listed(24));
        assert_eq!(TAKEN.load(Relaxed), (TIMES as usize - 1) * USUAL * 32);

        let (lists, done) = (mpsc::channel(), mpsc::channel::<()>());
        let other = thread::spawn(move || {
            make_waves(48);
            lists.0.send(own() as usize).expect("it is waited for");
            done.1.recv().expect_err("it is closed");
        });
        let lists = lists.1.recv().expect("it is sent") as *mut Lists;
        assert!(kept(lists, sizes::offset(48)).blocks > USUAL);
        assert!(alone::in_child(|| {
            let before = listed(24);
            make_waves(24);
            // Takes the slow path, which puts back the lists of threads that stayed behind.
            free(allocate(20_000, 1));
            before > USUAL && listed(24) > USUAL && kept(lists, sizes::offset(48)).blocks == 0
        }));
        drop(done.0);
        other.join().expect("it ends");

        let before = TAKEN.load(Relaxed);
        // SAFETY: they are the calling thread's.
        unsafe { flush_all(own(), Upkeep::Never) };
        let given_back = before - TAKEN.load(Relaxed);
        assert_eq!(given_back, (TIMES as usize - 1) * USUAL * 32, "for other lists to take");
        free(allocate(24, 2000));
        assert!(listed(24) <= USUAL, "{}", listed(24));
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn others() {
        for _ in 0..20 {
            let allocates = || -> Vec<_> {
                let sent = |block: NonNull<u64>| block.as_ptr().expose_provenance();
                allocate(24, 2000).into_iter().map(sent).collect()
            };
            let blocks = thread::spawn(allocates).join().expect("it ends");
            let received = |address| NonNull::new(core::ptr::with_exposed_provenance_mut(address));
            free(blocks.into_iter().filter_map(received).collect());
            assert!(listed(24) <= USUAL, "{}", listed(24));
        }
        assert_eq!(TAKEN.load(Relaxed), 0);
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn shared() {
        const THREADS: usize = 8;
        let all = std::sync::Barrier::new(1 + THREADS);
        let makes_waves = || {
            (16..=4096).step_by(112).for_each(make_waves);
            all.wait();
            all.wait();
        };
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(makes_waves);
            }
            all.wait();
            let taken = TAKEN.load(Relaxed);
            all.wait();
            assert!(taken <= EXTRA && taken > EXTRA - (128 << 10), "{taken}");
        });
    }
}
