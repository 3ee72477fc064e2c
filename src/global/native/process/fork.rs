//! Handles forks at any moment: by a program with threads, in a signal handler, or while the
//! program's own fork handlers allocate.
//!
//! ```text
//!  parent, the thread that forks       its other threads                 child
//!  take all locks but the spare heap's  a lock held for the fork:         lets go of the locks taken;
//!  (handlers of the program)            blocks come from the spare heap,  a lock that another thread
//!  fork                                 freed ones wait at their heap     held is lost, with its heap
//!  let go of the locks                  (`deferred`)
//! ```
//! So everything that the locks protect is intact in the child. No thread waits for a lock that is
//! held for a fork: the C library takes its own locks after ours, and their owners may need memory
//! before they let go. GNU's `malloc` takes its locks last of all, which a fork handler cannot do.
//!
//! Handlers of the program may run between ours and the fork, and before ours in the child. The
//! forking thread waits for no lock in that time: in the child, the lock's owner may not exist.
//!
//! A process with a single thread takes no locks, and changes nothing in the child but the number
//! of the process: nobody can be about to change what they protect. Each OS page that a handler
//! writes is copied for the parent or the child, which takes as long as many requests.
//!
//! A lock stays as it is if it cannot be taken within a second because its owner forks as well, or
//! if the calling thread holds it itself (it forks in a signal handler).
//!
//! A signal handler may fork while its thread forks already. In the parent, the locks stay taken
//! until the outer fork has happened; in the handler's child they are let go of at once.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::global::native::base::apart::Apart;
use crate::global::native::base::sync;
use crate::global::native::guarded;
use crate::global::native::heaps::{background, kept, mapping};
use crate::global::native::lists::registry;
use crate::global::native::profile;
use crate::os;

/// The most pauses that a thread waits, some 70 microseconds each: before a fork for all locks
/// together, and for the end of a fork if it finds no memory meanwhile.
const MOST_PAUSES: u32 = 15_000;

/// Number of forks under way.
static FORKS: Apart<AtomicU32> = Apart::new(AtomicU32::new(0));

/// Registers the fork handlers.
pub(in crate::global::native) fn register() {
    // SAFETY: the handlers may run at any time.
    unsafe { os::at_fork(Some(before), Some(in_parent), Some(in_child)) };
}

/// Called before a fork, in the thread that forks: takes the locks.
extern "C" fn before() {
    if os::is_single_threaded() {
        return;
    }
    registry::prepare_for_fork();
    FORKS.fetch_add(1, Relaxed);
    sync::begin_fork();
    let mut waited = 0;
    let mut pause = || {
        os::pause();
        waited += 1;
        waited < MOST_PAUSES
    };
    registry::take_for_fork(&mut pause);
    profile::take_for_fork(&mut pause);
    kept::take_for_fork(&mut pause);
    guarded::take_for_fork(&mut pause);
    // In a child that a signal handler made meanwhile, nothing is known of this fork any more.
    if FORKS.fetch_max(1, Relaxed) == 0 {
        sync::begin_fork();
    }
}

/// Called after a fork, in the parent.
extern "C" fn in_parent() {
    if FORKS.load(Relaxed) == 0 {
        return;
    }
    // First of all: a signal handler that forks from now on lets go of the locks that it takes.
    let forks_still = sync::end_fork();
    if !forks_still {
        guarded::after_fork();
        kept::after_fork();
        profile::after_fork();
        registry::after_fork();
    }
    FORKS.fetch_sub(1, Relaxed);
}

/// Called after a fork, in the child, which has only the thread that forked.
extern "C" fn in_child() {
    if FORKS.load(Relaxed) == 0 {
        return sync::note_process();
    }
    sync::note_fork_in_child();
    guarded::after_fork_in_child();
    kept::after_fork_in_child();
    mapping::after_fork_in_child();
    profile::after_fork_in_child();
    registry::after_fork_in_child();
    background::after_fork_in_child();
    sync::end_fork_in_child();
    FORKS.store(0, Relaxed);
}

