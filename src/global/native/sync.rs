//! What the lock is made of. It stands apart so that a model checker can put its own in its place:
//! `tests/model` compiles `lock.rs` a second time, over what it has by these names.

use core::cell::UnsafeCell;
pub(super) use core::hint::spin_loop;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::compiler_fence;
pub(super) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, fence};

use super::apart::Apart;
use crate::os;

/// Looks at a held lock before sleeping. What a lock protects here takes less than a microsecond,
/// mostly.
pub(super) const SPINS: u32 = 64;

/// What tells the calling thread from all others: not 0, its lowest two bits clear. It is the same in
/// the child of a fork.
#[inline]
pub(super) fn token() -> u32 {
    token_at(os::thread_address())
}

/// The token of a thread whose own variables lie there.
#[inline(always)]
fn token_at(address: usize) -> u32 {
    // Threads' own variables are further apart than 512 bytes, and 256 GiB are room for all.
    let place = (address >> 9) as u32 & ((1 << 29) - 1);
    (1 << 31) | (place << 2)
}

/// Threads that fork now: their tokens, each from after it took the locks it could until its handlers after
/// the fork ran; 0 where there is none. There is room for as many as fork at one time.
static FORKING: Apart<[AtomicU32; 8]> = Apart::new([const { AtomicU32::new(0) }; 8]);

/// The calling thread is about to fork.
pub(super) fn begin_fork() {
    let me = token();
    let claim = |entry: &AtomicU32| entry.compare_exchange(0, me, Relaxed, Relaxed).is_ok();
    let _ = FORKING.iter().any(claim);
}

/// The calling thread has forked, and this is the parent.
pub(super) fn end_fork() {
    let me = token();
    let give_up = |entry: &AtomicU32| entry.compare_exchange(me, 0, Relaxed, Relaxed).is_ok();
    let _ = FORKING.iter().any(give_up);
}

/// As [`end_fork`], in the child, where nobody else forks.
pub(super) fn end_fork_in_child() {
    FORKING.iter().for_each(|entry| entry.store(0, Relaxed));
}

/// Whether the thread with this token is about to fork, or has forked and its handlers have not run yet.
pub(super) fn is_forking(me: u32) -> bool {
    FORKING.iter().any(|entry| entry.load(Relaxed) == me)
}

/// Whether one thread can have the others pass a barrier.
static BARRIERS: Apart<AtomicBool> = Apart::new(AtomicBool::new(false));

/// Finds out whether one thread can have the others pass a barrier. To be called before any thread asks.
pub(super) fn announce_barriers() {
    BARRIERS.store(os::announce_barriers(), Relaxed);
}

/// Whether one thread can have the others pass a barrier: where it can, a [light](light_barrier) one is enough for them.
pub(super) fn has_barriers() -> bool {
    BARRIERS.load(Relaxed)
}

/// Has the calling thread's own accesses stay in their order for those who call [`heavy_barrier`].
#[inline(always)]
pub(super) fn light_barrier() {
    compiler_fence(SeqCst);
}

/// Has every thread of the process pass a full barrier; whether that could be done. If not, it is not tried again.
pub(super) fn heavy_barrier() -> bool {
    fence(SeqCst);
    let passed = has_barriers() && os::others_pass_barrier();
    if !passed {
        BARRIERS.store(false, Relaxed);
    }
    passed
}

/// A value that is reached through a pointer, by one thread at a time.
#[derive(Debug)]
pub(super) struct Place<T>(UnsafeCell<T>);

impl<T> Place<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
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
        // Beside each other, and at every distance up to 128 GiB that a bit makes.
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

    /// Who asked the system for barriers has them, if it has; whoever found out since that it has none says so for all.
    #[cfg(not(miri))]
    #[test]
    fn barriers_are_asked_for() {
        let mut asked = core::iter::repeat_with(|| {
            announce_barriers();
            has_barriers()
        });
        assert_eq!(asked.by_ref().take(1000).any(|has| has), os::announce_barriers());
    }

    #[test]
    fn a_thread_forks_from_when_it_says_so_to_when_it_says_so() {
        std::thread::spawn(|| {
            assert!(!is_forking(token()));
            begin_fork();
            assert!(is_forking(token()) && !is_forking(token() + 4));
            end_fork();
            assert!(!is_forking(token()));
        })
        .join()
        .expect("it ends");
    }
}
