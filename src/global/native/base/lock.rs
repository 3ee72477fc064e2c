//! A lock that knows its owner and never allocates. Neither its owner nor a thread that forks ever
//! waits for itself (after Drepper 2011, *Futexes are tricky*).
//!
//! ```text
//!  bits 31 … 2          bit 1            bit 0
//!  | owner's token; 0: | held for a     | a thread may sleep
//!  | free, or lost     | fork, or lost  | until it is free
//! ```
//! [`with`](Locked::with) waits for other threads, and returns `None` if the wait might never end:
//! - the calling thread holds the lock: the handler of a signal, or of a panic, interrupted it;
//! - a thread that forks holds it: the C library takes locks of its own next, whose holders may be
//!   waiting for memory;
//! - the lock is lost: this is the child of a fork, and the lock's owner stayed behind;
//! - the calling thread is forking, and handlers of the program run before or after ours: in the
//!   child it is not known yet which locks are lost;
//! - after a tenth of a second, the calling thread turns out to hold another lock: it is within an
//!   interposed function that allocates, and the owner of this lock may wait for the other one;
//! - after a millisecond, in a program whose interposed functions were seen to allocate: the owner
//!   of the lock may be in such a function, waiting for a mutex of the program that the calling
//!   thread holds;
//! - after a tenth of a second, this turns out to be a child that the program made without telling
//!   the C library (the system call `clone`, `_Fork`): the owner may have stayed behind. The lock
//!   counts as lost, until its owner unlocks it, if it exists after all;
//! - after two seconds, whatever the cause: a child that has the number of its parent (each in a
//!   namespace of its own), an owner that a debugger stopped. The lock counts as lost likewise.
//!
//! The caller then goes elsewhere: to another heap, or to a list that the lock's next holder
//! empties. Nobody takes a lost lock any more, unless its owner turns out to exist and unlocks it.
//!
//! A fork [takes](Locked::take_for_fork) every lock, so that the values they protect are consistent
//! in the child. Handlers of the program that run in between may allocate, so the forking thread
//! passes through the locks that it took.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::sync::{self, AtomicBool, AtomicU32, SPINS, UnsafeCell, spin_loop};
use crate::os;

/// The word of a lock that nobody holds.
const FREE: u32 = 0;
/// Flag beside the owner: a thread may sleep until the lock is free.
const AWAITED: u32 = 1;
/// Flag beside the owner: it holds the lock for a fork.
const FORK: u32 = 2;
/// Held for a fork, without an owner.
const LOST: u32 = FORK;

/// Milliseconds that a thread sleeps before it checks whether it waits in vain.
const MOMENT: u64 = 100;

/// The same in a program that [nests](sync::nests) requests, where many a wait is in vain.
const SHORT_MOMENT: u64 = 1;

/// Moments after which a lock that its owner has not unlocked counts as lost.
const MOST_MOMENTS: u32 = 20;

/// Whether to wait for a lock that another thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::global::native) enum Wait {
    Always,
    Never,
}

/// What lets a thread access the value.
#[derive(Clone, Copy, Debug)]
enum Hold {
    /// It holds the lock.
    Lock,
    /// It holds the lock for a fork, and passes through it.
    Fork,
}

/// The lock itself, without the value.
#[derive(Debug)]
struct Lock {
    /// The owner's token and flags, or [`FREE`], or [`LOST`]. Threads that wait sleep on this word.
    word: AtomicU32,
    /// Whether the thread that holds the lock for a fork is using the value.
    passing: AtomicBool,
}

/// A value behind the lock.
#[derive(Debug)]
pub(in crate::global::native) struct Locked<T> {
    /// Who holds it may access the value.
    lock: Lock,
    /// What the lock protects.
    value: UnsafeCell<T>,
}

// SAFETY: only one thread at a time accesses the value: the one that holds the lock.
unsafe impl<T: Send> Sync for Locked<T> {}

impl<T> Locked<T> {
    /// Makes a lock that is free, around `value`.
    #[cfg(not(pagewise_model))]
    pub(in crate::global::native) const fn new(value: T) -> Self {
        let lock = Lock { word: AtomicU32::new(FREE), passing: AtomicBool::new(false) };
        Self { lock, value: UnsafeCell::new(value) }
    }

    /// As above, for the model checker, whose atomics cannot be made at compile time.
    #[cfg(pagewise_model)]
    pub(in crate::global::native) fn new(value: T) -> Self {
        let lock = Lock { word: AtomicU32::new(FREE), passing: AtomicBool::new(false) };
        Self { lock, value: UnsafeCell::new(value) }
    }

