//! The lock of arenas in programs with threads.
//!
//! # Forks
//! The child of a fork has a single thread, the one that forked. If another thread held the lock at
//! that moment, no thread of the child releases it, and the data it guards was left in the middle
//! of an update. Such a lock must neither be waited for, which would never end, nor be taken. A
//! held lock therefore records in which process it was taken: by a number that a `pthread_atfork`
//! handler increments in every child. (Unlike the global allocator, an arena cannot take its locks
//! before a fork: arenas may be moved, so there is no list of them.)

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{Lock, NewLock};

/// The value of a lock that is not held.
const FREE: u32 = 0;

/// A lock for threads: spins for a short time while it is taken, then yields to other threads
/// repeatedly. (The locks of `std` may allocate at their first use, which within an allocator would
/// never end.)
///
/// If a thread of the parent process held it during a fork, the guarded state is lost to the child.
/// The child's first attempt to take the lock then stops the process with a message (Unix).
#[derive(Debug)]
pub struct Yielding {
    /// The [`generation`](fork::generation) of the process in which it was taken, or [`FREE`].
    taken: AtomicU32,
}

impl Yielding {
    /// The number of looks at a taken lock before the thread yields. An arena mostly holds the lock
    /// for less than a microsecond.
    const LOOKS: u32 = 100;

    /// Waits for the lock and takes it. It was found taken, in the process with number `found`.
    #[cold]
    fn lock_contended(&self, own: u32, mut found: u32) {
        loop {
            for _ in 0..Self::LOOKS {
                if found != own {
                    stop();
                }
                core::hint::spin_loop();
                found = self.taken.load(Relaxed);
                if found == FREE {
                    found = self.taken.swap(own, Acquire);
                    if found == FREE {
                        return;
                    }
                }
            }
            std::thread::yield_now();
        }
    }
}

// SAFETY: only one `swap` after an `unlock` finds `FREE`, and it acquires the writes that the
// `unlock` released.
unsafe impl Lock for Yielding {
    #[inline]
    fn lock(&self) {
        let own = fork::generation();
        let found = self.taken.swap(own, Acquire);
        if found != FREE {
            self.lock_contended(own, found);
        }
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.taken.store(FREE, Release);
    }
}

impl NewLock for Yielding {
    const NEW: Self = Self { taken: AtomicU32::new(FREE) };
}

/// Stops the process, because the lock's holder is a thread that this process does not have.
#[cold]
fn stop() -> ! {
    #[cfg(unix)]
    crate::os::stop(
        b"pagewise: an arena was in use by another thread during a fork; the child cannot use it\n",
    );
    #[cfg(not(unix))]
    std::process::abort();
}

/// Numbers the processes that forked from one another.
#[cfg(all(unix, not(miri)))]
mod fork {
    use super::{AtomicU32, Relaxed};

    static GENERATION: AtomicU32 = AtomicU32::new(0);

    /// Returns a number other than 0 that differs between a process and the child of its fork.
    #[inline(always)]
    pub(super) fn generation() -> u32 {
        match GENERATION.load(Relaxed) {
            0 => first(),
            generation => generation,
        }
    }

    /// Registers the fork handler, once. (The number is set first, because the system may allocate
    /// during registration, from this very arena.)
    #[cold]
    fn first() -> u32 {
        if GENERATION.compare_exchange(0, 1, Relaxed, Relaxed).is_ok() {
            // SAFETY: the handler only increments a number. If there is no memory to register it,
            // forks go undetected.
            unsafe { crate::os::at_fork(None, None, Some(forked)) };
        }
        generation()
    }

    extern "C" fn forked() {
        GENERATION.fetch_add(1, Relaxed);
    }
}

/// This system has no forks.
#[cfg(not(all(unix, not(miri))))]
mod fork {
    #[inline(always)]
    pub(super) fn generation() -> u32 {
        1
    }
}

// Needs threads.
#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    /// A thread that finds the lock taken waits until it is released, and then has it.
    #[test]
    fn a_taken_lock_is_waited_for() {
        let (lock, waits, has) = (Yielding::NEW, AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            lock.lock();
            scope.spawn(|| {
                waits.store(true, SeqCst);
                lock.lock();
                has.store(true, SeqCst);
                // SAFETY: the lock was taken above.
                unsafe { lock.unlock() };
            });
            while !waits.load(SeqCst) {
                std::thread::yield_now();
            }
            // Usually long enough for the thread to find the lock taken.
            std::thread::sleep(std::time::Duration::from_millis(if cfg!(miri) { 1 } else { 50 }));
            assert!(!has.load(SeqCst), "one at a time");
            // SAFETY: the lock was taken above.
            unsafe { lock.unlock() };
        });
        assert!(has.load(SeqCst));
        lock.lock();
        assert_ne!(lock.taken.load(Relaxed), FREE);
        // SAFETY: the lock was taken above.
        unsafe { lock.unlock() };
        assert_eq!(lock.taken.load(Relaxed), FREE);
    }
}