/// Waits until no fork is under way, for a limited time. Returns whether there was one.
#[cold]
pub(in crate::global::native) fn wait_for_end() -> bool {
    let is_under_way = || FORKS.load(Relaxed) > 0;
    // In a child for which no fork handler ran, no thread is left to end the fork.
    if !is_under_way() || sync::is_unannounced_child() {
        return false;
    }
    for _ in 0..MOST_PAUSES {
        if !is_under_way() {
            break;
        }
        os::pause();
    }
    true
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::global::native::heaps::heap::Heap;
    use crate::os::alone;

    /// Beside other threads, as in a test, locks are taken for a fork.
    #[test]
    fn a_process_with_threads_is_known() {
        let is_single = std::thread::spawn(os::is_single_threaded).join();
        assert_eq!(is_single.ok(), Some(false));
    }

    #[test]
    fn a_fork_waits_for_a_heap_in_use() {
        alone::passes("global::native::process::fork::tests::waits");
    }

    /// A signal handler that forks within a fork leaves the locks to the outer fork in the parent,
    /// and lets go of them in its child, whatever the outer fork does there.
    #[test]
    fn a_fork_within_a_fork_keeps_the_locks() {
        alone::passes("global::native::process::fork::tests::nested");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn nested() {
        let heap = registry::heap_for_test();
        let is_free =
            || std::thread::spawn(|| heap.with(|_| ()).is_some()).join().expect("it ends");
        before();
        before();
        in_parent();
        assert!(!is_free(), "the outer fork has not happened yet");
        in_parent();
        assert!(is_free());

        before();
        before();
        in_child();
        assert!(is_free(), "the handler's child");
        assert!(!sync::end_fork());
        in_parent();
        assert!(is_free());
    }

    /// Statistics that are asked for during a fork are those of all heaps. (Regression: no heap was
    /// counted.)
    #[test]
    fn statistics_wait_for_a_fork() {
        alone::passes("global::native::process::fork::tests::counts");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn counts() {
        let heap = registry::heap_for_test();
        before();
        let asked = std::thread::spawn(crate::global::native::process::statistics::stats);
        std::thread::sleep(Duration::from_millis(30));
        in_parent();
        let stats = asked.join().expect("it ends");
        assert!(stats.heaps > heap.slot() && stats.held > 0, "{stats:?}");
    }

    /// A thread that must not get in the way of a fork waits for its end, and is told whether there
    /// was one.
    #[test]
    fn the_end_of_a_fork_is_waited_for() {
        alone::passes("global::native::process::fork::tests::ends");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn ends() {
        assert!(!wait_for_end());
        FORKS.store(2, Relaxed);
        let thread = std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            FORKS.fetch_sub(1, Relaxed);
            std::thread::sleep(Duration::from_millis(20));
            FORKS.fetch_sub(1, Relaxed);
        });
        assert!(wait_for_end());
        assert_eq!(FORKS.load(Relaxed), 0);
        thread.join().expect("it ends");
        assert!(!wait_for_end());
    }

    #[test]
    fn a_fork_does_not_wait_for_ever() {
        alone::passes("global::native::process::fork::tests::gives_up");
    }

    /// Makes a child while another thread has a heap, for `held` at most. Returns the status with
    /// which the child exits: that of `look`, given the heap.
    fn child_beside_a_holder(
        held: Duration,
        fork: impl FnOnce() -> libc::pid_t,
        look: impl FnOnce(&'static Heap) -> i32,
    ) -> i32 {
        let heap = registry::heap_for_test();
        let (taken, is_taken) = channel();
        let (done, is_done) = channel::<()>();
        let holder = std::thread::spawn(move || {
            heap.with(|_| {
                taken.send(()).expect("the test waits");
                let _ = is_done.recv_timeout(held);
            })
        });
        is_taken.recv().expect("the thread has the lock");
        let child = fork();
        if child == 0 {
            let status = look(heap);
            // SAFETY: the call touches no memory of ours.
            unsafe { libc::_exit(status) };
        }
        let mut status = 0;
        // SAFETY: the call writes the status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        let _ = done.send(());
        holder.join().expect("it ends");
        assert!(heap.with(|_| ()).is_some(), "the parent has it");
        assert!(libc::WIFEXITED(status), "{status:#x}");
        libc::WEXITSTATUS(status)
    }

    /// Forks while another thread has a heap, for `held` at most. Returns whether the child has the
    /// heap.
    fn child_has_a_heap_in_use(held: Duration) -> bool {
        // SAFETY: the child only looks at the heap, and ends.
        let fork = || unsafe { libc::fork() };
        child_beside_a_holder(held, fork, |heap| i32::from(heap.with(|_| ()).is_some())) == 1
    }

    /// A child made by the system call `clone`, which runs no fork handlers, does not wait for ever
    /// for a lock whose owner is not in the child.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_of_clone_waits_for_no_lock_of_its_parent() {
        alone::passes("global::native::process::fork::tests::cloned");
    }

    #[cfg(target_os = "linux")]
    #[test]
    #[ignore = "in a process of its own"]
    fn cloned() {
        // SAFETY: without flags the call is a fork; the child only looks at the heap, and ends.
        let clone = || unsafe {
            let (flags, stack, none) = (libc::SIGCHLD as usize, 0_usize, 0_usize);
            let first = if cfg!(target_arch = "s390x") { [stack, flags] } else { [flags, stack] };
            libc::syscall(libc::SYS_clone, first[0], first[1], none, none, none) as libc::pid_t
        };
        // The child asks twice: the second time the lock is known to be lost.
        let look = |heap: &'static Heap| {
            i32::from([(); 2].map(|()| heap.with(|_| ()).is_some()) == [false; 2])
        };
        assert_eq!(child_beside_a_holder(Duration::from_secs(300), clone, look), 1);
    }

    /// Two threads each hold a heap and ask for the other's, as they do within functions of the
    /// program that take the place of system calls: at least one does without.
    #[test]
    fn threads_that_hold_locks_do_not_wait_for_each_other() {
        alone::passes("global::native::process::fork::tests::crosswise");
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn crosswise() {
        let [one, other] = [(); 2].map(|()| registry::heap_for_test());
        static BOTH: std::sync::Barrier = std::sync::Barrier::new(2);
        let ask = |own: &'static Heap, other: &'static Heap| {
            let nested = move || {
                BOTH.wait();
                let got = other.with(|_| ());
                assert!(own.with(|_| ()).is_none(), "it is this thread's");
                got
            };
            std::thread::spawn(move || own.with(|_| nested()).expect("nobody else had it"))
        };
        for _ in 0..3 {
            let threads = [ask(one, other), ask(other, one)];
            let got = threads.map(|thread| thread.join().expect("it ends"));
            assert!(got.contains(&None));
            for heap in [one, other] {
                assert!(heap.with(|_| ()).is_some(), "it is free");
            }
        }
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn waits() {
        assert!(child_has_a_heap_in_use(Duration::from_millis(100)));
    }

    #[test]
    #[ignore = "in a process of its own"]
    fn gives_up() {
        assert!(!child_has_a_heap_in_use(Duration::from_secs(300)));
    }
}
