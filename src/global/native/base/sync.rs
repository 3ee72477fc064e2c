//! The parts that locks are built from: atomics, thread tokens, barriers. `tests/model` compiles
//! `lock.rs` and others a second time, over a model checker's parts with the same names.

use core::cell;
pub(super) use core::hint::spin_loop;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::compiler_fence;
pub(in crate::global::native) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, fence};

use super::apart::Apart;
use super::once::Once;
use crate::os;

/// Number of looks at a held lock before sleeping. The critical sections here mostly take less than
/// a microsecond.
pub(super) const SPINS: u32 = 64;

/// Returns the token of the calling thread: not 0, its lowest two bits clear. It is the same in the
/// child of a fork. No two threads have the same, except that the main thread of a static program
/// has another thread's with a chance of one in half a billion. Then one of them would mistake a
/// lock that the other holds for its own, and go elsewhere.
#[inline]
pub(in crate::global::native) fn token() -> u32 {
    token_at(os::thread_address())
}

/// Returns the token of a thread whose thread-local variables are at `address`.
#[inline(always)]
fn token_at(address: usize) -> u32 {
    // Threads' variables are at least 512 bytes apart, and within 256 GiB, but for those of the
    // main thread of a static program.
    let place = (address >> 9) as u32 & ((1 << 29) - 1);
    (1 << 31) | (place << 2)
}

/// The tokens of threads that are forking, once for each fork if a signal handler forks within a
/// fork; 0: none. A thread is here from before it takes the locks until it lets go of them in the
/// parent, or has let go of them in the child. If more than eight fork at a time, the others are
/// not noted.
static FORKING: Apart<[AtomicU32; 8]> = Apart::new([const { AtomicU32::new(0) }; 8]);

/// Flag beside the token, in the child: the fork has happened, and the thread lets go of the locks.
const HAPPENED: u32 = 1;

/// Notes that the calling thread is about to fork.
pub(in crate::global::native) fn begin_fork() {
    let me = token();
    let claim = |entry: &AtomicU32| entry.compare_exchange(0, me, Relaxed, Relaxed).is_ok();
    let _ = FORKING.iter().any(claim);
}

/// Notes that the calling thread has forked, in the parent. Returns whether it is about to fork
/// still: a signal handler forked within a fork.
pub(in crate::global::native) fn end_fork() -> bool {
    let me = token();
    let give_up = |entry: &AtomicU32| entry.compare_exchange(me, 0, Relaxed, Relaxed).is_ok();
    let _ = FORKING.iter().any(give_up);
    FORKING.iter().any(|entry| entry.load(Relaxed) == me)
}

/// Notes in the child that the fork has happened. No other thread forks here.
pub(in crate::global::native) fn note_fork_in_child() {
    FORKING.iter().for_each(|entry| entry.store(0, Relaxed));
    FORKING[0].store(token() | HAPPENED, Relaxed);
}

/// Notes in the child that no lock is held for the fork any more.
pub(in crate::global::native) fn end_fork_in_child() {
    FORKING.iter().for_each(|entry| entry.store(0, Relaxed));
    note_process();
}

/// Returns whether the thread with this token forks: in the parent it is between [`begin_fork`] and
/// [`end_fork`], in the child it still lets go of the locks.
pub(super) fn is_forking(me: u32) -> bool {
    FORKING.iter().any(|entry| entry.load(Relaxed) & !HAPPENED == me)
}

/// The process that uses this memory, as far as forks are announced by their handlers; 0: unknown.
static PROCESS: Apart<AtomicU32> = Apart::new(AtomicU32::new(0));

/// Notes which process uses this memory.
pub(in crate::global::native) fn note_process() {
    PROCESS.store(os::process(), Relaxed);
}

/// Returns whether this is a child for which no fork handler ran: one made by the system call
/// `clone`, not by `fork`. Also true in a child that shares its parent's memory.
pub(in crate::global::native) fn is_unannounced_child() -> bool {
    let known = PROCESS.load(Relaxed);
    known != 0 && known != os::process()
}

/// Returns whether the thread with a token holds a lock.
type Holds = fn(u32) -> bool;

/// How to check whether a thread holds a lock: the locks are not known here.
static HOLDS: Apart<Once<Holds>> = Apart::new(Once::new());

/// Sets how [`holds_a_lock`] finds out.
pub(in crate::global::native) fn set_holds(holds: Holds) {
    HOLDS.set(holds);
}

/// Returns whether the calling thread, whose token is `me`, holds a lock of a heap, or the
/// registry's.
#[cold]
pub(in crate::global::native) fn holds_a_lock(me: u32) -> bool {
    let holds = HOLDS.get().is_some_and(|holds| holds(me));
    if holds {
        NESTS.store(true, Relaxed);
    }
    holds
}

/// Whether a thread that asked for memory held a lock.
static NESTS: Apart<AtomicBool> = Apart::new(AtomicBool::new(false));

/// Returns whether a thread that asked for memory was seen to hold a lock.
pub(super) fn nests() -> bool {
    NESTS.load(Relaxed)
}

