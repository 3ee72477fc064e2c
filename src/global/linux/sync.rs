//! What the lock is made of. It stands apart so that a model checker can put its own in its place:
//! `tests/model` compiles `lock.rs` a second time, over what it has by these names.

use core::cell::UnsafeCell;
pub(super) use core::hint::spin_loop;
pub(super) use core::sync::atomic::{AtomicBool, AtomicU32};

use crate::os;

/// Looks at a held lock before sleeping. What a lock protects here takes less than a microsecond,
/// mostly.
pub(super) const SPINS: u32 = 64;

/// What tells the calling thread from all others: not 0, its lowest two bits clear. It is the same in
/// the child of a fork.
#[inline]
pub(super) fn token() -> u32 {
    // Threads' own variables are further apart than 512 bytes, and 256 GiB are room for all.
    let place = (os::thread_address() >> 9) as u32 & ((1 << 29) - 1);
    (1 << 31) | (place << 2)
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
