//! The lock of arenas in programs with threads.
//!
//! # Forks
//! The child of a fork has a single thread, the one that forked. If another thread held the lock at
//! that moment, no thread of the child releases it, and the data it guards was left in the middle
//! of an update. Such a lock must neither be waited for, which would never end, nor be taken. A
//! held lock therefore records in which process it was taken: by a number that a `pthread_atfork`
//! handler increments in every child. (Unlike the global allocator, an arena cannot take its locks
//! before a fork: arenas may be moved, so there is no list of them.)
//!
//! # The same thread again
//! A thread that takes the lock while it holds it would wait for itself. That happens where the
//! visitor of a walk uses the arena, or a signal handler; and, if the arena is the program's global
//! allocator, where a visitor allocates, or the message of a panic. So a held lock records its
//! thread, too.

use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{Lock, NewLock};

/// The value of a lock that is not held.
const FREE: usize = 0;

/// The bits of a held lock's value that tell the process; the others tell the thread. Not all are
/// clear.
const PROCESS: usize = (1 << 9) - 1;

/// A lock for threads: spins for a short time while it is taken, then yields to other threads
/// repeatedly. (The locks of `std` may allocate at their first use, which within an allocator would
/// never end.)
///
/// If a thread of the parent process held it during a fork, the guarded state is lost to the child.
/// The child's first attempt to take the lock then stops the process with a message (Unix).
///
/// A thread that takes the lock while it holds it, as from a visitor of a walk, stops the process
/// with a message (Linux, macOS, FreeBSD, Windows; elsewhere it waits for ever).
#[derive(Debug)]
pub struct Yielding {
    /// The process and the thread that took it: see [`holder`]; or [`FREE`].
    taken: AtomicUsize,
}

impl Yielding {
    /// The number of looks at a taken lock before the thread yields. An arena mostly holds the lock
    /// for less than a microsecond.
    const LOOKS: u32 = 100;

    /// Waits for the lock and takes it. It was found taken, by the holder `found`.
    #[cold]
    fn lock_contended(&self, own: usize, mut found: usize) {
        loop {
            for _ in 0..Self::LOOKS {
                if found & PROCESS != own & PROCESS {
                    stop(
                        b"pagewise: an arena was in use by another thread during a fork; the child cannot use it\n",
                    );
                }
                // Where threads are not told apart, all have the same bits.
                if found == own && own > PROCESS {
                    stop(
                        b"pagewise: an arena was used by the thread that is in it: by a visitor of its walk, a signal handler, or the message of a panic\n",
                    );
                }
                core::hint::spin_loop();
                found = self.taken.load(Relaxed);
                if found == FREE {
                    match self.taken.compare_exchange(FREE, own, Acquire, Relaxed) {
                        Ok(_) => return,
                        Err(other) => found = other,
                    }
                }
            }
            std::thread::yield_now();
        }
    }
}

// SAFETY: only one exchange after an `unlock` finds `FREE`, and it acquires the writes that the
// `unlock` released.
unsafe impl Lock for Yielding {
    #[inline]
    fn lock(&self) {
        let own = holder();
        if let Err(found) = self.taken.compare_exchange(FREE, own, Acquire, Relaxed) {
            self.lock_contended(own, found);
        }
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.taken.store(FREE, Release);
    }
}

impl NewLock for Yielding {
    const NEW: Self = Self { taken: AtomicUsize::new(FREE) };
}

/// Returns the value of a lock that the calling thread holds: not [`FREE`].
#[inline(always)]
fn holder() -> usize {
    (thread::address() & !PROCESS) | (fork::generation() as usize % PROCESS + 1)
}

/// Stops the process: to wait for the lock would never end.
#[cold]
fn stop(message: &[u8]) -> ! {
    #[cfg(any(unix, windows))]
    crate::os::stop(message);
    #[cfg(not(any(unix, windows)))]
    {
        let _ = message;
        std::process::abort();
    }
}

/// Tells threads apart.
#[cfg(all(
    any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows),
    not(pagewise_forwarding)
))]
mod thread {
    /// Returns an address of the calling thread, at least 512 bytes from any other thread's.
    #[inline(always)]
    pub(super) fn address() -> usize {
        crate::os::thread_address()
    }
}

/// This system does not tell threads apart, or not without allocating: 0 for each.
#[cfg(not(all(
    any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows),
    not(pagewise_forwarding)
)))]
mod thread {
    #[inline(always)]
    pub(super) fn address() -> usize {
        0
    }
}

/// Numbers the processes that forked from one another.
#[cfg(all(unix, not(miri)))]
mod fork {
    use core::sync::atomic::AtomicU32;

    use super::Relaxed;

    static GENERATION: AtomicU32 = AtomicU32::new(0);

    /// Returns a number that differs between a process and the child of its fork.
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