/// Notes that the calling thread asked for a lock that it holds.
pub(super) fn note_nesting() {
    NESTS.store(true, Relaxed);
}

/// As [`holds_a_lock`], but does not look if no thread that asked for memory was seen to hold one.
pub(super) fn holds_a_lock_if_nesting(me: u32) -> bool {
    nests() && holds_a_lock(me)
}

/// Whether a thread can make all others pass a barrier.
static BARRIERS: Apart<AtomicBool> = Apart::new(AtomicBool::new(false));

/// Finds out whether a thread can make all others pass a barrier. Call before any thread asks.
pub(in crate::global::native) fn announce_barriers() {
    BARRIERS.store(os::announce_barriers(), Relaxed);
}

/// Returns whether a thread can make all others pass a barrier. If so, [light](light_barrier)
/// barriers suffice for them.
pub(super) fn has_barriers() -> bool {
    BARRIERS.load(Relaxed)
}

/// Keeps the calling thread's accesses in order, as seen by threads that call [`heavy_barrier`].
#[inline(always)]
pub(super) fn light_barrier() {
    compiler_fence(SeqCst);
}

/// Makes every thread of the process pass a full barrier; returns whether that was possible. If
/// not, it is not tried again.
pub(in crate::global::native) fn heavy_barrier() -> bool {
    fence(SeqCst);
    let passed = has_barriers() && os::others_pass_barrier();
    if !passed {
        BARRIERS.store(false, Relaxed);
    }
    passed
}

/// A value that one thread at a time accesses through a pointer.
#[derive(Debug)]
pub(super) struct UnsafeCell<T>(cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    /// Makes a cell that holds `value`.
    pub(super) const fn new(value: T) -> Self {
        Self(cell::UnsafeCell::new(value))
    }

    /// Runs `action` with a pointer to the value.
    #[inline(always)]
    pub(super) fn with_mut<R>(&self, action: impl FnOnce(*mut T) -> R) -> R {
        action(self.0.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_apart() {
        let base = 0x7f12_3456_7000_u64 as usize;
        let mut tokens: Vec<u32> = Vec::new();
        // Addresses 512 bytes apart, and those that differ in one bit, up to 128 GiB apart.
        for apart in
            (0..64).map(|index| 512 * index).chain((15..usize::BITS.min(38)).map(|bit| 1 << bit))
        {
            let token = token_at(base ^ apart);
            assert!(token != 0 && token & 3 == 0);
            assert!(!tokens.contains(&token), "{apart:#x} bytes apart");
            tokens.push(token);
        }
        let other = std::thread::spawn(token).join().expect("it ends");
        assert!(token() == token() && token() != other);
    }

    /// After asking, barriers are there if the system has them, unless another test has just had
    /// one refused.
    #[cfg(not(miri))]
    #[test]
    fn barriers_are_asked_for() {
        let mut asked = core::iter::repeat_with(|| {
            announce_barriers();
            has_barriers()
        });
        assert_eq!(asked.by_ref().take(1000).any(|has| has), os::announce_barriers());
    }

    /// Whether a thread holds a lock is asked again only after one was seen to.
    #[cfg(not(miri))]
    #[test]
    fn threads_that_hold_locks_are_remembered() {
        crate::os::alone::passes("global::native::base::sync::tests::holders");
    }

    #[cfg(not(miri))]
    #[test]
    #[ignore = "in a process of its own"]
    fn holders() {
        const HOLDER: u32 = 8;
        assert!(!holds_a_lock(HOLDER), "nobody can tell yet");
        set_holds(|thread| thread == HOLDER);
        assert!(!holds_a_lock(HOLDER + 4) && !nests());
        assert!(!holds_a_lock_if_nesting(HOLDER), "it is not asked");
        assert!(holds_a_lock(HOLDER) && nests());
        assert!(holds_a_lock_if_nesting(HOLDER) && !holds_a_lock_if_nesting(HOLDER + 4));
    }

    /// A child for which no fork handler ran is recognised by its process number.
    #[cfg(not(miri))]
    #[test]
    fn a_process_is_known_by_its_number() {
        crate::os::alone::passes("global::native::base::sync::tests::process");
    }

    #[cfg(not(miri))]
    #[test]
    #[ignore = "in a process of its own"]
    fn process() {
        assert!(!is_unannounced_child(), "no process is known");
        note_process();
        assert!(!is_unannounced_child());
        PROCESS.fetch_add(1, Relaxed);
        assert!(is_unannounced_child());
        end_fork_in_child();
        assert!(!is_unannounced_child());
    }

    #[test]
    fn a_thread_is_forking_between_begin_and_end() {
        std::thread::spawn(|| {
            assert!(!is_forking(token()));
            begin_fork();
            assert!(is_forking(token()) && !is_forking(token() + 4));
            assert!(!end_fork());
            assert!(!is_forking(token()));
        })
        .join()
        .expect("it ends");
    }
}
