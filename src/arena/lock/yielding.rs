//! The lock of arenas in programs with threads.
//!
//! # Forks
//! The child of a fork has one thread, the one that forked. If another held the lock at that moment,
//! nobody lets go of it in the child, and what it guards was left in the middle of an update. Such a
//! lock must neither be waited for, which would last for ever, nor be taken. So a lock that is held
//! says in which process it was taken: a number that a handler of `pthread_atfork` counts up in every
//! child. (An arena cannot have its lock taken before a fork, as the global allocator does: it may be
//! moved, and nobody knows where it is.)

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{Lock, NewLock};

/// Nobody holds the lock.
const FREE: u32 = 0;

/// A lock for threads: spins a little while it is taken, then has other threads run in turns. (The
/// locks of `std` may allocate when first used, which within an allocator never ends.)
///
/// If a thread of the parent held it during a fork, the state that it guards is lost to the child:
/// the child's first attempt to take it stops the process with a message (Unix).
#[derive(Debug)]
pub struct Yielding {
    /// [`generation`] of the process in which it was taken, or [`FREE`].
    taken: AtomicU32,
}

impl Yielding {
    /// Looks at a taken lock before other threads are let run. What an arena does takes less than
    /// a microsecond, mostly.
    const LOOKS: u32 = 100;

    /// Takes the lock, which was found taken in the process `found`.
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

// SAFETY: one `swap` after an `unlock` finds `FREE`, and it acquires what the `unlock` released.
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

/// The lock is held by a thread that this process does not have.
#[cold]
fn stop() -> ! {
    #[cfg(unix)]
    crate::os::stop(
        b"pagewise: an arena was in use by another thread during a fork; the child cannot use it\n",
    );
    #[cfg(not(unix))]
    std::process::abort();
}

/// Which process this is, among those that forked from one another.
#[cfg(all(unix, not(miri)))]
mod fork {
    use super::{AtomicU32, Relaxed};

    static GENERATION: AtomicU32 = AtomicU32::new(0);

    /// A number, not 0, that is another in the child of a fork.
    #[inline(always)]
    pub(super) fn generation() -> u32 {
        match GENERATION.load(Relaxed) {
            0 => first(),
            generation => generation,
        }
    }

    /// Has forks counted, once. (The number comes first: the system may allocate here, from this very
    /// arena.)
    #[cold]
    fn first() -> u32 {
        if GENERATION.compare_exchange(0, 1, Relaxed, Relaxed).is_ok() {
            // SAFETY: the handler only adds to a number. Without memory for it forks are not noticed.
            unsafe { crate::os::at_fork(None, None, Some(forked)) };
        }
        generation()
    }

    extern "C" fn forked() {
        GENERATION.fetch_add(1, Relaxed);
    }
}

/// There are no forks.
#[cfg(not(all(unix, not(miri))))]
mod fork {
    #[inline(always)]
    pub(super) fn generation() -> u32 {
        1
    }
}

// Where there are threads.
#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::SeqCst;

    use super::*;

    /// Whoever finds the lock taken waits until it is let go of, and has it then.
    #[test]
    fn a_taken_lock_is_waited_for() {
        let (lock, waits, has) = (Yielding::NEW, AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            lock.lock();
            scope.spawn(|| {
                waits.store(true, SeqCst);
                lock.lock();
                has.store(true, SeqCst);
                // SAFETY: taken above.
                unsafe { lock.unlock() };
            });
            while !waits.load(SeqCst) {
                std::thread::yield_now();
            }
            // Time enough to find it taken, most often.
            std::thread::sleep(std::time::Duration::from_millis(if cfg!(miri) { 1 } else { 50 }));
            assert!(!has.load(SeqCst), "one at a time");
            // SAFETY: taken above.
            unsafe { lock.unlock() };
        });
        assert!(has.load(SeqCst));
        lock.lock();
        assert_ne!(lock.taken.load(Relaxed), FREE);
        // SAFETY: taken above.
        unsafe { lock.unlock() };
        assert_eq!(lock.taken.load(Relaxed), FREE);
    }
}
