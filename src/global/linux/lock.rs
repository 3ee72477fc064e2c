//! A lock of four bytes that never allocates, can be taken in `fork`'s prepare handler and let go in
//! the child (Drepper 2011, *Futexes are tricky*, the second mutex).

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::os;
use super::sync::{AtomicU32, Place, SPINS, spin_loop};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and somebody may sleep until it is free.
const AWAITED: u32 = 2;

/// A value behind the lock.
#[derive(Debug)]
pub(super) struct Locked<T> {
    state: AtomicU32,
    value: Place<T>,
}

// SAFETY: the value is reached by one thread at a time.
unsafe impl<T: Send> Sync for Locked<T> {}

impl<T> Locked<T> {
    /// A value whose lock is free.
    #[cfg(not(pagewise_model))]
    pub(super) const fn new(value: T) -> Self {
        Self { state: AtomicU32::new(FREE), value: Place::new(value) }
    }

    /// As above; a model's parts are not made at compile time.
    #[cfg(pagewise_model)]
    pub(super) fn new(value: T) -> Self {
        Self { state: AtomicU32::new(FREE), value: Place::new(value) }
    }

    /// Runs `action` on the value, which no other thread reaches meanwhile.
    #[inline]
    pub(super) fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        self.lock();
        self.run(action)
    }

    /// As [`with`](Self::with), unless that would mean waiting.
    pub(super) fn try_with<R>(&self, action: impl FnOnce(&mut T) -> R) -> Option<R> {
        let taken = self.state.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok();
        taken.then(|| self.run(action))
    }

    /// Whether somebody waits for the lock, which is held.
    pub(super) fn is_awaited(&self) -> bool {
        self.state.load(Relaxed) == AWAITED
    }

    /// Runs `action` under the lock that was taken, and lets go of it.
    #[inline]
    fn run<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        /// Lets go of the lock also if the action unwinds.
        struct Guard<'a, T>(&'a Locked<T>);
        impl<T> Drop for Guard<'_, T> {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: the lock was taken by the one who made this guard.
                unsafe { self.0.unlock() };
            }
        }

        let guard = Guard(self);
        // SAFETY: the lock is held.
        guard.0.value.with_mut(|value| action(unsafe { &mut *value }))
    }

    /// Takes the lock, waiting for it.
    #[inline]
    pub(super) fn lock(&self) {
        if self.state.compare_exchange(FREE, HELD, Acquire, Relaxed).is_err() {
            self.lock_contended();
        }
    }

    #[cold]
    fn lock_contended(&self) {
        for _ in 0..SPINS {
            spin_loop();
            if self.state.load(Relaxed) == FREE
                && self.state.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
            {
                return;
            }
        }
        while self.state.swap(AWAITED, Acquire) != FREE {
            os::wait(&self.state, AWAITED);
        }
    }

    /// Lets go of the lock.
    ///
    /// # Safety
    /// The lock is held by this thread, or, in the child of a fork, by the one that forked.
    #[inline]
    pub(super) unsafe fn unlock(&self) {
        if self.state.swap(FREE, Release) == AWAITED {
            os::wake(&self.state);
        }
    }
}
