//! What keeps an arena's users apart.
//!
//! | lock | arena is | for |
//! |---|---|---|
//! | [`Single`] | not [`Sync`] | one thread, checked by the compiler |
//! | [`Unshared`] | [`Sync`], on the maker's word | a `static` of a program with one thread |
//! | [`Yielding`] (`std`) | [`Sync`] | threads: spins a little, then lets others run |
//! | [`Exclusive`] | [`Sync`] | no waiting: whoever finds the arena in use panics |
//! | `CriticalSection` (feature `critical-section`) | [`Sync`] | firmware: interrupts wait |
//! | any `lock_api::RawMutex` (feature `lock_api`) | [`Sync`], if the mutex is | what a kernel or a firmware has |

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

/// A lock without a value, as an [`Arena`](crate::arena::Arena) has one.
///
/// # Safety
/// Between a return of [`lock`](Self::lock) and the next [`unlock`](Self::unlock) no other call of
/// `lock` on the same value returns, and what was written before an `unlock` is seen after the
/// next `lock`. Neither allocates.
pub unsafe trait Lock {
    /// Takes the lock, waiting for it where it can be waited for.
    fn lock(&self);

    /// Lets go of the lock.
    ///
    /// # Safety
    /// The caller took the lock.
    unsafe fn unlock(&self);
}

/// A lock that can be made without a promise.
#[diagnostic::on_unimplemented(
    note = "make the arena with `Arena::with_lock` or `Arena::fixed_with_lock` and a lock of yours, such as `Unshared`",
    note = "with the feature `lock_api` any `lock_api::RawMutex` will do"
)]
pub trait NewLock: Lock {
    /// The lock, not taken.
    const NEW: Self;
}

/// No lock: the arena stays with one thread. Using it while it is in use, which only a visitor of
/// its walk can, panics.
#[derive(Debug)]
pub struct Single {
    taken: Cell<bool>,
}

// SAFETY: the type is not `Sync`, so there is one thread, which is stopped in a second `lock`.
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

/// A lock that nobody waits for, as nobody could let go of it meanwhile: on a machine with one processor and no
/// threads. Using an arena that is in use, as an interrupt's handler may, panics.
#[cfg(target_has_atomic = "8")]
#[derive(Debug)]
pub struct Exclusive {
    taken: AtomicBool,
}

// SAFETY: a second `lock` before the `unlock` finds the flag set and does not return; the flag carries what was
// written before.
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

/// No lock, for a `static`: whoever makes it promises that there is one thread.
pub struct Unshared {
    single: Single,
}

/// Without its state: another thread, which uses nothing that the lock keeps apart, may format it.
impl fmt::Debug for Unshared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unshared").finish_non_exhaustive()
    }
}

impl Unshared {
    /// The lock that is none.
    ///
    /// # Safety
    /// All of what it is to keep apart happens in one thread, or is kept apart otherwise. Interrupt
    /// handlers are threads.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self { single: Single::NEW }
    }
}

// SAFETY: by the promise given to `new` it is never used from two threads at once.
unsafe impl Sync for Unshared {}

// SAFETY: as `Single`, by the promise given to `new`.
unsafe impl Lock for Unshared {
    #[inline(always)]
    fn lock(&self) {
        self.single.lock();
    }

    #[inline(always)]
    unsafe fn unlock(&self) {
        // SAFETY: passed on.
        unsafe { self.single.unlock() };
    }
}

// SAFETY: `RawMutex` promises exclusion; a mutex that allocates cannot serve an allocator anyway.
#[cfg(feature = "lock_api")]
unsafe impl<R: lock_api::RawMutex> Lock for R {
    #[inline]
    fn lock(&self) {
        lock_api::RawMutex::lock(self);
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: passed on.
        unsafe { lock_api::RawMutex::unlock(self) };
    }
}

#[cfg(feature = "lock_api")]
impl<R: lock_api::RawMutex> NewLock for R {
    const NEW: Self = R::INIT;
}
