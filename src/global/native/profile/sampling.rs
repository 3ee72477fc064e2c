//! Takes the samples: decides whether a request is sampled, and adds and removes blocks. Also
//! starts and stops profiles, and handles forks.

use core::ptr;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::book::{Book, DEPTH, Snapshot, Taken};
use super::presence;
use crate::global::native::base::apart::Apart;
use crate::global::native::base::lock::Locked;
use crate::global::native::base::{mode, sampler, sizes};
use crate::global::native::lists::{current, quick, registry};
use crate::global::native::memory::space::SPACE;
use crate::global::profile_error::ProfileError;
use crate::global::tuning::{GRANULE, Tuning, UNIT};
use crate::os::{self, KeepErrno};

/// The profile of this process.
static BOOK: Apart<Locked<Book>> = Apart::new(Locked::new(Book::new()));

/// Blocks that were freed while the book's lock was not available; the next thread that takes the
/// lock takes them out. 0 marks a free entry.
static WAITING: Apart<[AtomicUsize; 64]> = Apart::new([const { AtomicUsize::new(0) }; 64]);

/// Samples dropped while the book's lock was not available.
static DROPPED: Apart<AtomicUsize> = Apart::new(AtomicUsize::new(0));

/// Runs `action` on the book, after taking out the blocks freed in the meantime; `None` if the lock
/// cannot be waited for.
fn with<R>(action: impl FnOnce(&mut Book) -> R) -> Option<R> {
    BOOK.with(|book| {
        for waiting in WAITING.iter().filter(|waiting| waiting.load(Relaxed) != 0) {
            take_out(book, waiting.swap(0, Acquire));
        }
        book.count_dropped(DROPPED.swap(0, Relaxed) as u64);
        action(book)
    })
}

/// Returns the granule whose table entry marks the block as sampled. `None` in hardened mode and
/// for blocks that are not small.
fn granule_of(block: usize) -> Option<usize> {
    let list = SPACE.list_of(ptr::without_provenance_mut(block));
    let small = !mode::is_hardened() && list.is_some_and(|list| list > 0);
    small.then_some(block / GRANULE)
}

/// Takes a block out of the book.
fn take_out(book: &mut Book, block: usize) -> Option<Taken> {
    let granule = granule_of(block);
    let (taken, last) = book.take(block, granule)?;
    presence::remove(block);
    if last {
        change_entry(block, quick::unshadowed);
    }
    Some(taken)
}

/// Changes the table entry of a small block's granule. A block that [waited](WAITING) is free
/// already, so its page may change its class at this moment; then the new entry stays.
fn change_entry(block: usize, change: impl FnOnce(u32) -> u32) {
    let block = ptr::without_provenance_mut(block);
    if let Some(list) = SPACE.list_of(block).filter(|&list| list > 0) {
        SPACE.change_list(block, list, change(list));
    }
}

/// Decides whether to sample the calling thread's next block. Must be called once for each request
/// that takes the slow path while there is a profile, before the request is served. The thread has
/// its lists.
pub(in super::super) fn decide_sample(asked: &Tuning, size: usize, align: usize) -> bool {
    let lists = quick::of_face(current::lists());
    if quick::is_none(lists) {
        return false;
    }
    // SAFETY: a thread's lists are never deallocated.
    let lists = unsafe { &*lists };
    if lists.sampler.is_busy() {
        return false;
    }
    let is_listed = || match align <= UNIT {
        true => sizes::offset_up_to_unit(size, align) > 0,
        false => {
            let page_size = registry::tuning(asked).pages.page_size;
            sizes::offset_at_any(size, align, page_size) > 0
        }
    };
    if !mode::is_hardened() && size <= sampler::TRIAL && is_listed() {
        lists.decide_small_sample(size)
    } else {
        lists.decide_other_sample(size)
    }
}

/// Adds a newly allocated block that is sampled. `frame` is an address on the stack; only calls
/// further out than it are recorded.
#[cold]
pub(in super::super) fn add_sample(block: *mut u8, size: usize, frame: usize) {
    let lists = quick::of_face(current::lists());
    if block.is_null() || quick::is_none(lists) {
        return;
    }
    let add = || {
        let mut calls = [0; DEPTH];
        os::return_addresses_beyond(frame, &mut calls);
        let depth = calls.iter().position(|&call| call == 0).unwrap_or(DEPTH);
        let block = block.addr();
        let added = with(|book| {
            if !mode::is_profiled() {
                return;
            }
            // Removes an old entry for this address, whose free could not be recorded.
            take_out(book, block);
            match book.add(block, granule_of(block), size, &calls[..depth]) {
                Some(()) => divert_frees(block),
                None => book.count_dropped(1),
            }
        });
        if added.is_none() {
            DROPPED.fetch_add(1, Relaxed);
        }
    };
    // SAFETY: a thread's lists are never deallocated.
    unsafe { (*lists).sampler.run_unless_busy(add) };
}

