//! What keeps an arena's users apart.
//!
//! | lock | arena is | for |
//! |---|---|---|
//! | [`Single`] | not [`Sync`] | one thread, checked by the compiler |
//! | [`Unshared`] | [`Sync`], on the maker's word | a `static` of a program with one thread |
//! | [`Yielding`] (`std`) | [`Sync`] | threads: spins a little, then lets others run |
//! | any `lock_api::RawMutex` (feature `lock_api`) | [`Sync`], if the mutex is | what a kernel or a firmware has |

use core::cell::Cell;

/// A lock without a value, as an [`Arena`](super::Arena) has one.
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

/// No lock, for a `static`: whoever makes it promises that there is one thread.
#[derive(Debug)]
pub struct Unshared {
    single: Single,
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

/// A lock for threads: it is looked at for a while, and then between letting other threads run.
/// (The locks of `std` may allocate when first used, which within an allocator never ends.)
#[cfg(feature = "std")]
#[derive(Debug)]
pub struct Yielding {
    taken: core::sync::atomic::AtomicBool,
}

#[cfg(feature = "std")]
impl Yielding {
    /// Looks at a taken lock before other threads are let run. What an arena does takes less than
    /// a microsecond, mostly.
    const LOOKS: u32 = 100;

    #[cold]
    fn lock_contended(&self) {
        use core::sync::atomic::Ordering::{Acquire, Relaxed};
        loop {
            for _ in 0..Self::LOOKS {
                if !self.taken.load(Relaxed) && !self.taken.swap(true, Acquire) {
                    return;
                }
                core::hint::spin_loop();
            }
            std::thread::yield_now();
        }
    }
}

// SAFETY: one `swap` after an `unlock` finds `false`, and it acquires what the `unlock` released.
#[cfg(feature = "std")]
unsafe impl Lock for Yielding {
    #[inline]
    fn lock(&self) {
        if self.taken.swap(true, core::sync::atomic::Ordering::Acquire) {
            self.lock_contended();
        }
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.taken.store(false, core::sync::atomic::Ordering::Release);
    }
}

#[cfg(feature = "std")]
impl NewLock for Yielding {
    const NEW: Self = Self { taken: core::sync::atomic::AtomicBool::new(false) };
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
