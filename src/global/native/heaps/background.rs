//! The thread that gives memory back while a program is idle, if the tuning asks for it
//! ([`Tuning::background`](crate::global::tuning::Tuning::background)).
//!
//! ```text
//!            something      a thread      nothing is
//!            is due         frees, ends   due any more
//!  (none) ──────────▶ wanted ─────▶ awake ──────────▶ asleep
//!     ▲                               ▲ │ ▲              │
//!     └── in the child of a fork ─────┘ │ └──────────────┘ something is due
//!                                       ▼
//!                     stopped: at exit, or when the library is unloaded;
//!                     ended: no other thread is left
//! ```
//! A program that never has much to give back never gets a second thread. The thread is created
//! after a request, or when a thread ends, while no lock is held. It has every signal blocked and a
//! small stack, and never allocates.
//!
//! A C program may end its main thread; its process then ends with its last thread. The background
//! thread must not be that one: the process would stay for ever, and ignore signals. So where no
//! thread has lists, the background thread checks whether it is alone. If so, it leaves its end,
//! and with it that of the process, to a successor: a thread with a stack of the usual size, on
//! which the exit functions run.

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicUsize};

use super::heap::Heap;
use super::pool;
use crate::global::native::base::apart::Apart;
use crate::global::native::base::sync;
use crate::global::native::base::visit::Visit;
use crate::os;

/// The program does not ask for the thread, or the system refused it.
const OFF: u32 = 0;
/// There is no thread.
const NONE: u32 = 1;
/// There is no thread, but memory is due to go back.
const WANTED: u32 = 2;
/// The thread gives memory back, or waits until more is due.
const AWAKE: u32 = 3;
/// As `AWAKE`, and something else has become due.
const AGAIN: u32 = 4;
/// The thread sleeps until something is due.
const ASLEEP: u32 = 5;
/// The thread must end for good, or must not be created.
const STOPPED: u32 = 6;
/// The thread has ended.
const ENDED: u32 = 7;

/// Milliseconds between the first two checks whether there are other threads: the last of them may
/// be about to end. The time doubles with each check.
const FIRST_LOOK: u64 = 1;

/// The most milliseconds between two such checks.
const LONGEST_LOOK: u64 = 1000;

/// The state of the thread: one of those above. The thread sleeps on this word.
static STATE: Apart<AtomicU32> = Apart::new(AtomicU32::new(OFF));

/// Handle of the thread in the C library; 0 if there is no thread.
static THREAD: AtomicUsize = AtomicUsize::new(0);

/// Allows the thread to be created.
pub(in crate::global::native) fn enable() {
    let _ = STATE.compare_exchange(OFF, NONE, Relaxed, Relaxed);
}

/// Arranges that the thread is stopped at exit, if it is allowed. Called once, when the allocator
/// opens, and not when the thread is created: this takes a lock under which the C library frees
/// memory.
pub(in crate::global::native) fn register() {
    if STATE.load(Relaxed) != OFF && !os::at_exit(stop) {
        STATE.store(OFF, Release);
    }
}

/// Notes that memory should go back, now or later.
pub(in crate::global::native) fn note_due() {
    set_due(&STATE);
}

/// As [`note_due`], for a given state.
fn set_due(state: &AtomicU32) {
    loop {
        let (from, to) = match state.load(Relaxed) {
            NONE => (NONE, WANTED),
            AWAKE => (AWAKE, AGAIN),
            ASLEEP => (ASLEEP, AWAKE),
            _ => return,
        };
        // On failure the thread has just fallen asleep or woken without seeing this: look again.
        if state.compare_exchange(from, to, AcqRel, Relaxed).is_ok() {
            if from == ASLEEP {
                os::wake(state);
            }
            return;
        }
    }
}

/// Notes that a thread with lists has ended: the background thread may be the last one now.
pub(in crate::global::native) fn note_end_of_thread() {
    let there_is_one = || matches!(STATE.load(Relaxed), AWAKE | AGAIN | ASLEEP);
    if there_is_one() && !pool::have_threads() {
        set_due(&STATE);
        // It may be awake, and wait for the next purge.
        os::wake(&STATE);
    }
}

/// Returns whether the thread is to be created.
#[inline]
pub(in crate::global::native) fn is_wanted() -> bool {
    STATE.load(Relaxed) == WANTED
}

/// Creates the thread, if it is wanted. Call it while holding no lock, not even one of the C
/// library, which frees the memory of an ended thread under the lock that creating a thread takes.
#[inline]
pub(in crate::global::native) fn start() {
    if is_wanted() {
        start_wanted();
    }
}