/// Makes frees of a block in the book, and of others in its granule, take the slow path.
fn divert_frees(block: usize) {
    presence::add(block);
    if granule_of(block).is_some() {
        change_entry(block, |list| quick::shadow(quick::unshadowed(list)));
    }
}

/// Takes a block out of the book that is about to be freed.
#[inline]
pub(in super::super) fn forget(block: *mut u8) {
    take(block);
}

/// Takes a block out of the book that is about to be resized, and returns its data.
#[inline]
pub(in super::super) fn take(block: *mut u8) -> Option<Taken> {
    if presence::may_have(block.addr()) { take_present(block.addr()) } else { None }
}

#[cold]
fn take_present(block: usize) -> Option<Taken> {
    // The wait for the book's lock may change it, and `free` must not.
    let _errno = KeepErrno::new();
    with(|book| take_out(book, block)).unwrap_or_else(|| {
        let free =
            |waiting: &AtomicUsize| waiting.compare_exchange(0, block, Release, Relaxed).is_ok();
        // If all entries are used, the block stays in the book until its address is sampled or
        // freed again.
        let _ = WAITING.iter().any(free);
        None
    })
}

/// Adds a block again that was [taken](take) out, because it stayed as it was.
pub(in super::super) fn restore(block: *mut u8, taken: Option<Taken>) {
    let (Some(taken), block) = (taken, block.addr()) else { return };
    let _ = with(|book| {
        if mode::is_profiled() && book.restore(block, granule_of(block), taken).is_some() {
            divert_frees(block);
        }
    });
}

/// Starts a profile with one sample in every `mean` bytes. The allocator must be open.
pub(in super::super::super) fn start(asked: &Tuning, mean: usize) -> Result<(), ProfileError> {
    if !sampler::MEANS.contains(&mean) {
        return Err(ProfileError::RateOutOfRange);
    }
    registry::tuning(asked);
    let begin = |book: &mut Book| {
        if mode::is_profiled() {
            return Err(ProfileError::AlreadyOn);
        }
        if !presence::open() || book.begin(mean).is_none() {
            return Err(ProfileError::Memory);
        }
        sampler::begin(mean);
        if !mode::is_hardened() {
            sizes::disable_fast_paths(sampler::TRIAL);
        }
        if mode::set_profiled(true) { Ok(()) } else { Err(ProfileError::Memory) }
    };
    with(begin).unwrap_or(Err(ProfileError::Busy))?;
    let lists = quick::of_face(current::lists());
    if !quick::is_none(lists) {
        // The calling thread takes part from its next block on.
        // SAFETY: a thread's lists are never deallocated.
        unsafe { (*lists).force_slow_path() };
    }
    Ok(())
}

/// Stops the profile, if there is one. It [remains available](snapshot).
pub(in super::super::super) fn stop() -> Result<(), ProfileError> {
    let end = |book: &mut Book| {
        if mode::is_profiled() {
            mode::set_profiled(false);
            close(book);
        }
    };
    with(end).ok_or(ProfileError::Busy)
}

fn close(book: &mut Book) {
    if !mode::is_hardened() {
        sizes::enable_fast_paths();
    }
    book.close(|granule| change_entry(granule * GRANULE, quick::unshadowed), presence::remove);
}

/// Returns a copy of the current profile, or of the last one.
pub(in super::super::super) fn snapshot() -> Result<Snapshot, ProfileError> {
    let copy = |book: &mut Book| {
        if !book.has_begun() {
            return Err(ProfileError::NeverStarted);
        }
        book.snapshot().ok_or(ProfileError::Memory)
    };
    with(copy).unwrap_or(Err(ProfileError::Busy))
}

/// Takes the book's lock before a fork, so that the child gets a consistent book.
pub(in super::super) fn take_for_fork(pause: impl FnMut() -> bool) {
    BOOK.take_for_fork(pause);
}

/// Releases the book's lock after a fork, in the parent.
pub(in super::super) fn after_fork() {
    BOOK.after_fork();
}

