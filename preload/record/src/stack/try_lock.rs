//! A lock that is never waited for: [`TryLock`].

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};

/// A value that one thread uses at a time. A second thread, or a signal handler that interrupts the
/// first, does not get it.
pub(super) struct TryLock<T> {
    is_held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is accessed only through a `Held`, and there is at most one at a time.
unsafe impl<T: Send> Sync for TryLock<T> {}

/// Access to a lock's value; dropping it releases the lock.
pub(super) struct Held<'a, T>(&'a TryLock<T>);

impl<T> TryLock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self { is_held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Returns access to the value, unless it is in use.
    #[inline]
    pub(super) fn try_lock(&self) -> Option<Held<'_, T>> {
        // `then_some` would create a `Held` even on failure, and dropping it would release the
        // lock.
        (!self.is_held.swap(true, Acquire)).then(|| Held(self))
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: there is one `Held` at a time.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: there is one `Held` at a time, and it is borrowed exclusively.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.is_held.store(false, Release);
    }
}
