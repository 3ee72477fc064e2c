//! The locks of arenas.
//!
//! | lock | arena is | for |
//! |---|---|---|
//! | [`Single`] | not [`Sync`] | one thread, checked by the compiler |
//! | [`Unshared`] | [`Sync`], guaranteed by its creator | a `static` of a program with one thread |
//! | [`Yielding`] (`std`) | [`Sync`] | threads: spins for a short time, then yields |
//! | [`Exclusive`] | [`Sync`] | no waiting: panics if the arena is in use |
//! | `CriticalSection` (feature `critical-section`) | [`Sync`] | firmware: disables interrupts |
//! | any `lock_api::RawMutex` (feature `lock_api`) | [`Sync`], if the mutex is | the lock of a kernel or firmware |

use core::cell::Cell;
use core::fmt;
#[cfg(target_has_atomic = "8")]
use core::sync::atomic::{AtomicBool, Ordering};

#[cfg(feature = "critical-section")]
mod critical;
#[cfg(feature = "std")]
mod yielding;

#[cfg(feature = "critical-section")]
pub use self::critical::CriticalSection;

#[cfg(feature = "std")]
pub use self::yielding::Yielding;

/// A lock of an [`Arena`](crate::arena::Arena). It contains no value.
///
/// # Safety
/// After a call of [`lock`](Self::lock) returns, no other call of `lock` on the same value returns
/// before the next [`unlock`](Self::unlock). Writes before an `unlock` are visible after the next
/// `lock`. Neither method allocates.
pub unsafe trait Lock {
    /// Takes the lock, and waits for it if the lock supports waiting.
    fn lock(&self);

    /// Releases the lock.
    ///
    /// # Safety
    /// The caller holds the lock.
    unsafe fn unlock(&self);
}

/// A lock that can be created without `unsafe`.
#[diagnostic::on_unimplemented(
    note = "make the arena with `Arena::with_lock` or `Arena::fixed_with_lock` and a lock of yours, such as `Unshared`",
    note = "with the feature `lock_api` any `lock_api::RawMutex` will do"
)]
pub trait NewLock: Lock {
    /// A new lock that is not taken.
    const NEW: Self;
}

/// No lock: the arena is not [`Sync`], so it stays on one thread. Using the arena from a visitor of
/// its own walk panics.
#[derive(Debug)]
pub struct Single {
    taken: Cell<bool>,
}

// SAFETY: the type is not `Sync`, so all calls are on one thread, where a second `lock` panics.
unsafe impl Lock for Single {
    #[inline(always)]
    fn lock(&self) {
        assert!(!self.taken.replace(true), "an arena is not used by a visitor of its own walk");
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        self.taken.set(false);
    }
}

impl NewLock for Single {
    const NEW: Self = Self { taken: Cell::new(false) };
}

/// A lock that never waits, for a machine with one processor and no threads, where waiting could
/// never end. Using an arena that is in use, for example from an interrupt handler, panics.
#[cfg(target_has_atomic = "8")]
#[derive(Debug)]
pub struct Exclusive {
    taken: AtomicBool,
}

// SAFETY: a second `lock` before the `unlock` finds the flag set and panics; the flag's release and
// acquire order the writes.
#[cfg(target_has_atomic = "8")]
unsafe impl Lock for Exclusive {
    #[inline(always)]
    fn lock(&self) {
        assert!(!self.taken.swap(true, Ordering::Acquire), "an arena is used while it is in use");
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

#[cfg(target_has_atomic = "8")]
impl NewLock for Exclusive {
    const NEW: Self = Self { taken: AtomicBool::new(false) };
}

/// No lock, for a `static`: its creator guarantees that there is only one thread.
pub struct Unshared {
    single: Single,
}

/// Without the lock's state: another thread may format it while this one holds the lock.
impl fmt::Debug for Unshared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unshared").finish_non_exhaustive()
    }
}

impl Unshared {
    /// Returns the lock.
    ///
    /// # Safety
    /// The arena is used by one thread only, or its uses are kept apart in another way. Interrupt
    /// handlers count as threads.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self { single: Single::NEW }
    }
}

// SAFETY: the caller of `new` guarantees that two threads never use it at the same time.
unsafe impl Sync for Unshared {}

// SAFETY: as for `Single`, by the guarantee of `new`'s caller.
unsafe impl Lock for Unshared {
    #[inline(always)]
    fn lock(&self) {
        self.single.lock();
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.single.unlock() };
    }
}

// SAFETY: `RawMutex` guarantees mutual exclusion. A mutex that allocates could not serve an
// allocator anyway.
#[cfg(feature = "lock_api")]
unsafe impl<R: lock_api::RawMutex> Lock for R {
    #[inline]
    fn lock(&self) {
        lock_api::RawMutex::lock(self);
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { lock_api::RawMutex::unlock(self) };
    }
}

#[cfg(feature = "lock_api")]
impl<R: lock_api::RawMutex> NewLock for R {
    const NEW: Self = R::INIT;
}