/// Releases the book's lock after a fork, in the child, which continues the profile. If the book is
/// lost, the profile ends.
pub(in super::super) fn after_fork_in_child() {
    if BOOK.after_fork_in_child() && mode::is_profiled() {
        mode::set_profiled(false);
        if !mode::is_hardened() {
            sizes::enable_fast_paths();
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::global::{Hardening, Pagewise};
    use crate::os::alone;

    /// Allocates one block of each kind: small, in a heap, a mapping.
    fn blocks(pagewise: &Pagewise) -> [*mut u8; 3] {
        [100, 100 << 10, 100 << 20].map(|size| pagewise.allocate(size))
    }

    /// The granule of a small block is found; other blocks and hardened mode need none.
    #[test]
    fn small_blocks_are_found_by_their_granules() {
        alone::passes("global::native::profile::sampling::tests::usual");
        alone::passes("global::native::profile::sampling::tests::hardened");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn usual() {
        let blocks = blocks(&Pagewise::new()).map(<*mut u8>::addr);
        assert_eq!(blocks.map(granule_of), [Some(blocks[0] / GRANULE), None, None]);
        assert_eq!(granule_of(0), None);
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn hardened() {
        let pagewise = Pagewise { tuning: Tuning::new().hardening(Hardening::CHECKS) };
        let blocks = blocks(&pagewise).map(<*mut u8>::addr);
        assert_eq!(blocks.map(granule_of), [None; 3]);
    }

    /// A short block with an alignment that no page of small blocks has is sampled by its bytes,
    /// since it is never popped. Any other short block is sampled by counting pops, and here are
    /// none.
    #[test]
    fn aligned_blocks_are_sampled_by_their_bytes() {
        alone::passes("global::native::profile::sampling::tests::aligned");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn aligned() {
        let pagewise = Pagewise::new();
        assert!(!pagewise.allocate(100).is_null());
        start(&pagewise.tuning, 4 << 10).expect("there is memory");
        let sampled =
            |size, align| (0..400).filter(|_| decide_sample(&pagewise.tuning, size, align)).count();
        for (size, align) in [(1000, 1 << 20), (5_000, UNIT), (5_000, 1 << 20)] {
            assert!(sampled(size, align) > 20, "{size}, {align}");
        }
        for (size, align) in [(1000, UNIT), (1000, 64)] {
            assert!(sampled(size, align) < 20, "{size}, {align}");
        }
    }

    /// In the child of a fork the profile goes on, unless another thread had the book's lock.
    #[test]
    fn a_profile_ends_with_its_book() {
        alone::passes("global::native::profile::sampling::tests::lost");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn lost() {
        let pagewise = Pagewise::new();
        assert!(!pagewise.allocate(100).is_null());
        start(&pagewise.tuning, 1).expect("there is memory");
        let is_on = || (mode::is_profiled(), sizes::offset_of_freed(100, UNIT) == 0);
        after_fork_in_child();
        assert_eq!(is_on(), (true, true));
        let (taken, is_taken) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            with(|_| {
                taken.send(()).expect("the test waits");
                // Until the process ends.
                std::thread::sleep(std::time::Duration::from_secs(600));
            })
        });
        is_taken.recv().expect("the thread has the lock");
        after_fork_in_child();
        assert_eq!(is_on(), (false, false));
    }

    /// While a small block is in the book, its granule's entry names the shadow of its list, and
    /// frees with a size take the slow path. A block that is taken out and restored is in the book
    /// again, unless the profile has ended.
    #[test]
    fn a_sampled_block_has_the_shadow_of_its_list() {
        alone::passes("global::native::profile::sampling::tests::shadowed");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn shadowed() {
        let pagewise = Pagewise::new();
        let list = SPACE.list_of(pagewise.allocate(100));
        assert!(list.is_some_and(|list| list > 0));
        let is_fast = || sizes::offset_of_freed(100, UNIT) > 0;
        assert!(is_fast());
        // At this rate every block is sampled.
        start(&pagewise.tuning, 1).expect("there is memory");
        assert!(!is_fast());
        let block = pagewise.allocate(100);
        let entry = || (SPACE.list_of(block), presence::may_have(block.addr()));
        let [known, unknown] = [(list.map(quick::shadow), true), (list, false)];
        assert_eq!(entry(), known);
        for _ in 0..2 {
            let taken = take(block);
            assert!(taken.is_some());
            assert_eq!(entry(), unknown);
            assert!(take(block).is_none());
            restore(block, None);
            assert_eq!(entry(), unknown);
            restore(block, taken);
            assert_eq!(entry(), known);
        }
        // Nothing is added where there is no block, nor by a thread without lists.
        add_sample(ptr::null_mut(), 100, 0);
        assert!(take(ptr::null_mut()).is_none());
        let other = std::thread::spawn(|| {
            let block = ptr::without_provenance_mut(16);
            add_sample(block, 100, 0);
            take(block).is_none() && quick::is_none(current::lists())
        });
        assert!(other.join().expect("it ends"));
        let taken = take(block);
        restore(block, taken);
        stop().expect("nobody else is at it");
        assert!(is_fast());
        assert_eq!(entry(), unknown);
        restore(block, taken);
        assert_eq!(entry(), unknown);
        assert!(take(block).is_none());
    }
}