/// As [`start`], once the thread was found wanted.
#[cold]
fn start_wanted() {
    // A child that shares its parent's memory (`vfork`) would get the parent's thread: it would not
    // end before the thread does, or end the thread.
    if sync::is_unannounced_child() {
        return;
    }
    if STATE.compare_exchange(WANTED, AWAKE, AcqRel, Relaxed).is_err() {
        return;
    }
    match os::start_thread(run) {
        Some(thread) => THREAD.store(thread, Release),
        // The system refuses a thread: go on without one.
        None => STATE.store(OFF, Release),
    }
}

/// Stops the thread for good, and waits for its end, as its code may be unloaded. The wait is
/// bounded: a program may exit in a signal handler that interrupted the owner of a lock the thread
/// waits for.
extern "C" fn stop() {
    /// Milliseconds.
    const LONGEST_WAIT: u64 = 1000;
    let state = STATE.swap(STOPPED, AcqRel);
    let thread = THREAD.swap(0, Acquire);
    if matches!(state, AWAKE | AGAIN | ASLEEP) && thread != 0 {
        os::wake(&STATE);
        os::wait_for(&STATE, STOPPED, LONGEST_WAIT);
        if STATE.load(Acquire) == ENDED {
            os::join_thread(thread);
        }
    }
}

/// Notes that the child of a fork has no such thread.
pub(in crate::global::native) fn after_fork_in_child() {
    THREAD.store(0, Relaxed);
    if matches!(STATE.load(Relaxed), WANTED | AWAKE | AGAIN | ASLEEP) {
        STATE.store(NONE, Relaxed);
    }
}

/// What the background thread does: maintains all heaps, and sleeps until something is due.
extern "C" fn run(_: *mut c_void) -> *mut c_void {
    let mut look = FIRST_LOOK;
    loop {
        let mut pause = maintain();
        if pool::have_threads() {
            look = FIRST_LOOK;
        } else if ends_as_last() {
            return ptr::null_mut();
        } else {
            pause = Some(pause.map_or(look, |pause| pause.min(look)));
            look = (2 * look).min(LONGEST_LOOK);
        }
        match pause {
            Some(0) => {}
            Some(pause) => os::wait_for(&STATE, AWAKE, pause),
            None if STATE.compare_exchange(AWAKE, ASLEEP, AcqRel, Relaxed).is_ok() => {
                os::wait(&STATE, ASLEEP);
                // The wait may end without a wake.
                let _ = STATE.compare_exchange(ASLEEP, AWAKE, AcqRel, Relaxed);
            }
            None => {}
        }
        let _ = STATE.compare_exchange(AGAIN, AWAKE, AcqRel, Relaxed);
        if STATE.compare_exchange(STOPPED, ENDED, AcqRel, Relaxed).is_ok() {
            os::wake(&STATE);
            return ptr::null_mut();
        }
    }
}

/// Ends the background thread if it is the only one left; returns whether it is. Its successor ends
/// after it, and then the C library ends the process.
fn ends_as_last() -> bool {
    if !os::is_last_thread() {
        return false;
    }
    STATE.store(ENDED, Release);
    let thread = THREAD.swap(0, Acquire);
    if thread != 0 {
        os::start_successor(thread);
    }
    true
}