    /// Runs `action` on the value, which no other thread accesses meanwhile. If the lock cannot be
    /// waited for, does nothing and returns `None`.
    #[inline]
    pub(in crate::global::native) fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.with_if(Wait::Always, action)
    }

    /// As [`with`](Self::with), but returns `None` instead of waiting.
    #[inline]
    pub(in crate::global::native) fn try_with<R>(
        &self,
        action: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        self.with_if(Wait::Never, action)
    }

    /// As [`with`](Self::with) or [`try_with`](Self::try_with), as `wait` says.
    #[inline(always)]
    pub(in crate::global::native) fn with_if<R>(
        &self,
        wait: Wait,
        action: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let hold = self.lock.hold(wait)?;
        Some(self.run(hold, action))
    }

    /// Runs `action`, as the caller may by this hold, and ends the hold. (The only place that calls
    /// the action, which is often inlined here.)
    #[inline]
    fn run<R>(&self, hold: Hold, action: impl FnOnce(&mut T) -> R) -> R {
        /// Ends the process if the action unwinds: the value may be inconsistent, and an allocator
        /// must not unwind. The panic's handler runs before that, and finds the lock held by its
        /// own thread.
        struct Unwinding;
        impl Drop for Unwinding {
            fn drop(&mut self) {
                os::stop(b"pagewise: the allocator panicked\n");
            }
        }

        let unwinding = Unwinding;
        // SAFETY: the calling thread holds the lock, and `passing` keeps its own handlers out if it
        // holds it for a fork.
        let result = self.value.with_mut(|value| action(unsafe { &mut *value }));
        core::mem::forget(unwinding);
        self.lock.let_go(hold);
        result
    }

    /// Returns whether a thread waits for the lock. (The lock is held.)
    pub(in crate::global::native) fn is_awaited(&self) -> bool {
        self.lock.word.load(Relaxed) & AWAITED != 0
    }

    /// Returns whether the thread with this token holds the lock.
    pub(in crate::global::native) fn is_held_by(&self, thread: u32) -> bool {
        owner(self.lock.word.load(Relaxed)) == thread
    }

    /// Returns whether the lock is lost: nobody can take it any more.
    pub(in crate::global::native) fn is_lost(&self) -> bool {
        self.lock.word.load(Relaxed) & !AWAITED == LOST
    }

    /// Takes the lock until [`after_fork`](Self::after_fork), unless the calling thread holds it
    /// already. `pause` lets other threads run for a moment; when it returns `false`, the lock is
    /// given up.
    pub(in crate::global::native) fn take_for_fork(&self, pause: impl FnMut() -> bool) {
        self.lock.take_for_fork(pause);
    }

    /// Unlocks, if the calling thread took the lock for a fork.
    pub(in crate::global::native) fn after_fork(&self) {
        self.lock.after_fork();
    }

    /// As [`after_fork`](Self::after_fork), in the child. If another thread held the lock, the
    /// value may be inconsistent; then the lock is marked lost, and the result is `true`.
    pub(in crate::global::native) fn after_fork_in_child(&self) -> bool {
        self.lock.after_fork_in_child()
    }
}

impl Lock {
    /// Takes the lock, if it is free or can be waited for and `wait` says so; or lets the thread
    /// that took it for a fork pass.
    #[inline]
    fn hold(&self, wait: Wait) -> Option<Hold> {
        let me = sync::token();
        if self.try_lock(me) {
            return Some(Hold::Lock);
        }
        match wait {
            Wait::Always => self.hold_contended(me),
            Wait::Never => None,
        }
    }

    /// Ends a hold.
    #[inline]
    fn let_go(&self, hold: Hold) {
        match hold {
            Hold::Lock => self.unlock(),
            Hold::Fork => self.passing.store(false, Release),
        }
    }

    /// Takes the lock if it is free; returns whether it did. `me` is the thread's token.
    #[inline(always)]
    fn try_lock(&self, me: u32) -> bool {
        self.word.compare_exchange(FREE, me, Acquire, Relaxed).is_ok()
    }

    /// Waits for the lock and takes it. If it cannot be waited for, the calling thread may hold it
    /// for a fork.
    #[cold]
    fn hold_contended(&self, me: u32) -> Option<Hold> {
        if self.wait_and_lock(me) {
            return Some(Hold::Lock);
        }
        let held = self.word.load(Relaxed);
        if held & FORK == 0 && owner(held) == me {
            sync::note_nesting();
        }
        // The flag keeps out a signal handler that interrupts the action.
        let passes = held == me | FORK && !self.passing.swap(true, Acquire);
        passes.then_some(Hold::Fork)
    }

    /// Waits for the lock and takes it; `false` if it cannot be waited for.
    fn wait_and_lock(&self, me: u32) -> bool {
        for _ in 0..SPINS {
            let held = self.word.load(Relaxed);
            if held == FREE && self.try_lock(me) {
                return true;
            }
            if may_wait_forever(held, me) {
                return false;
            }
            spin_loop();
        }
        let mut moments = Moments::default();
        loop {
            let held = self.word.load(Relaxed);
            if held == FREE {
                // Keep the flag: other threads may sleep, and an unlock wakes only one of them,
                // which must wake the next.
                if self.word.compare_exchange(FREE, me | AWAITED, Acquire, Relaxed).is_ok() {
                    return true;
                }
            } else if may_wait_forever(held, me)
                || sync::is_forking(me)
                || sync::holds_a_lock_if_nesting(me)
            {
                return false;
            } else if held & AWAITED != 0
                || self.word.compare_exchange(held, held | AWAITED, Relaxed, Relaxed).is_ok()
            {
                let moment = if sync::nests() { SHORT_MOMENT } else { MOMENT };
                os::wait_for(&self.word, held | AWAITED, moment);
                if self.word.load(Relaxed) != held | AWAITED {
                    moments = Moments::default();
                } else if self.is_in_vain(held, me, moments.count()) {
                    return false;
                }
            }
        }
    }

    /// Returns whether the wait for an owner that has not unlocked for this many moments might
    /// never end. Marks a lock as lost whose owner may have stayed behind.
    fn is_in_vain(&self, held: u32, me: u32, moments: u32) -> bool {
        let is_left_behind = moments >= MOST_MOMENTS || sync::is_unannounced_child();
        if is_left_behind {
            let _ = self.word.compare_exchange(held | AWAITED, LOST, Relaxed, Relaxed);
            os::wake_all(&self.word);
        }
        is_left_behind || sync::nests() || sync::holds_a_lock(me)
    }

    /// Frees the lock, which the calling thread holds, and wakes a thread that waits for it.
    #[inline]
    fn unlock(&self) {
        if self.word.swap(FREE, Release) & AWAITED != 0 {
            os::wake(&self.word);
        }
    }

    /// As [`Locked::take_for_fork`].
    fn take_for_fork(&self, mut pause: impl FnMut() -> bool) {
        let me = sync::token();
        while self.word.compare_exchange(FREE, me | FORK, Acquire, Relaxed).is_err() {
            let held = self.word.load(Relaxed);
            if owner(held) == me || held == LOST || !pause() {
                return;
            }
        }
        // Threads that fell asleep before must not sleep through the fork.
        os::wake_all(&self.word);
    }

    /// Unlocks, if the calling thread took the lock for a fork.
    fn after_fork(&self) {
        if self.word.load(Relaxed) == sync::token() | FORK {
            self.unlock();
        }
    }

    /// As [`Locked::after_fork_in_child`].
    fn after_fork_in_child(&self) -> bool {
        self.after_fork();
        let held = self.word.load(Relaxed);
        let lost = held != FREE && owner(held) != sync::token();
        if lost {
            self.word.store(LOST, Relaxed);
        }
        lost
    }
}

/// Counts the moments that a thread waits for the same owner. However long a process stands still
/// (stopped, frozen), that is one moment: its owner did not run, either.
#[derive(Default)]
struct Moments {
    /// When the current moment began, in milliseconds; 0: not known yet.
    since: u64,
    /// Number of moments that have passed.
    past: u32,
}

impl Moments {
    /// Returns the moments since the first call.
    fn count(&mut self) -> u32 {
        let now = os::now();
        if self.since == 0 {
            self.since = now;
        } else if now >= self.since.saturating_add(MOMENT) {
            (self.since, self.past) = (now, self.past + 1);
        }
        self.past
    }
}

/// Returns the token of a lock's holder.
fn owner(held: u32) -> u32 {
    held & !(AWAITED | FORK)
}