/// Does a part of the work due in each heap. Returns the milliseconds until there is more, or
/// `None` if nothing will be due as things are.
pub(in crate::global::native) fn maintain() -> Option<u64> {
    let lists_due = Heap::maintain_lists(&mut Visit::on_purpose());
    let next = pool::all().filter_map(|heap| {
        heap.do_due_purge(&mut Visit::on_purpose());
        heap.due_in()
    });
    next.chain(lists_due).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(all(unix, not(miri)))]
    use crate::global::native::lists::registry;

    /// Blocks that medium lists keep can go back, so the thread is created, also where a program
    /// frees no others.
    #[test]
    #[cfg(all(unix, not(miri), target_pointer_width = "64"))]
    fn medium_blocks_have_a_thread() {
        crate::os::alone::passes("global::native::heaps::background::tests::medium");
    }

    #[test]
    #[ignore = "in a process of its own"]
    #[cfg(all(unix, not(miri), target_pointer_width = "64"))]
    fn medium() {
        use crate::global::{Pagewise, Tuning};
        static PAGEWISE: Pagewise = Pagewise::with(Tuning::new().background(true));
        let blocks: [*mut u8; 100] = core::array::from_fn(|_| PAGEWISE.allocate(40_000));
        assert_eq!(THREAD.load(Acquire), 0, "nothing is due");
        // SAFETY: each block is in use, and freed once.
        blocks.into_iter().for_each(|block| unsafe { PAGEWISE.free(block) });
        assert_ne!(THREAD.load(Acquire), 0);
    }

    /// The C library frees small blocks of a thread that is joined under the lock that the creation
    /// of a thread takes. So a few frees of small blocks do not create the thread; allocations do.
    #[test]
    #[cfg(all(unix, not(miri)))]
    fn a_few_small_frees_create_no_thread() {
        crate::os::alone::passes("global::native::heaps::background::tests::few");
    }

    /// Many frees of small blocks create the thread, in a program that allocates no more.
    #[test]
    #[cfg(all(unix, not(miri)))]
    fn many_small_frees_create_the_thread() {
        crate::os::alone::passes("global::native::heaps::background::tests::many");
    }

    #[cfg(all(unix, not(miri)))]
    fn background() -> crate::global::Pagewise {
        use crate::global::{Pagewise, Tuning};
        Pagewise::with(Tuning::new().background(true))
    }

    #[test]
    #[ignore = "in a process of its own"]
    #[cfg(all(unix, not(miri)))]
    fn few() {
        let pagewise = background();
        let blocks: Vec<_> = (0..100).map(|_| pagewise.allocate(4000)).collect();
        note_due();
        // SAFETY: each block is in use, and freed once.
        blocks.into_iter().for_each(|block| unsafe { pagewise.free(block) });
        assert!(is_wanted() && THREAD.load(Acquire) == 0, "it may be the C library that frees");
        for _ in 0..10_000 {
            // SAFETY: the block is in use, and freed once.
            unsafe { pagewise.free(pagewise.allocate(40)) };
        }
        assert_ne!(THREAD.load(Acquire), 0);
    }

    #[test]
    #[ignore = "in a process of its own"]
    #[cfg(all(unix, not(miri)))]
    fn many() {
        let pagewise = background();
        let blocks: Vec<_> = (0..10_000).map(|_| pagewise.allocate(4000)).collect();
        note_due();
        // SAFETY: each block is in use, and freed once.
        blocks.into_iter().for_each(|block| unsafe { pagewise.free(block) });
        assert_ne!(THREAD.load(Acquire), 0);
    }

    /// A thread that is wanted is created, and stopped when the program ends.
    #[test]
    #[cfg(all(unix, not(miri)))]
    fn a_thread_is_made_and_stopped_at_exit() {
        crate::os::alone::passes("global::native::heaps::background::tests::made");
    }

    #[test]
    #[ignore = "in a process of its own"]
    #[cfg(all(unix, not(miri)))]
    fn made() {
        extern "C" fn ended() {
            if !matches!(STATE.load(Acquire), STOPPED | ENDED) {
                os::abort();
            }
        }
        // Beside a thread with lists, it does not look whether it is the last one.
        registry::heap_for_test();
        // The function that is registered first runs last.
        assert!(os::at_exit(ended));
        note_due();
        start();
        assert_eq!((STATE.load(Relaxed), THREAD.load(Acquire)), (OFF, 0), "nobody allowed for it");
        enable();
        register();
        start();
        assert_eq!((STATE.load(Relaxed), THREAD.load(Acquire)), (NONE, 0), "nothing is due");
        note_due();
        assert_eq!(STATE.load(Relaxed), WANTED);
        start();
        assert!(matches!(STATE.load(Relaxed), AWAKE | AGAIN | ASLEEP));
        let thread = THREAD.load(Acquire);
        assert!(thread != 0);
        note_due();
        start();
        assert_eq!(THREAD.load(Acquire), thread, "there is one");
        // Each time the thread finds nothing to do, and sleeps again.
        for _ in 0..3 {
            let begin = std::time::Instant::now();
            while STATE.load(Relaxed) != ASLEEP {
                assert!(begin.elapsed().as_secs() < 60, "it does not sleep");
                os::pause();
            }
            note_due();
        }
    }

    /// The child of a fork has no thread, and may make one unless there must be none.
    #[test]
    #[cfg(not(miri))]
    fn the_child_of_a_fork_has_no_thread() {
        crate::os::alone::passes("global::native::heaps::background::tests::forked");
    }

    #[test]
    #[ignore = "in a process of its own"]
    #[cfg(not(miri))]
    fn forked() {
        for state in [OFF, NONE, WANTED, AWAKE, AGAIN, ASLEEP, STOPPED, ENDED] {
            STATE.store(state, Relaxed);
            THREAD.store(77, Relaxed);
            after_fork_in_child();
            let expected = if matches!(state, OFF | STOPPED | ENDED) { state } else { NONE };
            assert_eq!((STATE.load(Relaxed), THREAD.load(Relaxed)), (expected, 0));
        }
        STATE.store(OFF, Relaxed);
    }

    /// A sleeping thread wakes, one that is awake looks again, and where there is none, one is
    /// wanted.
    #[test]
    fn due_work_is_noticed_in_every_state() {
        let noticed = [(NONE, WANTED), (AWAKE, AGAIN), (ASLEEP, AWAKE)];
        let unchanged = [OFF, WANTED, AGAIN, STOPPED, ENDED].map(|state| (state, state));
        for (before, after) in noticed.into_iter().chain(unchanged) {
            let state = AtomicU32::new(before);
            set_due(&state);
            assert_eq!(state.load(Relaxed), after, "{before}");
        }
    }
}