/// Returns whether waiting for a lock in this state might never end.
fn may_wait_forever(held: u32, me: u32) -> bool {
    held & FORK != 0 || owner(held) == me
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::sync::mpsc;
    use std::thread::{self, JoinHandle};
    use std::time::Duration;

    use super::*;
    use crate::os::alone;

    /// Spawns a thread that holds the lock until it gets a message; returns both ends.
    fn hold(locked: &'static Locked<u32>) -> (JoinHandle<Option<()>>, mpsc::Sender<()>) {
        let (held, is_held) = mpsc::channel();
        let (let_go, may_go) = mpsc::channel::<()>();
        let owner = thread::spawn(move || {
            locked.with(|_| {
                held.send(()).expect("the test waits");
                may_go.recv().expect("the test says so");
            })
        });
        is_held.recv().expect("the lock is taken");
        (owner, let_go)
    }

    /// Returns the value that another thread finds without waiting for the lock.
    fn found_by_another(locked: &'static Locked<u32>) -> Option<u32> {
        thread::spawn(|| locked.try_with(|value| *value)).join().expect("it ends")
    }

    /// Waiting threads are noticed, and each gets the lock for itself in its turn.
    #[test]
    fn waiting_threads_are_woken() {
        static LOCKED: Locked<u32> = Locked::new(7);
        let (owner, let_go) = hold(&LOCKED);
        assert!(!LOCKED.is_awaited());
        let (ended, ends) = mpsc::channel();
        for _ in 0..4 {
            let ended = ended.clone();
            thread::spawn(move || {
                let increment = || {
                    LOCKED.with(|value| {
                        let before = *value;
                        thread::yield_now();
                        *value = before + 1;
                    })
                };
                for _ in 0..50 {
                    // A wait may be given up where other tests request memory under a lock.
                    while increment().is_none() {}
                }
                ended.send(()).expect("the test waits");
            });
        }
        let mut looks = 0;
        while !LOCKED.is_awaited() {
            looks += 1;
            assert!(looks < 60_000, "nobody waits");
            thread::sleep(Duration::from_millis(1));
        }
        let_go.send(()).expect("the owner waits");
        owner.join().expect("it ends");
        for _ in 0..4 {
            ends.recv_timeout(Duration::from_secs(60)).expect("a thread sleeps for ever");
        }
        assert!(!LOCKED.is_awaited());
        assert_eq!(LOCKED.with(|value| *value), Some(207));
    }

    /// A lock that became free meanwhile is taken, and not only found free.
    #[test]
    fn a_lock_is_taken_when_it_becomes_free() {
        static LOCKED: Locked<u32> = Locked::new(7);
        assert!(matches!(LOCKED.lock.hold_contended(sync::token()), Some(Hold::Lock)));
        assert_eq!(found_by_another(&LOCKED), None);
        LOCKED.lock.unlock();
        assert_eq!(found_by_another(&LOCKED), Some(7));
    }

    /// A lock tells whose it is, whether its owner uses it, is waited for, or forks.
    #[test]
    fn a_lock_knows_its_owner() {
        static LOCKED: Locked<u32> = Locked::new(7);
        let me = sync::token();
        let other = thread::spawn(sync::token).join().expect("it ends");
        assert!(!LOCKED.is_held_by(me), "nobody has it");
        let owners = || [me, other].map(|thread| LOCKED.is_held_by(thread));
        assert_eq!(LOCKED.with(|_| owners()), Some([true, false]));
        assert!(matches!(LOCKED.lock.hold_contended(me), Some(Hold::Lock)), "it is free");
        LOCKED.lock.word.fetch_or(AWAITED, Relaxed);
        assert_eq!(owners(), [true, false], "it is waited for");
        LOCKED.lock.unlock();
        LOCKED.take_for_fork(|| panic!("it is free"));
        assert_eq!(owners(), [true, false], "it is taken for a fork");
        LOCKED.after_fork();
        assert_eq!(owners(), [false, false]);
    }

    /// A fork waits until the owner unlocks. Then the forking thread passes through the lock, and
    /// no other thread takes it until the fork is done.
    #[test]
    fn a_fork_takes_a_lock_once_its_owner_lets_go() {
        static LOCKED: Locked<u32> = Locked::new(7);
        let (owner, let_go) = hold(&LOCKED);
        let mut owner = Some(owner);
        let mut pauses = 0;
        LOCKED.take_for_fork(|| {
            pauses += 1;
            assert!(pauses < 10, "the lock is free");
            if pauses == 3 {
                let_go.send(()).expect("the owner waits");
                let owner = owner.take().expect("it ends once");
                assert_eq!(owner.join().expect("it ends"), Some(()));
            }
            true
        });
        assert_eq!(pauses, 3);
        assert_eq!(found_by_another(&LOCKED), None);
        let nested = |value: &mut u32| (*value, LOCKED.with(|value| *value));
        assert_eq!(LOCKED.with(nested), Some((7, None)), "no handler gets in between");
        // This thread has the lock already.
        LOCKED.take_for_fork(|| panic!("nothing is waited for"));
        LOCKED.after_fork();
        assert_eq!(found_by_another(&LOCKED), Some(7));
    }

    /// A lock that a fork gave up stays with its owner; in the child, where the owner does not
    /// exist, it is lost.
    #[test]
    fn a_lock_that_is_given_up_is_lost_in_the_child() {
        static LOCKED: Locked<u32> = Locked::new(7);
        let (owner, let_go) = hold(&LOCKED);
        let mut pauses = 0;
        LOCKED.take_for_fork(|| {
            pauses += 1;
            pauses < 5
        });
        assert_eq!(pauses, 5);
        LOCKED.after_fork();
        assert_eq!(found_by_another(&LOCKED), None, "the owner has it");
        // As if this were the child.
        assert!(LOCKED.after_fork_in_child(), "the owner is another thread");
        LOCKED.take_for_fork(|| panic!("a lost lock is not waited for"));
        assert_eq!(LOCKED.with(|value| *value), None, "a lost lock is not waited for");
        let_go.send(()).expect("the owner waits");
        owner.join().expect("it ends");
        assert!(!LOCKED.after_fork_in_child(), "it is free");
        LOCKED.with(|_| assert!(!LOCKED.after_fork_in_child(), "this thread has it"));
        LOCKED.take_for_fork(|| panic!("it is free"));
        assert!(!LOCKED.after_fork_in_child(), "this thread took it");
        assert_eq!(found_by_another(&LOCKED), Some(7));
    }

    /// A lock that its owner does not unlock for long is given up, and nobody gets it until the
    /// owner has unlocked it after all.
    #[test]
    fn a_lock_that_is_held_for_long_is_lost_until_it_is_unlocked() {
        static LOCKED: Locked<u32> = Locked::new(7);
        let (owner, let_go) = hold(&LOCKED);
        let (answer, answered) = mpsc::channel();
        let waiter = thread::spawn(move || {
            answer.send([(); 3].map(|()| LOCKED.with(|value| *value))).expect("the test waits");
        });
        assert_eq!(answered.recv_timeout(Duration::from_secs(60)), Ok([None; 3]));
        waiter.join().expect("it ends");
        assert_eq!(found_by_another(&LOCKED), None, "the owner has it");
        let_go.send(()).expect("the owner waits");
        assert_eq!(owner.join().expect("it ends"), Some(()));
        assert_eq!(found_by_another(&LOCKED), Some(7));
    }

    /// A wait is in vain after many moments, and the lock is lost then. It is in vain at once if a
    /// thread was seen to ask for a lock that it holds, other than for a fork.
    #[test]
    fn waits_in_vain_are_told() {
        alone::passes("global::native::base::lock::tests::in_vain");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn in_vain() {
        static LOCKED: Locked<u32> = Locked::new(7);
        static OTHER: Locked<u32> = Locked::new(7);
        let me = sync::token();
        let (owner, let_go) = hold(&LOCKED);
        let state = || LOCKED.lock.word.load(Relaxed);
        let held = state();
        for moments in [0, 1, MOST_MOMENTS - 1] {
            assert!(!LOCKED.lock.is_in_vain(held, me, moments), "{moments} moments");
        }
        LOCKED.lock.word.store(held | AWAITED, Relaxed);
        assert!(LOCKED.lock.is_in_vain(held | AWAITED, me, MOST_MOMENTS));
        assert_eq!(state(), LOST);
        LOCKED.lock.word.store(held, Relaxed);

        OTHER.take_for_fork(|| panic!("it is free"));
        assert_eq!(OTHER.with(|value| *value), Some(7), "it passes through");
        OTHER.after_fork();
        assert!(!LOCKED.lock.is_in_vain(held, me, 0), "a fork is no request within another");
        assert_eq!(OTHER.with(|_| OTHER.with(|_| ())), Some(None));
        assert!(LOCKED.lock.is_in_vain(held, me, 0));
        assert_eq!(state(), held, "the owner has it");
        let_go.send(()).expect("the owner waits");
        owner.join().expect("it ends");
    }

    /// A forking thread does not wait for a lock, because in the child its owner might not exist.
    /// (Regression: a handler that ran before ours did.)
    #[test]
    fn a_thread_that_forks_waits_for_nobody() {
        static LOCKED: Locked<u32> = Locked::new(7);
        let (owner, let_go) = hold(&LOCKED);
        let (answer, answered) = mpsc::channel();
        let forker = thread::spawn(move || {
            sync::begin_fork();
            answer.send(LOCKED.with(|value| *value)).expect("the test waits");
            assert!(!sync::end_fork(), "it forked once");
            LOCKED.with(|value| *value)
        });
        assert_eq!(answered.recv_timeout(Duration::from_secs(60)), Ok(None));
        let_go.send(()).expect("the owner waits");
        assert_eq!(owner.join().expect("it ends"), Some(()));
        assert_eq!(forker.join().expect("it ends"), Some(7), "it waits again");
    }
}
